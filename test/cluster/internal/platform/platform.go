// SPDX-License-Identifier: Apache-2.0

// Package platform installs the node's DNS and ingress, Knative Serving, Tekton, Prometheus, Knative Eventing, Cluster
// API and Crossplane, with which the project is tested.
//
// Invariant: a part is installed as its own project ships it; only images, CPU requests and the documented settings
// differ. Installing a part again changes nothing, so users' settings survive.
package platform

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/build"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/host"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/node"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/registry"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/report"
)

// Part is a part that "up --with" can name.
type Part string

// The parts.
const (
	DNS        Part = "dns"
	Serving    Part = "serving"
	Tekton     Part = "tekton"
	Prometheus Part = "prometheus"
	Eventing   Part = "eventing"
	// ClusterAPI is the current Cluster API. ClusterAPI110 is the last release that serves nothing newer than v1beta1.
	ClusterAPI    Part = "clusterapi"
	ClusterAPI110 Part = "clusterapi-1.10"
	Crossplane    Part = "crossplane"
)

// order is the installation order; a later part may need an earlier one.
var order = []Part{DNS, Serving, Prometheus, Tekton, Eventing}

// rare are parts that "all" leaves out, because few tests need them. Only they and exclusive ones can be removed.
var rare = []Part{Crossplane}

// exclusive are parts of which at most one can be installed. "all" leaves them out too.
var exclusive = []Part{ClusterAPI, ClusterAPI110}

// Names lists the parts for people.
func Names() string {
	return strings.Join([]string{
		string(Serving), string(Tekton), string(Prometheus), string(Eventing), string(DNS), "all", string(ClusterAPI), string(ClusterAPI110),
		string(Crossplane),
	}, ",")
}

// Parse parses a comma-separated list of parts and adds their dependencies.
func Parse(list string) ([]Part, error) {
	want := map[Part]bool{}
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		switch {
		case name == "":
		case name == "all":
			for _, p := range order {
				want[p] = true
			}
		case slices.Contains(slices.Concat(order, rare, exclusive), Part(name)):
			want[Part(name)] = true
		default:
			return nil, fmt.Errorf("there is no part %q; there are %s", name, Names())
		}
	}
	if want[ClusterAPI] && want[ClusterAPI110] {
		return nil, fmt.Errorf("%s and %s share their CRDs: name one of them", ClusterAPI, ClusterAPI110)
	}
	if want[Serving] || want[Tekton] || want[Eventing] || want[ClusterAPI] || want[ClusterAPI110] || want[Crossplane] {
		want[DNS] = true
	}
	return slices.DeleteFunc(slices.Concat(order, rare, exclusive), func(p Part) bool { return !want[p] }), nil
}

// Platform is the set of parts on a node.
type Platform struct {
	node    *node.Node
	say     *report.Reporter
	builder *build.Builder
}

// New returns the platform of a node.
func New(n *node.Node, say *report.Reporter) *Platform {
	return &Platform{node: n, say: say, builder: n.Builder()}
}

// Preflight reports packages that the parts need and that are missing.
func (p *Platform) Preflight(parts []Part) error {
	var need []host.Package
	if slices.Contains(parts, Prometheus) {
		need = append(need, host.PrometheusPackages...)
	}
	if slices.Contains(parts, Tekton) {
		need = append(need, host.TektonPackages...)
	}
	if absent := host.Missing(need); len(absent) > 0 {
		return node.NeedPackages(absent)
	}
	if !slices.Contains(parts, Prometheus) {
		return nil
	}
	// With systemd, Debian's package starts a Prometheus of its own.
	return p.node.PortsTaken(
		node.Port{Number: node.PrometheusPort, Daemon: "prometheus", Public: true},
		node.Port{Number: targetsPort, Daemon: "prometheus-targets"})
}

// Begin starts the builds that the parts need, after those of the node.
func (p *Platform) Begin(ctx context.Context, parts []Part) {
	p.builder.Begin(ctx, build.ControlPlane, build.Registry, build.Containerd, build.Node)
	if slices.Contains(parts, DNS) {
		p.builder.Begin(ctx, build.CoreDNS)
	}
	if slices.Contains(parts, Serving) {
		p.builder.Begin(ctx, build.Ko, build.Traefik)
	}
	if slices.Contains(parts, Crossplane) {
		p.builder.Begin(ctx, build.Crossplane, build.ProviderNop, build.Compose)
	}
}

// Install installs the parts.
func (p *Platform) Install(ctx context.Context, parts []Part) error {
	install := map[Part]func(context.Context) error{
		DNS: p.dns, Serving: p.serving, Prometheus: p.prometheus, Tekton: p.tekton, Eventing: p.eventing,
		ClusterAPI: p.clusterAPI(ClusterAPI), ClusterAPI110: p.clusterAPI(ClusterAPI110), Crossplane: p.crossplane,
	}
	for _, part := range parts {
		if err := install[part](ctx); err != nil {
			return fmt.Errorf("installing %s: %w", part, err)
		}
	}
	return nil
}

// Removable returns the part with that name, if Remove can remove it.
func Removable(name string) (Part, error) {
	can := slices.Concat(rare, exclusive)
	if !slices.Contains(can, Part(name)) {
		return "", fmt.Errorf("name one of the parts that can be removed: %v", can)
	}
	return Part(name), nil
}

// Remove removes a part from a running cluster, with all objects of its kinds.
func (p *Platform) Remove(ctx context.Context, part Part) error {
	switch {
	case !p.applied(string(part)):
		return nil
	case part == Crossplane:
		return p.removeCrossplane(ctx)
	}
	return p.removeClusterAPI(ctx, part)
}

// Target returns where images are pushed.
func Target() build.KoTarget {
	return build.KoTarget{Registry: registry.New(node.RegistryHost), Base: node.BaseImage()}
}
