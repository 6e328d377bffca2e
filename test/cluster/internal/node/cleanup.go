// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/host"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/proc"
)

// Remains is everything of the cluster that is on the machine.
type Remains struct {
	Processes []proc.Process
	Mounts    []string
	NetNS     []string
	Links     []string
	Tables    []string
	Cgroups   []string
}

// Empty reports whether nothing is left.
func (r Remains) Empty() bool {
	return len(r.Processes)+len(r.Mounts)+len(r.NetNS)+len(r.Links)+len(r.Tables)+len(r.Cgroups) == 0
}

// Counts formats the remains in one line.
func (r Remains) Counts() string {
	return fmt.Sprintf("processes %d, mounts %d, network namespaces %d, links %d, rule tables %d, cgroups %d",
		len(r.Processes), len(r.Mounts), len(r.NetNS), len(r.Links), len(r.Tables), len(r.Cgroups))
}

// Look lists everything of the cluster on the machine, by names alone and without records.
func (n *Node) Look(ctx context.Context) (Remains, error) {
	var r Remains
	var err error
	r.Processes = n.processes()
	if r.Mounts, err = host.MountsBelow(n.dir); err != nil {
		return r, err
	}
	for _, m := range r.Mounts {
		if strings.HasPrefix(m, n.netns()+"/") {
			r.NetNS = append(r.NetNS, m)
		}
	}
	r.Links = host.LinksWith(podGateway)
	if host.HasLink(link) {
		r.Links = append(r.Links, link)
	}
	r.Cgroups = n.cgroups.Groups()
	r.Tables, err = host.Tables(ctx, tables)
	return r, err
}

// netns is the folder of the pods' network namespaces, which containerd creates.
func (n *Node) netns() string {
	return n.path("run", "containerd", "io.containerd.grpc.v1.cri", "netns")
}

// processes are the cluster's daemons with all children, and everything in the pods' cgroups.
func (n *Node) processes() []proc.Process {
	all := proc.Marked(n.dir)
	seen := map[int]bool{}
	for _, p := range all {
		seen[p.PID] = true
	}
	for _, p := range proc.ByID(n.cgroups.PIDs()) {
		if !seen[p.PID] {
			all = append(all, p)
		}
	}
	return all
}

// Down stops everything. With keepData the node's data stays: the next Up finds it as after a power cut, but with
// databases that were closed properly.
func (n *Node) Down(ctx context.Context, keepData bool) error {
	step := n.say.Begin("stopping the node", n.dir)
	return step.End(errors.Join(n.stop(ctx, keepData), n.forget(ctx, keepData)))
}

func (n *Node) stop(ctx context.Context, gently bool) error {
	var errs []error
	if gently {
		// First stop whatever would restart other programs, then whatever stores data.
		errs = append(errs,
			n.daemons.Stop(5*time.Second, "kubelet", "kube-controller-manager", "kube-scheduler", "kube-proxy"),
			n.daemons.Stop(5*time.Second, "kube-apiserver", "prometheus-targets", "prometheus"),
			n.daemons.Stop(10*time.Second, "etcd", "containerd"))
	}
	// The images stay in any case.
	errs = append(errs, n.daemons.Stop(5*time.Second, "registry"))
	// A pod may fork between listing and killing, so repeat until nothing is found.
	for range 10 {
		left := n.processes()
		if len(left) == 0 {
			break
		}
		proc.Kill(left...)
	}
	return errors.Join(append(errs, n.sweep(ctx))...)
}

// sweep removes what processes leave behind.
func (n *Node) sweep(ctx context.Context) error {
	errs := []error{host.UnmountBelow(n.dir)}
	links := host.LinksWith(podGateway)
	if host.HasLink(link) {
		links = append(links, link)
	}
	for _, l := range links {
		// A pod's link is deleted with its namespace, perhaps after it was listed.
		if _, err := host.Run(ctx, "", "ip", "link", "delete", l); err != nil && host.HasLink(l) {
			errs = append(errs, err)
		}
	}
	have, err := host.Tables(ctx, tables)
	errs = append(errs, err)
	for _, t := range have {
		_, err := host.Run(ctx, "", "nft", append([]string{"delete", "table"}, strings.Fields(t)...)...)
		errs = append(errs, err)
	}
	errs = append(errs, n.cgroups.Remove(), n.outsideFiles(ctx), os.RemoveAll(n.path("run")))
	return errors.Join(errs...)
}

// outsideFiles removes files that the node's programs created elsewhere.
func (n *Node) outsideFiles(ctx context.Context) error {
	var errs []error
	remove := func(path string) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	for _, p := range glob("/var/log/containers/*") {
		if to, err := os.Readlink(p); err == nil && strings.HasPrefix(to, n.dir+"/") {
			remove(p)
		}
	}
	for _, p := range glob("/var/lib/cni/results/" + Name + "-*") {
		remove(p)
	}
	// All containerd instances share the folder of their shims' sockets. Without a listener, a socket belongs to no
	// living shim.
	for _, p := range glob("/run/containerd/s/*") {
		if deadSocket(ctx, p) {
			remove(p)
		}
	}
	return errors.Join(errs...)
}

func glob(pattern string) []string {
	paths, err := filepath.Glob(pattern)
	if err != nil {
		return nil // only a malformed pattern fails, and these are constants
	}
	return paths
}

// forget restores the machine's settings and, unless keepData is set, deletes the data.
func (n *Node) forget(ctx context.Context, keepData bool) error {
	if err := n.restoreMachine(ctx); err != nil {
		return err
	}
	if keepData {
		return nil
	}
	// Never delete through a mount that could not be unmounted: that would delete the mounted files.
	if left, err := host.MountsBelow(n.dir); err != nil || len(left) > 0 {
		return errors.Join(err, fmt.Errorf("keeping %s: %d mounts are left in it", n.dir, len(left)))
	}
	if err := os.RemoveAll(n.dir); err != nil {
		return fmt.Errorf("removing the node's data: %w", err)
	}
	return nil
}

// clearDebris prepares a machine on which the node died, with or without a reboot, for a start. If neither containerd
// nor any pod lives, all remains belong to dead processes.
func (n *Node) clearDebris(ctx context.Context) error {
	if _, _, alive := n.daemons.Lookup("containerd"); alive {
		return nil
	}
	if len(n.processes()) > 0 {
		return nil // only some parts died; the others still use their mounts
	}
	r, err := n.Look(ctx)
	if err != nil {
		return err
	}
	if !r.Empty() {
		n.say.Say("removing the remains of a dead cluster: %s", r.Counts())
	}
	if err := n.sweep(ctx); err != nil {
		return fmt.Errorf("removing the remains of a dead cluster (try \"cluster down\"): %w", err)
	}
	n.cleared = time.Now()
	return os.MkdirAll(n.path("run"), 0o750)
}
