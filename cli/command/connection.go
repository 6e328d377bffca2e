// SPDX-License-Identifier: Apache-2.0

package command

import (
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
