// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/build"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/host"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/node"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/registry"
)

// packages is what is remembered of the provider and the function.
const packages Part = "crossplane-packages"

const (
	crossplaneNamespace = "crossplane-system"
	crossplaneModule    = "github.com/crossplane/crossplane/v2"
	providerModule      = "github.com/crossplane-contrib/provider-nop"
)

// functionMeta is the package.yaml of the function in parts/compose.
const functionMeta = `apiVersion: meta.pkg.crossplane.io/v1
kind: Function
metadata: {name: compose}
spec:
  capabilities: [composition]
`

// crossplane installs Crossplane and, as packages from the cluster's registry, a provider and a function.
func (p *Platform) crossplane(ctx context.Context) error {
	core, err := p.crossplaneImage(ctx)
	if err != nil {
		return err
	}
	text, err := embedded("crossplane.yaml", map[string]any{"Image": core})
	if err != nil {
		return err
	}
	objects, err := decode(text)
	if err != nil {
		return err
	}
	modest(objects)
	if text, err = encode(objects); err != nil {
		return err
	}
	if err := p.applyOnce(ctx, string(Crossplane), crossplaneNamespace, text); err != nil {
		return err
	}
	if err := p.settle(ctx, crossplaneNamespace); err != nil {
		return err
	}

	provider, err := p.providerPackage(ctx)
	if err != nil {
		return err
	}
	function, err := p.node.PushProgram(ctx, build.Compose, node.Program{
		Name: "function-compose", Entrypoint: []string{"/compose"}, User: node.NonRoot, Package: functionMeta,
	})
	if err != nil {
		return err
	}
	text, err = embedded("crossplane-packages.yaml", map[string]any{"Provider": provider, "Function": function})
	if err != nil {
		return err
	}
	if err := p.applyOnce(ctx, string(packages), crossplaneNamespace, text); err != nil {
		return err
	}
	step := p.say.Begin("waiting for Crossplane's packages", "")
	_, err = host.Run(ctx, "", p.node.Kubectl(), "--kubeconfig", node.Kubeconfig(), "wait", "--for=condition=Healthy",
		"--timeout="+settlePatience.Round(time.Second).String(), "providers.pkg.crossplane.io/provider-nop", "functions.pkg.crossplane.io/compose")
	if err := step.End(err); err != nil {
		return err
	}
	return p.settle(ctx, crossplaneNamespace)
}

// crossplaneImage pushes the image of the release: the program, and the CRDs and webhooks that it installs.
func (p *Platform) crossplaneImage(ctx context.Context) (string, error) {
	dir, err := p.builder.ModuleDir(ctx, "crossplane", crossplaneModule)
	if err != nil {
		return "", err
	}
	var more []registry.File
	for _, folder := range []string{"crds", "webhookconfigurations"} {
		from := filepath.Join(dir, "cluster", folder)
		found, err := os.ReadDir(from)
		if err != nil {
			return "", fmt.Errorf("reading what Crossplane installs: %w", err)
		}
		more = append(more, registry.File{Name: folder, Dir: true, Mode: 0o755})
		for _, f := range found {
			if filepath.Ext(f.Name()) == ".yaml" {
				more = append(more, registry.File{Name: folder + "/" + f.Name(), Mode: 0o644, From: filepath.Join(from, f.Name())})
			}
		}
	}
	return p.node.PushProgram(ctx, build.Crossplane, node.Program{Name: "crossplane", Entrypoint: []string{"/crossplane"}, User: node.NonRoot}, more...)
}

// providerPackage pushes the provider as a package: its program, and package.yaml with all that it declares.
func (p *Platform) providerPackage(ctx context.Context) (string, error) {
	dir, err := p.builder.ModuleDir(ctx, "provider-nop", providerModule)
	if err != nil {
		return "", err
	}
	meta, err := os.ReadFile(filepath.Join(dir, "package", "crossplane.yaml")) //nolint:gosec // of a pinned module
	if err != nil {
		return "", fmt.Errorf("reading the package of %s: %w", providerModule, err)
	}
	rest, err := read(nil, filepath.Join(dir, "package", "crds"), filepath.Join(dir, "package", "webhookconfigurations"))
	if err != nil {
		return "", err
	}
	declared, err := encode(rest)
	if err != nil {
		return "", err
	}
	return p.node.PushProgram(ctx, build.ProviderNop, node.Program{
		Name: "provider-nop", Entrypoint: []string{"/provider"}, User: node.NonRoot,
		Package: strings.TrimSpace(string(meta)) + "\n" + declared,
	})
}

// removeCrossplane removes Crossplane, with everything that it defined. While its programs run, the composites can end;
// after that, nothing else ends their finalizers.
func (p *Platform) removeCrossplane(ctx context.Context) error {
	step := p.say.Begin("removing crossplane", "")
	kubectl := func(args ...string) (string, error) {
		return host.Run(ctx, "", p.node.Kubectl(), append([]string{"--kubeconfig", node.Kubeconfig()}, args...)...)
	}
	for _, args := range [][]string{
		{"delete", "claim,composite", "--all", "--all-namespaces", "--timeout=3m"},
		{"delete", "managed", "--all", "--all-namespaces", "--timeout=3m"},
		{"delete", "compositeresourcedefinitions.apiextensions.crossplane.io", "--all", "--timeout=3m"},
		{"delete", "namespace", crossplaneNamespace, "--ignore-not-found", "--timeout=3m"},
	} {
		if _, err := kubectl(args...); err != nil && !strings.Contains(err.Error(), "the server doesn't have a resource type") {
			return step.End(fmt.Errorf("removing crossplane: %w", err))
		}
	}
	if err := removeLeft(kubectl); err != nil {
		return step.End(fmt.Errorf("removing what crossplane left: %w", err))
	}
	for _, name := range []Part{Crossplane, packages} {
		if err := p.forget(name); err != nil {
			return step.End(err)
		}
	}
	return step.End(nil)
}

// removeLeft removes the cluster-scoped objects that are called after Crossplane, and the CRDs with their objects.
func removeLeft(kubectl func(args ...string) (string, error)) error {
	const kinds = "validatingwebhookconfigurations,mutatingwebhookconfigurations,clusterrolebindings,clusterroles,customresourcedefinitions"
	all, err := kubectl("get", kinds, "--output=name")
	if err != nil {
		return err
	}
	for _, name := range calledCrossplane(all) {
		if crd, ok := strings.CutPrefix(name, "customresourcedefinition.apiextensions.k8s.io/"); ok {
			objects, err := kubectl("get", crd, "--output=name")
			if err != nil {
				return err
			}
			for _, o := range strings.Fields(objects) {
				if _, err := kubectl("patch", o, "--type=merge", `--patch={"metadata":{"finalizers":null}}`); err != nil {
					return err
				}
			}
		}
		if _, err := kubectl("delete", name, "--ignore-not-found", "--timeout=1m"); err != nil {
			return err
		}
	}
	return nil
}

// calledCrossplane returns the names, with their kinds, that are Crossplane's or its provider's.
func calledCrossplane(names string) []string {
	return slices.DeleteFunc(strings.Fields(names), func(name string) bool {
		return !strings.Contains(name, "crossplane") && !strings.Contains(name, "provider-nop") || strings.Contains(name, "knative-cdevents")
	})
}
