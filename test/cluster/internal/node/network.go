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

// tables are the nftables tables that exist because of the cluster.
var tables = []string{"ip " + Name, "ip kube-proxy", "ip6 kube-proxy"}

// sysctls are the kernel settings that routing between pods needs.
var sysctls = map[string]string{"net/ipv4/ip_forward": "1"}

// network makes the link with the node's address, lets pods be routed and hides their addresses from the
// world outside. Pods hang on point-to-point links and not on a bridge, so that what goes from pod to pod is
// always routed, and kube-proxy's rules see it whether or not the kernel passes bridged packets to them.
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
		// Not every kernel has the "dummy" device; a bridge without ports serves as well.
		if _, err := host.Run(ctx, "", "ip", "link", "add", link, "type", "bridge"); err != nil {
			return fmt.Errorf("making the node's link: %w", err)
		}
	}
	for _, args := range [][]string{{"addr", "replace", IP + "/32", "dev", link}, {"link", "set", link, "up"}} {
		if _, err := host.Run(ctx, "", "ip", args...); err != nil {
			return fmt.Errorf("giving the node its address: %w", err)
		}
	}
	rules, err := n.render("masquerade.nft")
	if err != nil {
		return err
	}
	if _, err := host.Run(ctx, rules, "nft", "-f", "-"); err != nil {
		return fmt.Errorf("letting pods reach out: %w", err)
	}
	return nil
}

// before is what the machine was like, for Down to restore.
type before struct {
	Sysctls map[string]string `json:"sysctls"`
	// Made are the folders outside ours that did not exist and that programs of the node insist on.
	Made []string `json:"made"`
}

func (n *Node) beforeFile() string { return n.path("machine-before.json") }

// outside are folders that the kubelet, containerd and the CNI library use wherever else they are told to
// keep their things.
var outside = []string{
	"/var/log/containers", "/var/lib/kubelet", "/var/lib/cni", "/run/containerd", "/var/log/pods", "/etc/cni", "/opt/cni",
}

// rememberMachine writes down once what the machine was like; a second Up must not record the first's doing.
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

// restoreMachine undoes what rememberMachine wrote down.
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
			continue // by something that came after us
		}
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("removing %s, which the cluster made: %w", dir, err)
		}
	}
	return os.Remove(n.beforeFile())
}

// inUse tells whether somebody listens on a socket below dir.
func inUse(ctx context.Context, dir string) bool {
	used := false
	// What cannot be looked at is not ours to remove either, and removing it fails with its own error.
	_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type()&fs.ModeSocket != 0 && !deadSocket(ctx, p) {
			used = true
		}
		return nil
	})
	return used
}

// deadSocket tells whether nobody listens on a unix socket any more.
func deadSocket(ctx context.Context, path string) bool {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", path)
	if err == nil {
		_ = conn.Close() // it was opened to see whether it can be
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}
