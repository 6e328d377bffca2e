// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/build"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/node"
)

//go:embed files
var files embed.FS

// IngressPort is the port for public Services at the node's address.
const IngressPort = 30080

// Domain is the domain of the Services' public names.
const Domain = "example.com"

// embedded renders one of the embedded manifests.
func embedded(name string, values map[string]any) (string, error) {
	tmpl, err := template.New(name).Option("missingkey=error").ParseFS(files, "files/"+name)
	if err != nil {
		return "", fmt.Errorf("parsing the embedded %s: %w", name, err)
	}
	var out bytes.Buffer
	if err := tmpl.ExecuteTemplate(&out, name, values); err != nil {
		return "", fmt.Errorf("filling in %s: %w", name, err)
	}
	return out.String(), nil
}

func (p *Platform) dns(ctx context.Context) error {
	image, err := p.node.PushBinary(ctx, build.CoreDNS, "coredns")
	if err != nil {
		return err
	}
	manifests, err := embedded("coredns.yaml", map[string]any{"Image": image, "DNS": node.DNS})
	if err != nil {
		return err
	}
	if err := p.applyOnce(ctx, "coredns", "kube-system", manifests); err != nil {
		return err
	}
	return p.settle(ctx, "kube-system")
}

// servingSettings are those that the documentation tells an operator to set. Image digests are resolved as usual:
// Serving's client uses plain HTTP for the registry's private address.
var servingSettings = map[string]map[string]string{
	"config-deployment":    {"queue-sidecar-cpu-request": "5m"},
	"config-network":       {"ingress-class": "traefik.ingress.networking.knative.dev"},
	"config-observability": {"request-metrics-protocol": "prometheus", "metrics-protocol": "prometheus"},
	"config-domain":        {Domain: ""},
}

func (p *Platform) serving(ctx context.Context) error {
	modules := map[string]string{}
	for _, m := range []string{"knative.dev/serving", "knative.dev/networking", "knative.dev/caching"} {
		dir, err := p.builder.ModuleDir(ctx, "serving", m)
		if err != nil {
			return err
		}
		modules[filepath.Base(m)] = dir
	}
	networking := filepath.Join(modules["networking"], "config")
	kinds, err := read(nil,
		filepath.Join(networking, "certificate.yaml"), filepath.Join(networking, "ingress.yaml"),
		filepath.Join(networking, "serverlessservice.yaml"), filepath.Join(networking, "domain-claim.yaml"),
		filepath.Join(modules["caching"], "config", "image.yaml"))
	if err != nil {
		return err
	}
	core, err := read(nil, filepath.Join(modules["serving"], "config", "core"), filepath.Join(networking, "config-network.yaml"))
	if err != nil {
		return err
	}
	if err := p.install(ctx, "serving", "knative-serving", append(kinds, core...), servingSettings); err != nil {
		return err
	}
	if err := p.traefik(ctx); err != nil {
		return err
	}
	for _, ns := range []string{"knative-serving", "traefik"} {
		if err := p.settle(ctx, ns); err != nil {
			return err
		}
	}
	return nil
}

// install configures manifests, resolves their images from a pinned part, and applies them.
func (p *Platform) install(ctx context.Context, part, namespace string, objects []object, settings map[string]map[string]string) error {
	if err := configure(objects, settings); err != nil {
		return err
	}
	modest(objects)
	manifests, err := encode(objects)
	if err != nil {
		return err
	}
	resolved, err := p.builder.ResolvePart(ctx, Target(), part, manifests)
	if err != nil {
		return err
	}
	return p.applyOnce(ctx, part, namespace, resolved)
}

// traefik is the ingress. It has the permissions in its documentation, and a namespace of its own.
func (p *Platform) traefik(ctx context.Context) error {
	image, err := p.node.PushBinary(ctx, build.Traefik, "traefik")
	if err != nil {
		return err
	}
	source, err := p.builder.ModuleDir(ctx, "traefik", "github.com/traefik/traefik/v3")
	if err != nil {
		return err
	}
	roles, err := read(nil, filepath.Join(source, "docs", "content", "reference", "dynamic-configuration", "kubernetes-knative-rbac.yml"))
	if err != nil {
		return err
	}
	roleText, err := encode(roles)
	if err != nil {
		return err
	}
	manifests, err := embedded("traefik.yaml", map[string]any{"Image": image, "IngressPort": IngressPort})
	if err != nil {
		return err
	}
	const namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: traefik}\n"
	return p.applyOnce(ctx, "traefik", "traefik", namespace+strings.ReplaceAll(roleText, "namespace: default", "namespace: traefik")+"---\n"+manifests)
}
