// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/host"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/node"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/pki"
)

// provider is one of the four programs that Cluster API consists of.
type provider struct {
	module string
	// folder holds the program's main package and its manifests, below the module.
	folder    string
	namespace string
}

const capiModule = "sigs.k8s.io/cluster-api"

// providers run clusters of kubeadm machines that exist only in the memory of the last one.
var providers = []provider{
	{capiModule, "", "capi-system"},
	{capiModule, "bootstrap/kubeadm", "capi-kubeadm-bootstrap-system"},
	{capiModule, "controlplane/kubeadm", "capi-kubeadm-control-plane-system"},
	{capiModule + "/test", "infrastructure/docker", "capd-system"},
}

// capiSettings replace the defaults of the manifests' variables.
var capiSettings = map[string]string{"CLUSTER_TOPOLOGY": "true"}

// capiLabel marks every object of Cluster API's manifests.
const capiLabel = "cluster.x-k8s.io/provider"

// clusterAPI returns the function that installs one release of Cluster API.
func (p *Platform) clusterAPI(part Part) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, other := range exclusive {
			if other != part && p.applied(string(other)) {
				return fmt.Errorf("%s is installed, and shares its CRDs: remove it with \"cluster remove %s\"", other, other)
			}
		}
		var all []object
		for _, one := range providers {
			objects, err := p.provider(ctx, string(part), one)
			if err != nil {
				return err
			}
			all = append(all, objects...)
		}
		if err := p.install(ctx, string(part), providers[0].namespace, all, nil); err != nil {
			return err
		}
		for _, one := range providers {
			if err := p.settle(ctx, one.namespace); err != nil {
				return err
			}
		}
		return nil
	}
}

// provider returns the manifests of one provider, as its release has them but for the images and certificates.
func (p *Platform) provider(ctx context.Context, part string, one provider) ([]object, error) {
	dir, err := p.builder.ModuleDir(ctx, part, one.module)
	if err != nil {
		return nil, err
	}
	text, err := host.Run(ctx, "", p.node.Kubectl(), "kustomize", filepath.Join(dir, one.folder, "config", "default"))
	if err != nil {
		return nil, fmt.Errorf("rendering %s of %s: %w", one.folder, one.module, err)
	}
	objects, err := decode(substitute(text, capiSettings))
	if err != nil {
		return nil, err
	}
	ca, err := pki.OpenAuthority(filepath.Join(node.Dir, "pki"), "webhook-ca")
	if err != nil {
		return nil, err
	}
	if objects, err = certify(objects, ca); err != nil {
		return nil, err
	}
	runs(objects, "ko://"+strings.TrimSuffix(one.module+"/"+one.folder, "/"))
	return objects, nil
}

var placeholder = regexp.MustCompile(`\$\{([A-Z0-9_]+):=([^}]*)\}`)

// substitute replaces the variables of clusterctl's templates by their settings or their defaults.
func substitute(text string, settings map[string]string) string {
	return placeholder.ReplaceAllStringFunc(text, func(found string) string {
		m := placeholder.FindStringSubmatch(found)
		if v, ok := settings[m[1]]; ok {
			return v
		}
		return m[2]
	})
}

// certify does the work of cert-manager, which would be a part of its own: each Certificate becomes a Secret, and
// the API server trusts its authority when it calls webhooks.
func certify(objects []object, ca *pki.Authority) ([]object, error) {
	bundle, err := os.ReadFile(ca.CertFile())
	if err != nil {
		return nil, fmt.Errorf("reading the authority of webhooks: %w", err)
	}
	var out []object
	for _, o := range objects {
		switch o.kind() {
		case "Issuer":
			continue
		case "Certificate":
			if o, err = secretFor(o, ca); err != nil {
				return nil, err
			}
		case "CustomResourceDefinition":
			trust(o, bundle, "spec", "conversion", "webhook")
		case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration":
			webhooks, _ := o["webhooks"].([]any) // absent: nothing to trust
			for _, w := range webhooks {
				if w, ok := w.(map[string]any); ok {
					trust(w, bundle)
				}
			}
		}
		out = append(out, o)
	}
	return out, nil
}

