// SPDX-License-Identifier: Apache-2.0

package build

import (
	"os"
	"path/filepath"
	"strings"
)

// modules maps the name of a program to the module that determines its version.
var modules = map[string]struct{ part, module string }{
	"etcd":       {"kubernetes", "go.etcd.io/etcd/server/v3"},
	"containerd": {"containerd", "github.com/containerd/containerd/v2"},
	"registry":   {"registry", "github.com/distribution/distribution/v3"},
	"coredns":    {"coredns", "github.com/coredns/coredns"},
	"traefik":    {"traefik", "github.com/traefik/traefik/v3"},
	"serving":    {"serving", "knative.dev/serving"},
	"pipeline":   {"pipeline", "github.com/tektoncd/pipeline"},
	"triggers":   {"triggers", "github.com/tektoncd/triggers"},
	"eventing":   {"eventing", "knative.dev/eventing"},

	"clusterapi":      {"clusterapi", "sigs.k8s.io/cluster-api"},
	"clusterapi-1.10": {"clusterapi-1.10", "sigs.k8s.io/cluster-api"},
	"crossplane":      {"crossplane", "github.com/crossplane/crossplane/v2"},
}

// Version returns the pinned version of a program; "" if it is not pinned.
func (b *Builder) Version(name string) string {
	if strings.HasPrefix(name, "kube") {
		return "v" + kubernetesVersion
	}
	m, ok := modules[name]
	if !ok {
		return ""
	}
	data, err := os.ReadFile(filepath.Join(b.PartDir(m.part), "go.mod"))
	if err != nil {
		return ""
	}
	return required(string(data), m.module)
}

// required returns the version of a module in the text of a go.mod.
func required(gomod, module string) string {
	for line := range strings.Lines(gomod) {
		f := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(f) >= 2 && f[0] == module {
			return f[1]
		}
	}
	return ""
}
