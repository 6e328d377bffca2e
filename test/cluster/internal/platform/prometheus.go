// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/build"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/host"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/node"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/proc"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/store"
)

// PrometheusURL is the URL of Prometheus, for the machine and for pods.
var PrometheusURL = fmt.Sprintf("http://%s:%d", node.IP, node.PrometheusPort)

// targetsPort is where Prometheus discovers pods, on the loopback link.
const targetsPort = 9092

var targetsAddress = fmt.Sprintf("127.0.0.1:%d", targetsPort)

// prometheusRules is the folder of the rules that Prometheus evaluates. It is empty until a test puts some there.
func prometheusRules() string { return filepath.Join(node.Dir, "etc", "prometheus-rules") }

// prometheus runs on the machine instead of in a pod: it is a Debian program, and the machine reaches pods as directly
// as pods do. At the API server it is a user of its own, with a certificate.
func (p *Platform) prometheus(ctx context.Context) error {
	roles, err := embedded("prometheus-roles.yaml", map[string]any{"User": node.PrometheusUser})
	if err != nil {
		return err
	}
	if err := p.applyOnce(ctx, "prometheus", "", roles); err != nil {
		return err
	}
	bin, err := p.builder.Dir(ctx, build.Targets)
	if err != nil {
		return err
	}
	pki := func(name string) string { return filepath.Join(node.Dir, "pki", name) }
	config, err := embedded("prometheus.yml", map[string]any{
		"Targets": targetsAddress, "Kubelet": node.IP + ":10250", "Server": strings.TrimPrefix(node.Server, "https://"), "Rules": prometheusRules(),
		"CA": pki("ca.crt"), "Cert": pki("prometheus.crt"), "Key": pki("prometheus.key"),
	})
	if err != nil {
		return err
	}
	file := filepath.Join(node.Dir, "etc", "prometheus.yml")
	if err := store.PublishFile(file, []byte(config), 0o600); err != nil {
		return err
	}
	data := filepath.Join(node.Dir, "prometheus")
	for _, dir := range []string{data, prometheusRules()} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return fmt.Errorf("creating a folder for Prometheus: %w", err)
		}
	}
	return p.node.Ensure(ctx, []proc.Daemon{{
		Name: "prometheus-targets", Path: filepath.Join(bin, "targets"),
		Ready: node.Healthy("http://" + targetsAddress + "/ready"), Patience: time.Minute,
		Args: []string{
			"-listen=" + targetsAddress, "-server=" + node.Server,
			"-ca=" + pki("ca.crt"), "-cert=" + pki("prometheus.crt"), "-key=" + pki("prometheus.key"),
		},
	}, {
		Name: "prometheus", Path: host.Program("prometheus"), Depends: []string{config},
		Ready: node.Healthy(PrometheusURL + "/-/ready"), Patience: time.Minute,
		Args: []string{
			"--config.file=" + file, "--storage.tsdb.path=" + data, "--storage.tsdb.retention.time=2d", "--web.enable-lifecycle",
			fmt.Sprintf("--web.listen-address=%s:%d", node.IP, node.PrometheusPort),
		},
	}})
}