// secretFor returns the Secret that a Certificate of cert-manager asks for.
func secretFor(certificate object, ca *pki.Authority) (object, error) {
	spec := within(certificate, "spec")
	names, _ := spec["dnsNames"].([]any) // checked below
	var hosts []string
	for _, n := range names {
		hosts = append(hosts, fmt.Sprint(n))
	}
	secret, namespace := text(spec, "secretName"), text(certificate, "metadata", "namespace")
	if secret == "" || len(hosts) == 0 {
		return nil, fmt.Errorf("the Certificate %s names no Secret or no host", certificate.name())
	}
	pair, err := ca.Issue(pki.Leaf{Name: "webhook-" + namespace, User: hosts[0], Hosts: hosts})
	if err != nil {
		return nil, err
	}
	data := map[string]any{}
	for key, file := range map[string]string{"tls.crt": pair.Cert, "tls.key": pair.Key} {
		content, err := os.ReadFile(file) //nolint:gosec // in the state folder
		if err != nil {
			return nil, fmt.Errorf("reading the certificate of %s: %w", certificate.name(), err)
		}
		data[key] = base64.StdEncoding.EncodeToString(content)
	}
	return object{
		"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "data": data,
		"metadata": map[string]any{"name": secret, "namespace": namespace},
	}, nil
}

// trust sets the authority of a client configuration, if there is one at the path.
func trust(o map[string]any, bundle []byte, path ...string) {
	if client := within(o, append(path, "clientConfig")...); client != nil {
		client["caBundle"] = base64.StdEncoding.EncodeToString(bundle)
	}
}

// within returns the map at a path; nil if there is none.
func within(o map[string]any, path ...string) map[string]any {
	for _, key := range path {
		o, _ = o[key].(map[string]any) // absent: nil has no keys either
	}
	return o
}

// runs sets the image of the Deployments. The entry point of an image of ko is its program. The provider for
// Docker keeps its machines in memory here, so it needs neither Docker's socket nor privileges.
func runs(objects []object, image string) {
	for _, o := range objects {
		if o.kind() != "Deployment" {
			continue
		}
		docker := func(v any) bool {
			m, ok := v.(map[string]any)
			return ok && m["name"] == "dockersock"
		}
		for _, c := range containers(o) {
			c["image"] = image
			c["imagePullPolicy"] = "IfNotPresent"
			c["resources"] = map[string]any{"requests": map[string]any{"cpu": smallRequest}}
			delete(c, "command")
			if within(c, "securityContext")["privileged"] == true {
				delete(c, "securityContext")
			}
			mounts, _ := c["volumeMounts"].([]any) // absent: nothing to leave out
			c["volumeMounts"] = slices.DeleteFunc(mounts, docker)
		}
		pod := within(o, "spec", "template", "spec")
		volumes, _ := pod["volumes"].([]any) // absent: nothing to leave out
		pod["volumes"] = slices.DeleteFunc(volumes, docker)
	}
}

// removeClusterAPI removes a release of Cluster API. It lets the providers delete the clusters first, for their
// objects have finalizers.
func (p *Platform) removeClusterAPI(ctx context.Context, part Part) error {
	step := p.say.Begin("removing "+string(part), "")
	for _, args := range [][]string{
		{"delete", "clusters.cluster.x-k8s.io", "--all", "--all-namespaces", "--timeout=3m"},
		{
			"delete", "customresourcedefinitions,validatingwebhookconfigurations,mutatingwebhookconfigurations,clusterroles,clusterrolebindings,namespaces",
			"--selector=" + capiLabel, "--timeout=3m",
		},
	} {
		_, err := host.Run(ctx, "", p.node.Kubectl(), append([]string{"--kubeconfig", node.Kubeconfig()}, args...)...)
		if err != nil && !withoutKind(err.Error()) {
			return step.End(fmt.Errorf("removing %s: %w", part, err))
		}
	}
	return step.End(p.forget(part))
}

// withoutKind reports whether kubectl failed because the API server has no such kind, and so no object of it. What
// kubectl says depends on what it remembers of the API server.
func withoutKind(err string) bool {
	return strings.Contains(err, "the server doesn't have a resource type") || strings.Contains(err, "the server could not find the requested resource")
}
