// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"
)

// connection are kubectl's flags for the cluster, the user and the namespace. Those of cli-runtime bring a client for
// discovery, kustomize and the types of all of Kubernetes into the plugin.
type connection struct {
	rules     *clientcmd.ClientConfigLoadingRules
	overrides clientcmd.ConfigOverrides
	extra     []string
}

func newConnection() *connection {
	c := &connection{rules: clientcmd.NewDefaultClientConfigLoadingRules()}
	// Without a configuration, kubectl tries localhost.
	c.rules.DefaultClientConfig = &clientcmd.DefaultClientConfig
	c.overrides.ClusterDefaults = clientcmd.ClusterDefaults
	return c
}

func (c *connection) addFlags(flags *pflag.FlagSet) {
	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.ClusterOverrideFlags.APIServer.ShortName = "s"
	// kubectl has no flags for these.
	names.ClusterOverrideFlags.ProxyURL.LongName = ""
	names.AuthOverrideFlags.Username.LongName, names.AuthOverrideFlags.Password.LongName = "", ""
	clientcmd.BindOverrideFlags(&c.overrides, flags, names)
	flags.StringVar(&c.rules.ExplicitPath, "kubeconfig", "", "Path to the kubeconfig file to use for CLI requests.")
	flags.StringArrayVar(&c.extra, "as-user-extra", nil, "User extras to impersonate for the operation, this flag can "+
		"be repeated to specify multiple values for the same key.")
}

// config is what the flags and the kubeconfig say together.
func (c *connection) config() clientcmd.ClientConfig {
	overrides := c.overrides
	for _, e := range c.extra {
		key, value, _ := strings.Cut(e, "=")
		if overrides.AuthInfo.ImpersonateUserExtra == nil {
			overrides.AuthInfo.ImpersonateUserExtra = map[string][]string{}
		}
		overrides.AuthInfo.ImpersonateUserExtra[key] = append(overrides.AuthInfo.ImpersonateUserExtra[key], value)
	}
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(c.rules, &overrides)
}

// wrong says why no cluster can be chosen. It is the command line that is wrong if a flag names what does not exist.
func (c *connection) wrong(doing string, err error) error {
	if path := c.rules.ExplicitPath; path != "" {
		if _, missing := os.Stat(path); missing != nil {
			return misused("--kubeconfig: %w", missing)
		}
	}
	raw, unread := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(c.rules, nil).RawConfig()
	if unread != nil {
		return fmt.Errorf("reading the kubeconfig: %w", unread)
	}
	of := c.overrides
	if name := of.CurrentContext; name != "" && raw.Contexts[name] == nil {
		return misused("--context: the kubeconfig has no context %q; to list them: kubectl config get-contexts", name)
	}
	if name := of.Context.Cluster; name != "" && raw.Clusters[name] == nil {
		return misused("--cluster: the kubeconfig has no cluster %q; to list them: kubectl config get-clusters", name)
	}
	if name := of.Context.AuthInfo; name != "" && raw.AuthInfos[name] == nil {
		return misused("--user: the kubeconfig has no user %q; to list them: kubectl config get-users", name)
	}
	if name := raw.CurrentContext; of.CurrentContext == "" && name != "" && raw.Contexts[name] == nil {
		return fmt.Errorf("the kubeconfig has no context %q, which is its current one; to list them: kubectl config get-contexts", name)
	}
	if _, wrong := clientcmd.ParseTimeout(of.Timeout); of.Timeout != "" && wrong != nil {
		return misused("--request-timeout is %q; it must be a duration such as 30s, or a number of seconds", of.Timeout)
	}
	if as := of.AuthInfo; as.Impersonate == "" && (as.ImpersonateUID != "" || len(as.ImpersonateGroups)+len(c.extra) > 0) {
		return misused("--as is missing: groups, a UID and extras can be impersonated only together with a user")
	}
	return fmt.Errorf("%s: %w", doing, err)
}
