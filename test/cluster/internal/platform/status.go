// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/node"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/store"
)

// Status is the output of "status -o json".
type Status struct {
	Healthy     bool               `json:"healthy"`
	Daemons     []DaemonStatus     `json:"daemons"`
	Deployments []DeploymentStatus `json:"deployments"`
	Addresses   []Address          `json:"addresses"`
}

// DaemonStatus is a program on the machine.
type DaemonStatus struct {
	Name    string `json:"name"`
	PID     int    `json:"pid,omitempty"`
	Health  string `json:"health"`
	Version string `json:"version,omitempty"`
	Log     string `json:"log"`
}

// DeploymentStatus is a part in the cluster.
type DeploymentStatus struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Health    string `json:"health"`
	Version   string `json:"version,omitempty"`
}

// Address is a path or an address, with its meaning.
type Address struct {
	Name    string `json:"name"`
	Address string `json:"address"`
}

const healthy = "ok"

// Addresses returns what users of the cluster need to know.
func (p *Platform) Addresses() []Address {
	all := []Address{
		{"api", node.Server},
		{"kubeconfig", node.Kubeconfig()},
		{"audit", node.AuditLog()},
		{"registry", "http://" + node.RegistryHost},
		{"base-image", node.BaseImage()},
	}
	if p.applied("traefik") {
		ingress := fmt.Sprintf("http://%s:%d", node.IP, IngressPort)
		all = append(all,
			Address{"ingress", ingress},
			Address{"service", fmt.Sprintf("curl -H 'Host: SERVICE.NAMESPACE.%s' %s", Domain, ingress)})
	}
	if p.applied("pipeline") {
		all = append(all, Address{"shell-image", node.RegistryHost + "/busybox:latest"})
	}
	if p.applied("prometheus") {
		all = append(all, Address{"prometheus", PrometheusURL}, Address{"prometheus-rules", prometheusRules()})
	}
	return all
}

func (p *Platform) applied(name string) bool {
	return store.Exists(filepath.Join(node.Dir, "applied", name))
}

// Status checks everything once.
func (p *Platform) Status(ctx context.Context) Status {
	s := Status{Healthy: true, Addresses: p.Addresses()}
	names := node.DaemonNames()
	if p.applied("prometheus") {
		names = append(names, "prometheus-targets", "prometheus")
	}
	for _, name := range names {
		d := DaemonStatus{Name: name, Health: "dead", Log: p.node.Daemons().Log(name)}
		if process, _, alive := p.node.Daemons().Lookup(name); alive {
			d.PID, d.Health = process.PID, healthy
		}
		d.Version = p.builder.Version(name)
		s.Healthy = s.Healthy && d.Health == healthy
		s.Daemons = append(s.Daemons, d)
	}
	if err := p.inCluster(ctx, &s); err != nil {
		s.Healthy = false
		s.Deployments = append(s.Deployments, DeploymentStatus{Name: "api", Health: err.Error()})
	}
	return s
}

// inCluster adds the node and the parts' Deployments.
func (p *Platform) inCluster(ctx context.Context, s *Status) error {
	client, err := p.node.Client()
	if err != nil {
		return err
	}
	n := DeploymentStatus{Namespace: "node", Name: node.Name, Health: healthy, Version: p.builder.Version("kubernetes")}
	if err := client.NodeReady(ctx, node.Name); err != nil {
		n.Health = err.Error()
	}
	s.Deployments = append(s.Deployments, n)
	s.Healthy = s.Healthy && n.Health == healthy
	parts := p.partOf()
	for _, ns := range slices.Sorted(maps.Keys(parts)) {
		all, err := client.Deployments(ctx, ns)
		if err != nil {
			return err
		}
		for _, d := range all {
			one := DeploymentStatus{Namespace: ns, Name: d.Metadata.Name, Health: healthy, Version: p.builder.Version(parts[ns])}
			if !d.Settled() {
				one.Health = fmt.Sprintf("%d of %d available", d.Status.AvailableReplicas, d.Spec.Replicas)
				s.Healthy = false
			}
			s.Deployments = append(s.Deployments, one)
		}
	}
	return nil
}

// partOf maps the namespaces of the parts to the names that Version knows.
func (p *Platform) partOf() map[string]string {
	parts := map[string]string{
		"kube-system": "coredns", "knative-serving": "serving", "traefik": "traefik", "tekton-pipelines": "pipeline", "knative-eventing": "eventing",
		"crossplane-system": "crossplane",
	}
	for _, part := range exclusive {
		if !p.applied(string(part)) {
			continue
		}
		for _, one := range providers {
			parts[one.namespace] = string(part)
		}
	}
	return parts
}
