// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/host"
)

// Port is a TCP port that a daemon needs.
type Port struct {
	Number int
	Daemon string
	// Public ports are on the node's address, the others on the loopback link.
	Public bool
}

var ports = []Port{
	{2379, "etcd", false},
	{2380, "etcd", false},
	{APIPort, "kube-apiserver", true},
	{RegistryPort, "registry", true},
	{10257, "kube-controller-manager", false},
	{10259, "kube-scheduler", false},
	{10250, "kubelet", true},
	{10248, "kubelet", false},
	{10256, "kube-proxy", false},
	{10249, "kube-proxy", false},
}

// Supported returns an error if the node cannot run on this machine at all.
func Supported() error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("a node runs on Linux only, this is %s; \"up --control-plane-only\" runs here", runtime.GOOS)
	}
	if os.Geteuid() != 0 {
		return errors.New("a node makes mounts, links and cgroups: run as root (sudo); \"up --control-plane-only\" needs no root")
	}
	return nil
}

// preflight reports at once all problems that would appear late.
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
	wrong = append(wrong, n.PortsTaken(ports...))
	wrong = append(wrong, addressTaken()...)
	return errors.Join(wrong...)
}

// NeedPackages returns an error that names packages, and how to install them.
func NeedPackages(absent []host.Package) error {
	var b strings.Builder
	for _, p := range absent {
		fmt.Fprintf(&b, "\n  %s (%s)", p.Name, p.Why)
	}
	return fmt.Errorf("missing Debian packages:%s\ninstall them with \"cluster deps --install\", or:\n  apt-get update && apt-get %s",
		b.String(), strings.Join(host.AptArgs(absent), " "))
}

// PortsTaken returns an error for ports that other programs hold. The kernel may free the ports of a killed process
// with a delay, so it retries before it reports them.
func (n *Node) PortsTaken(ports ...Port) error {
	var err error
	for range 30 {
		if err = n.portsTaken(ports); err == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return err
}

func (n *Node) portsTaken(ports []Port) error {
	var wrong []error
	listeners := host.Listeners()
	for _, p := range ports {
		if _, _, alive := n.daemons.Lookup(p.Daemon); alive {
			continue
		}
		ip := [4]byte{127, 0, 0, 1}
		if p.Public {
			ip = [4]byte(net.ParseIP(IP).To4())
		}
		if l, taken := host.Taken(listeners, ip, p.Number); taken {
			wrong = append(wrong, fmt.Errorf("port %d, which %s needs, is in use by %s: stop it", p.Number, p.Daemon, l.Owner()))
		}
	}
	return errors.Join(wrong...)
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
