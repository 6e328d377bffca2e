// SPDX-License-Identifier: Apache-2.0

package build

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/report"
	"github.com/knative-cdevents/knative-cdevents/test/cluster/internal/store"
)

func TestPartsAreFoundAndPinEveryUnit(t *testing.T) {
	t.Parallel()
	parts, err := Parts()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, u := range []Unit{ControlPlane, Node, Containerd, Ko, Pause, Targets, Registry, CoreDNS, Traefik, Crossplane, ProviderNop, Compose} {
		if seen[u.Name] {
			t.Errorf("two units are called %s", u.Name)
		}
		seen[u.Name] = true
		if !store.Exists(filepath.Join(parts, u.Part, "go.mod")) {
			t.Errorf("nothing pins %s", u.Name)
		}
	}
	b := &Builder{parts: parts}
	if linked := b.stamp(Crossplane)[0].LDFlags; !strings.HasSuffix(linked, "version.version="+b.Version("crossplane")) {
		t.Errorf("Crossplane's version is not linked in: %s", linked)
	}
	for name := range modules {
		if !strings.HasPrefix(b.Version(name), "v") {
			t.Errorf("%s has no pinned version", name)
		}
	}
}

// The folder of an older version is named after what it pins, and holds all that the newest one does.
func TestOlderVersionsAreWhatTheirFoldersSay(t *testing.T) {
	t.Parallel()
	parts, err := Parts()
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"kubernetes", "serving"} {
		older, err := filepath.Glob(filepath.Join(parts, part+"-*"))
		if err != nil || len(older) == 0 {
			t.Errorf("there is no older version of %s (%v)", part, err)
		}
		for _, dir := range older {
			version := strings.TrimPrefix(filepath.Base(dir), part+"-")
			b := &Builder{parts: parts, chosen: map[string]string{}}
			if err := b.Choose(map[string]string{part: version}); err != nil {
				t.Error(err)
			}
			if got := minor(b.Version(part)); got != version || b.PartDir(part) != dir {
				t.Errorf("%s pins %s", dir, b.Version(part))
			}
			programs, err := os.ReadFile(filepath.Join(parts, part, "tools.go"))
			if err != nil {
				t.Fatal(err)
			}
			if here, err := os.ReadFile(filepath.Join(dir, "tools.go")); err != nil || string(here) != string(programs) {
				t.Errorf("%s pins other programs than the newest version (%v)", dir, err)
			}
		}
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	parts := t.TempDir()
	for dir, gomod := range map[string]string{
		"kubernetes": "require k8s.io/kubernetes v1.36.3\n", "kubernetes-1.34": "require k8s.io/kubernetes v1.34.9\n",
		"serving": "require knative.dev/serving v0.50.0\n", "serving-1.19": "require knative.dev/serving v0.46.8\n",
	} {
		if err := os.Mkdir(filepath.Join(parts, dir), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(parts, dir, "go.mod"), []byte(gomod), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		kubernetes, serving, then string
		// built are the versions of both, failure a part of the error.
		built, failure string
	}{
		{"", "", "", "v1.36.3 v0.50.0", ""},
		{"1.34", "", "", "v1.34.9 v0.50.0", ""},
		{"1.34", "1.19", "1.34", "v1.34.9 v0.46.8", ""},
		{"1.36", "1.23", "newest", "v1.36.3 v0.50.0", ""},
		{"newest", "newest", "1.36", "v1.36.3 v0.50.0", ""},
		{"1.35", "", "", "v1.36.3 v0.50.0", `no version "1.35" of kubernetes; there are 1.36, 1.34`},
		{"1.34", "", "1.36", "v1.34.9 v0.50.0", "runs kubernetes v1.34.9, not 1.36"},
		{"", "", "1.34", "v1.36.3 v0.50.0", "runs kubernetes v1.36.3, not 1.34"},
	} {
		b := &Builder{parts: parts, chosen: map[string]string{}}
		err := b.Choose(map[string]string{"kubernetes": c.kubernetes, "serving": c.serving})
		if err == nil {
			err = b.Choose(map[string]string{"kubernetes": c.then})
		}
		if c.failure == "" && err != nil || c.failure != "" && (err == nil || !strings.Contains(err.Error(), c.failure)) {
			t.Errorf("%v: got error %v", c, err)
		}
		if got := b.Version("kubelet") + " " + b.Version("serving"); got != c.built {
			t.Errorf("%v: builds %s", c, got)
		}
		major, number, _ := strings.Cut(strings.TrimPrefix(b.Version("kubernetes"), "v"), ".")
		number, _, _ = strings.Cut(number, ".")
		for _, u := range []Unit{ControlPlane, Node} {
			linked := b.stamp(u)[0].LDFlags
			for _, want := range []string{"gitVersion=" + b.Version("kubernetes") + " ", "gitMajor=" + major + " ", "gitMinor=" + number + " "} {
				if !strings.Contains(linked, want) {
					t.Errorf("%v: %s links %q in, not %q", c, u.Name, linked, want)
				}
			}
			if strings.Contains(u.Commands[0].LDFlags, b.Version("kubernetes")) {
				t.Error("stamping changes the unit")
			}
		}
	}
}

func TestKeyDependsOnAllInputsOfABuild(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	key := func(version, flags string) string {
		k, err := partKey(dir, version, flags)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	if _, err := partKey(dir, "go1", "-s"); err == nil {
		t.Error("a part without go.mod has a key")
	}
	write("go.mod", "module x")
	first := key("go1", "-s")
	if key("go1", "-s") != first {
		t.Error("the key changes by itself")
	}
	write("README.md", "words")
	write("tools.go", "package x")
	if key("go1", "-s") != first {
		t.Error("the key changes with what is not built")
	}
	if key("go2", "-s") == first || key("go1", "-w") == first {
		t.Error("another Go or other flags have the same key")
	}
	write("go.sum", "x v1 h1:")
	if key("go1", "-s") == first {
		t.Error("other modules have the same key")
	}
}

func TestRequired(t *testing.T) {
	t.Parallel()
	const gomod = "module a\n\nrequire b v1.0.0\n\nrequire (\n\tc v2.0.0 // indirect\n\td/v3 v3.1.0\n)\n"
	for module, want := range map[string]string{"b": "v1.0.0", "c": "v2.0.0", "d/v3": "v3.1.0", "d": ""} {
		if got := required(gomod, module); got != want {
			t.Errorf("%s: got %q", module, got)
		}
	}
}

func TestPairRequiresOneDocumentPerReference(t *testing.T) {
	t.Parallel()
	got, err := pair([]string{"ko://a", "ko://b"}, "r/a@sha256:1\n---\nr/b@sha256:2\n\n---\n")
	if err != nil || got["ko://a"] != "r/a@sha256:1" || got["ko://b"] != "r/b@sha256:2" {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := pair([]string{"ko://a", "ko://b"}, "r/a@sha256:1\n"); err == nil {
		t.Error("one answer was taken for two references")
	}
}

func TestMemoryAvailable(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "meminfo")
	if err := os.WriteFile(path, []byte("MemTotal: 10 kB\nMemAvailable:    2048 kB\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := memoryAvailable(path); got != 2<<20 {
		t.Errorf("got %d", got)
	}
	if got := memoryAvailable(path + "x"); got != 0 {
		t.Errorf("a missing file: got %d", got)
	}
	if n := parallel(); n < 1 || n > 2 {
		t.Errorf("%d builds at once", n)
	}
}

// builder builds the unit "x" from a part that a test wrote.
func builder(t *testing.T, program string) (*Builder, Unit) {
	t.Helper()
	parts := t.TempDir()
	if err := os.Mkdir(filepath.Join(parts, "x"), 0o750); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"go.mod": "module x\n\ngo 1.26.0\n", "main.go": program} {
		if err := os.WriteFile(filepath.Join(parts, "x", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	st, err := store.At(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &Builder{
		store: st, say: report.New(io.Discard), parts: parts, slots: make(chan struct{}, 1),
		running: map[string]*future{}, versions: map[string]string{}, chosen: map[string]string{},
	}
	return b, Unit{Name: "x", Part: "x", Commands: []Command{{LDFlags: small, Packages: []string{"."}}}}
}

func TestBuildIsReusedByAnotherRun(t *testing.T) {
	t.Parallel()
	b, u := builder(t, "package main\n\nfunc main() {}\n")
	dir, err := b.Dir(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "x")
	before, err := os.Stat(binary)
	if err != nil {
		t.Fatal(err)
	}
	b.running = map[string]*future{}
	if again, err := b.Dir(t.Context(), u); err != nil || again != dir {
		t.Fatal(again, err)
	}
	after, err := os.Stat(binary)
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("built again: %v", err)
	}
}

func TestFailedBuildReportsErrorAndLog(t *testing.T) {
	t.Parallel()
	b, u := builder(t, "package main\n\nfunc main() { undefined() }\n")
	_, err := b.Dir(t.Context(), u)
	if err == nil || !strings.Contains(err.Error(), "undefined: undefined") || !strings.Contains(err.Error(), b.store.Log("build-x")) {
		t.Errorf("got %v", err)
	}
}

func TestInterruptedBuildLeavesNothingAndCanBeResumed(t *testing.T) {
	t.Parallel()
	b, u := builder(t, "package main\n\nfunc main() {}\n")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Dir(ctx, u); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	left, err := filepath.Glob(filepath.Join(b.store.Root(), "bin", "*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left %q, %v", left, err)
	}
}

func TestAdviceFitsTheFailure(t *testing.T) {
	t.Parallel()
	for output, want := range map[string]string{
		"write /x: no space left on device":                              "disk is full",
		"compile: signal: killed":                                        "memory is short",
		"k8s.io/kubernetes@v1: dial tcp 1.2.3.4:443: connection refused": "module proxy",
		"./main.go:3:2: undefined: x":                                    "",
	} {
		if got := advice(output); !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("%s: got %q", output, got)
		}
	}
}
