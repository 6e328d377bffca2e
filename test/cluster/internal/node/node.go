// SPDX-License-Identifier: Apache-2.0

// Package node runs a real one-node Kubernetes on this machine and removes it again.
//
// Invariant: everything that belongs to the node has one of its names (state folder, link, tables, cgroup, mark), so
// Down finds all of it without records, whatever was killed, and touches nothing else. Up may be called in any
// state and always leads to the same one.
package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/build"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/host"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/kube"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/pki"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/proc"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/registry"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/report"
)

// Names and addresses of the cluster. The address is on a link of its own and is never routed.
const (
	Dir         = "/var/lib/knative-cdevents-cluster" // short: paths of unix sockets are limited to 107 bytes
	Name        = "knative-cdevents"
	IP          = "172.30.0.1"
	link        = "kcd0"
	podCIDR     = "10.244.0.0/16"
	nodePodCIDR = "10.244.0.0/24"
	podGateway  = "10.244.0.1"
	serviceCIDR = "10.96.0.0/16"
	apiService  = "10.96.0.1"
	DNS         = "10.96.0.10"
	cgroupName  = "knative-cdevents"

	etcdPort       = 2379
	APIPort        = 6443
	RegistryPort   = 5001
	PrometheusPort = 9090
)

// RegistryHost is the name of the registry on the machine, for containerd and for pods.
var RegistryHost = fmt.Sprintf("%s:%d", IP, RegistryPort)

// Server is the URL of the API server.
var Server = fmt.Sprintf("https://%s:%d", IP, APIPort)

// Node is the cluster on this machine.
type Node struct {
	dir     string
	say     *report.Reporter
	builder *build.Builder
	daemons *proc.Set
	cgroups host.Cgroups

	bin   map[string]string
	certs *certificates
	// cleared is when no pod was running; older states in the API server are stale.
	cleared time.Time
}

// New returns the node. It creates the state folder, so it requires root.
func New(say *report.Reporter, builder *build.Builder) (*Node, error) {
	// The folder may be entered by all users, because root may share the kubeconfig with a group; files stay private.
	if err := os.MkdirAll(Dir, 0o755); err != nil { //nolint:gosec // containerd's pods walk through it
		return nil, fmt.Errorf("creating %s (are you root?): %w", Dir, err)
	}
	for _, d := range []string{"etc", "pki"} {
		if err := os.MkdirAll(filepath.Join(Dir, d), 0o750); err != nil {
			return nil, fmt.Errorf("creating the state folder: %w", err)
		}
	}
	daemons, err := proc.NewSet(Dir, host.SearchPath)
	if err != nil {
		return nil, err
	}
	return &Node{dir: Dir, say: say, builder: builder, daemons: daemons, cgroups: host.NewCgroups(cgroupName), bin: map[string]string{}}, nil
}

// Kubeconfig returns the path of the administrator's kubeconfig.
func Kubeconfig() string { return filepath.Join(Dir, "admin.kubeconfig") }

// AuditLog returns the path of the API server's audit log.
func AuditLog() string { return filepath.Join(Dir, "log", "audit.log") }

// LockFile is the lock of commands that change the node.
func LockFile() string { return "/run/knative-cdevents-cluster.lock" }

func (n *Node) path(elem ...string) string {
	return filepath.Join(append([]string{n.dir}, elem...)...)
}

// Builder returns the builder of the node's programs and images.
func (n *Node) Builder() *build.Builder { return n.builder }

