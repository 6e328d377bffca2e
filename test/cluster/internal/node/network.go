// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/host"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/store"
)

// tables are the nftables tables that the cluster creates.
var tables = []string{"ip " + Name, "ip " + cutTable, "ip kube-proxy", "ip6 kube-proxy"}

// sysctls are the kernel settings for routing between pods.
var sysctls = map[string]string{"net/ipv4/ip_forward": "1"}

// network creates the link with the node's address, enables routing for pods, and masquerades their addresses outside.
// Pods have point-to-point links instead of a bridge: all traffic between pods is routed, and therefore passes
// kube-proxy's rules even on kernels that do not filter bridged packets.
func (n *Node) network(ctx context.Context) error {
	if err := n.rememberMachine(); err != nil {
		return err
	}
	for path, value := range sysctls {
		if err := host.SetSysctl(path, value); err != nil {
			return err
		}
	}
	if !host.HasLink(link) {
		// Not every kernel has the "dummy" device; a bridge without ports does the same.
		if _, err := host.Run(ctx, "", "ip", "link", "add", link, "type", "bridge"); err != nil {
			return fmt.Errorf("creating the node's link: %w", err)
		}
	}
	for _, args := range [][]string{{"addr", "replace", IP + "/32", "dev", link}, {"link", "set", link, "up"}} {
		if _, err := host.Run(ctx, "", "ip", args...); err != nil {
			return fmt.Errorf("adding the node's address: %w", err)
		}
	}
	rules, err := n.render("masquerade.nft")
	if err != nil {
		return err
	}
	if _, err := host.Run(ctx, rules, "nft", "-f", "-"); err != nil {
		return fmt.Errorf("masquerading pods: %w", err)
	}
	return nil
}

// before is the machine's former state, which Down restores.
type before struct {
	Sysctls map[string]string `json:"sysctls"`
	// Made are folders outside of ours that did not exist before, and that the node's programs require.
	Made []string `json:"made"`
}

func (n *Node) beforeFile() string { return n.path("machine-before.json") }

// outside are folders that the kubelet, containerd and the CNI library use regardless of their
// configuration.
var outside = []string{
	"/var/log/containers", "/var/lib/kubelet", "/var/lib/cni", "/run/containerd", "/var/log/pods", "/etc/cni", "/opt/cni",
}

// rememberMachine records the machine's state once; a second Up must not record what the first one changed.
func (n *Node) rememberMachine() error {
	if store.Exists(n.beforeFile()) {
		return nil
	}
	b := before{Sysctls: map[string]string{}}
	for path := range sysctls {
		value, err := host.Sysctl(path)
		if err != nil {
			return err
		}
		b.Sysctls[path] = value
	}
	for _, dir := range outside {
		if !store.Exists(dir) {
			b.Made = append(b.Made, dir)
		}
	}
	data, err := json.Marshal(b)
	if err != nil {
		return fmt.Errorf("recording the machine's settings: %w", err)
	}
	return store.PublishFile(n.beforeFile(), data, 0o600)
}

// restoreMachine restores what rememberMachine recorded.
func (n *Node) restoreMachine(ctx context.Context) error {
	data, err := os.ReadFile(n.beforeFile())
	if err != nil {
		return nil //nolint:nilerr // nothing was changed
	}
	var b before
	if err := json.Unmarshal(data, &b); err != nil {
		return fmt.Errorf("reading the machine's former settings: %w", err)
	}
	for path, value := range b.Sysctls {
		if err := host.SetSysctl(path, value); err != nil {
			return err
		}
	}
	for _, dir := range b.Made {
		if inUse(ctx, dir) {
			continue // by a program that was started later
		}
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("removing %s, which the cluster created: %w", dir, err)
		}
	}
	return os.Remove(n.beforeFile())
}

// inUse reports whether a process listens on a socket below dir.
func inUse(ctx context.Context, dir string) bool {
	used := false
	// Ignore unreadable folders: they are not ours, and removing one fails with an error of its own.
	_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type()&fs.ModeSocket != 0 && !deadSocket(ctx, p) {
			used = true
		}
		return nil
	})
	return used
}

// deadSocket reports whether no process listens on a unix socket.
func deadSocket(ctx context.Context, path string) bool {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", path)
	if err == nil {
		_ = conn.Close() // it was opened only as a check
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}
