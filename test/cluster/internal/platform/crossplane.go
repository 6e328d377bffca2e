package platform

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/build"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/host"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/node"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/registry"
)

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
	if err := p.applyOnce(ctx, "crossplane", crossplaneNamespace, text); err != nil {
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
	packages, err := embedded("crossplane-packages.yaml", map[string]any{"Provider": provider, "Function": function})
	if err != nil {
		return err
	}
	if err := p.applyOnce(ctx, "crossplane-packages", crossplaneNamespace, packages); err != nil {
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
