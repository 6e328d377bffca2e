package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/build"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/host"
)

// ports are the TCP ports of the node's programs.
var ports = map[int]string{
	2379: "etcd", 2380: "etcd", APIPort: "kube-apiserver", RegistryPort: "registry", 10257: "kube-controller-manager",
	10259: "kube-scheduler", 10250: "kubelet", 10248: "kubelet", 10256: "kube-proxy", 10249: "kube-proxy",
}

// Supported complains when the node cannot run on this machine at all.
func Supported() error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("a node runs on Linux only, this is %s; \"up --control-plane-only\" runs here", runtime.GOOS)
	}
	if os.Geteuid() != 0 {
		return errors.New("a node makes mounts, links and cgroups: run as root (sudo); \"up --control-plane-only\" needs no root")
	}
	return nil
}

// preflight tells early, and all at once, what would fail late.
func (n *Node) preflight(context.Context) error {
	var wrong []error
	if absent := host.Missing(host.NodePackages); len(absent) > 0 {
		wrong = append(wrong, NeedPackages(absent))
	}
	for _, d := range []struct {
		path string
		gib  uint64
	}{{n.dir, 3}, {n.builder.Store().Root(), 6}} {
		if err := host.NeedDisk(d.path, d.gib); err != nil {
			wrong = append(wrong, err)
		}
	}
	wrong = append(wrong, n.portsTaken()...)
	wrong = append(wrong, addressTaken()...)
	return errors.Join(wrong...)
}

// NeedPackages is the error that names packages and how to get them.
func NeedPackages(absent []host.Package) error {
	var b strings.Builder
	for _, p := range absent {
		fmt.Fprintf(&b, "\n  %s (%s)", p.Name, p.Why)
	}
	return fmt.Errorf("Debian packages are missing:%s\ninstall them with \"cluster deps --install\", or:\n  apt-get update && apt-get %s",
		b.String(), strings.Join(host.AptArgs(absent), " "))
}

func (n *Node) portsTaken() []error {
	var wrong []error
	listeners := host.Listeners()
	for port, name := range ports {
		if _, _, alive := n.daemons.Lookup(name); alive {
			continue
		}
		ip := [4]byte{127, 0, 0, 1}
		if port == APIPort || port == RegistryPort || port == 10250 {
			ip = [4]byte(net.ParseIP(IP).To4())
		}
		if l, taken := host.Taken(listeners, ip, port); taken {
			wrong = append(wrong, fmt.Errorf("port %d, which %s needs, is taken by %s", port, name, l.Owner()))
		}
	}
	return wrong
}

func addressTaken() []error {
	var wrong []error
	for _, l := range host.LinksWith(IP) {
		if l != link {
			wrong = append(wrong, fmt.Errorf("the cluster's address %s is in use on link %s", IP, l))
		}
	}
	return wrong
}

// bootstrapRoles grants what an installer grants.
func (n *Node) bootstrapRoles(ctx context.Context) error {
	text, err := n.render("roles.yaml", nil)
	if err != nil {
		return err
	}
	_, err = host.Run(ctx, text, filepath.Join(n.bin[build.ControlPlane.Name], "kubectl"),
		"--kubeconfig", Kubeconfig(), "apply", "--server-side", "--force-conflicts", "-f", "-")
	if err != nil {
		return fmt.Errorf("granting the API server access to the kubelet: %w", err)
	}
	return nil
}
