// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/build"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/host"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/proc"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/store"
)

func (n *Node) registryDaemons() ([]proc.Daemon, error) {
	path, changed, err := n.config("registry.yaml", map[string]string{"Images": n.builder.Store().Registry()})
	return []proc.Daemon{{
		Name: "registry", Path: n.bin[build.Registry.Name] + "/registry", Args: []string{"serve", path},
		Env:     []string{"OTEL_TRACES_EXPORTER=none"},
		Depends: []string{changed}, Patience: 30 * time.Second, Ready: n.Registry().Ready,
	}}, err
}

func (n *Node) socket() string { return n.path("run", "containerd.sock") }

func (n *Node) containerdDaemons() ([]proc.Daemon, error) {
	bin := n.bin[build.Containerd.Name]
	path, changed, err := n.config("containerd.toml", map[string]string{
		"Socket": n.socket(), "CNI": bin, "Pause": n.imageRef("pause"), "Runc": host.Program("runc"),
	})
	if err != nil {
		return nil, err
	}
	hosts, err := n.render("hosts.toml")
	if err != nil {
		return nil, err
	}
	network, err := n.render("cni.conflist")
	if err != nil {
		return nil, err
	}
	for file, content := range map[string]string{
		n.path("etc", "registries", RegistryHost, "hosts.toml"): hosts,
		n.path("etc", "cni", "10-knative-cdevents.conflist"):    network,
	} {
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			return nil, fmt.Errorf("creating a folder for settings: %w", err)
		}
		if err := store.PublishFile(file, []byte(content), 0o600); err != nil {
			return nil, err
		}
	}
	return []proc.Daemon{{
		Name: "containerd", Path: bin + "/containerd", Args: []string{"--config", path, "--log-level", "info"},
		Depends: []string{changed, hosts, network}, Patience: time.Minute, Ready: listens("unix", n.socket()),
	}}, nil
}

func (n *Node) nodeDaemons() ([]proc.Daemon, error) {
	bin := n.bin[build.Node.Name]
	daemons, err := n.managers(bin)
	if err != nil {
		return nil, err
	}
	resolv := "/etc/resolv.conf"
	if !store.Exists(resolv) {
		resolv = ""
	}
	kubelet, kubeletChanged, err := n.config("kubelet.yaml", map[string]string{
		"CA": n.certs.ca.CertFile(), "Cert": n.certs.kubelet.Cert, "Key": n.certs.kubelet.Key, "Socket": n.socket(), "Resolv": resolv,
	})
	if err != nil {
		return nil, err
	}
	proxy, proxyChanged, err := n.config("proxy.yaml", nil)
	if err != nil {
		return nil, err
	}
	return append(daemons,
		proc.Daemon{
			Name: "kubelet", Path: bin + "/kubelet", Patience: time.Minute, Ready: Healthy("http://127.0.0.1:10248/healthz"),
			Depends: []string{kubeletChanged},
			Args: []string{
				"--config=" + kubelet, "--kubeconfig=" + n.path("etc", "node.kubeconfig"), "--root-dir=" + n.path("kubelet"),
				"--cert-dir=" + n.path("pki"), "--hostname-override=" + Name, "--node-ip=" + IP, "--v=1",
			},
		},
		proc.Daemon{
			Name: "kube-proxy", Path: bin + "/kube-proxy", Patience: time.Minute, Ready: Healthy("http://127.0.0.1:10256/healthz"),
			Depends: []string{proxyChanged}, Args: []string{"--config=" + proxy},
		},
	), nil
}

func listens(network, address string) func(context.Context) error {
	return func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}

// Healthy returns a check that requires status 200 at a URL.
func Healthy(url string) func(context.Context) error {
	client := &http.Client{Timeout: 5 * time.Second}
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return fmt.Errorf("requesting %s: %w", url, err)
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		if err := resp.Body.Close(); err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s returned %s", url, resp.Status)
		}
		return nil
	}
}
