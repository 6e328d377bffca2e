// SPDX-License-Identifier: Apache-2.0

package build

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// newest is the version of a part in the folder that bears only the part's name. Other versions are beside it, in
// folders such as kubernetes-1.34.
const newest = "newest"

// Choose decides which version of a part is built, by its name: {"kubernetes": "1.34"}. Without a wish ("") it is what
// was chosen before, or else the newest. To choose another version than before is an error.
func (b *Builder) Choose(versions map[string]string) error {
	for _, part := range slices.Sorted(maps.Keys(versions)) {
		before, decided := b.chosen[part]
		version, err := b.choice(part, versions[part])
		switch {
		case err != nil:
			return err
		case !decided:
			b.chosen[part] = version
		case versions[part] != "" && version != before:
			return fmt.Errorf("the cluster runs %s %s, not %s: delete it first (\"cluster down\")", part, b.Version(part), versions[part])
		}
	}
	return nil
}

// Chosen returns what Choose has decided.
func (b *Builder) Chosen() map[string]string { return maps.Clone(b.chosen) }

// choice returns the version as the name of its folder ends, or newest.
func (b *Builder) choice(part, version string) (string, error) {
	latest := minor((&Builder{parts: b.parts}).Version(part))
	if version == "" || version == newest || version == latest {
		return newest, nil
	}
	others, err := filepath.Glob(filepath.Join(b.parts, part+"-*"))
	if err != nil {
		return "", fmt.Errorf("looking for versions of %s: %w", part, err)
	}
	have := []string{latest}
	for _, dir := range others {
		have = append(have, strings.TrimPrefix(filepath.Base(dir), part+"-"))
	}
	if !slices.Contains(have, version) {
		return "", fmt.Errorf("there is no version %q of %s; there are %s", version, part, strings.Join(have, ", "))
	}
	return version, nil
}

// minor returns the minor version of a release: 1.36 for v1.36.3. Knative's modules are 27 behind: v0.50.0 is 1.23.
func minor(version string) string {
	var major, minor int
	if _, err := fmt.Sscanf(version, "v%d.%d.", &major, &minor); err != nil {
		return ""
	}
	if major == 0 {
		major, minor = 1, minor-27
	}
	return fmt.Sprintf("%d.%d", major, minor)
}

// stamp puts the version of a part into the flags of its commands.
func (b *Builder) stamp(u Unit) []Command {
	version := b.Version(u.Part)
	_, number, _ := strings.Cut(minor(version), ".")
	values := strings.NewReplacer("$VERSION", version, "$MINOR", number)
	commands := slices.Clone(u.Commands)
	for i := range commands {
		commands[i].LDFlags = values.Replace(commands[i].LDFlags)
	}
	return commands
}

// modules maps the name of a program to the module that determines its version.
var modules = map[string]struct{ part, module string }{
	"kubernetes": {"kubernetes", "k8s.io/kubernetes"},
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
		name = "kubernetes"
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