// DaemonNames lists the programs of a node in start order.
func DaemonNames() []string {
	return []string{"registry", "etcd", "kube-apiserver", "containerd", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy"}
}

// Daemons returns the node's own programs.
func (n *Node) Daemons() *proc.Set { return n.daemons }

// Kubectl returns the path of the kubectl that was built.
func (n *Node) Kubectl() string { return filepath.Join(n.bin[build.ControlPlane.Name], "kubectl") }

// Registry returns the node's image registry.
func (n *Node) Registry() *registry.Registry { return registry.New(RegistryHost) }

// Client returns a client of the API server with administrator rights.
func (n *Node) Client() (*kube.Client, error) {
	p := pki.Pair{Cert: n.path("pki", "admin.crt"), Key: n.path("pki", "admin.key")}
	return kube.New(Server, n.path("pki", "ca.crt"), p)
}

// Up starts the node; on a running one it only checks it.
func (n *Node) Up(ctx context.Context) error {
	if err := n.preflight(ctx); err != nil {
		return err
	}
	if err := n.rememberVersions(); err != nil {
		return err
	}
	n.builder.Begin(ctx, build.ControlPlane, build.Registry, build.Containerd, build.Node)
	if err := n.clearDebris(ctx); err != nil {
		return err
	}
	if err := n.network(ctx); err != nil {
		return err
	}
	if err := n.cgroups.Make(); err != nil {
		return err
	}
	var err error
	if n.certs, err = issue(n.path("pki"), n.dir, IP, Server); err != nil {
		return err
	}
	stages := []struct {
		unit    build.Unit
		daemons func() ([]proc.Daemon, error)
		after   func(context.Context) error
	}{
		{build.Registry, n.registryDaemons, n.baseImages},
		{build.ControlPlane, n.apiDaemons, n.bootstrap},
		{build.Containerd, n.containerdDaemons, nil},
		{build.Node, n.nodeDaemons, n.ready},
	}
	for _, s := range stages {
		if n.bin[s.unit.Name], err = n.builder.Dir(ctx, s.unit); err != nil {
			return err
		}
		daemons, err := s.daemons()
		if err != nil {
			return err
		}
		if err := n.Ensure(ctx, daemons); err != nil {
			return err
		}
		if s.after == nil {
			continue
		}
		if err := s.after(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Ensure starts what does not run, and reports only what it started.
func (n *Node) Ensure(ctx context.Context, daemons []proc.Daemon) error {
	for _, d := range daemons {
		began := time.Now()
		started, err := n.daemons.Ensure(ctx, d)
		if err != nil {
			return err
		}
		if started {
			n.say.Say("started %s in %s  (log: %s)", d.Name, time.Since(began).Round(10*time.Millisecond), n.daemons.Log(d.Name))
		}
	}
	return nil
}

func (n *Node) ready(ctx context.Context) error {
	client, err := n.Client()
	if err != nil {
		return err
	}
	// Pods also need the ServiceAccount that the controller manager creates in each namespace.
	usable := func(ctx context.Context) error {
		if err := client.NodeReady(ctx, Name); err != nil {
			return err
		}
		if _, err := client.Text(ctx, "/api/v1/namespaces/default/serviceaccounts/default"); err != nil {
			return err
		}
		return n.noGhosts(ctx, client)
	}
	if usable(ctx) == nil {
		return nil
	}
	step := n.say.Begin("waiting for the node to be Ready", "log: "+n.daemons.Log("kubelet"))
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		err := usable(ctx)
		if err == nil {
			return step.End(nil)
		}
		step.Note("%v; log: %s", err, n.daemons.Log("kubelet"))
		select {
		case <-ctx.Done():
			return step.End(fmt.Errorf("the node does not become Ready: %w; the end of %s:\n%s", err, n.daemons.Log("kubelet"), n.daemons.Tail("kubelet", 12)))
		case <-time.After(300 * time.Millisecond):
		}
	}
}

// noGhosts returns nil once no pod's status predates the clearing of the node: after a power cut the API server has
// stale statuses until the kubelet has updated each of them.
func (n *Node) noGhosts(ctx context.Context, client *kube.Client) error {
	if n.cleared.IsZero() {
		return nil
	}
	pods, err := client.Pods(ctx, "")
	if err != nil {
		return err
	}
	for _, p := range pods {
		if p.RunsSinceBefore(n.cleared) {
			return fmt.Errorf("pod %s/%s has not been restarted yet", p.Metadata.Namespace, p.Metadata.Name)
		}
	}
	return nil
}
