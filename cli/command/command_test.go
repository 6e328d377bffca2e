// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/knative-cdevents/knative-cdevents/cli/command"
	"github.com/knative-cdevents/knative-cdevents/cli/screen"
	"github.com/knative-cdevents/knative-cdevents/test/controlplane"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// noon is when all commands of the test run.
var noon = time.Date(2040, time.January, 2, 12, 0, 0, 0, time.UTC)

// TestCommands runs the commands against a real API server with one fleet, and compares what they print. All
// but those of users with fewer rights go through a proxy that refuses anything but reading.
func TestCommands(t *testing.T) {
	cp := controlplane.Start(t)
	admin := kubeconfig(t, cp, "operator", "system:masters")

	t.Run("without Serving", func(t *testing.T) {
		run(t, admin, "", "list", "-n", "shop").errors(t, "")
		got := run(t, admin, "", "history", "cart", "-n", "shop")
		got.errors(t, "Knative Serving is not installed in this cluster")
	})
	f := newFleet(t, cp)
	reading := f.readOnly(t)

	for _, c := range []struct {
		name string
		args []string
	}{
		{"list", []string{"list", "-n", "shop"}},
		{"list-wide", []string{"list", "-A", "-o", "wide"}},
		{"list-yaml", []string{"list", "-n", "shop", "-o", "yaml"}},
		{"history", []string{"history", "cart", "-n", "shop"}},
		{"history-wide", []string{"history", "service/cart", "-n", "shop", "-o", "wide"}},
		{"history-gone", []string{"history", "bygone", "-n", "shop"}},
		{"history-environment", []string{"history", "cluster/prod", "-n", "fleet"}},
		{"gate", []string{"gate", "cart", "-n", "shop"}},
		{"gate-ended", []string{"gate", "books", "-n", "shop"}},
		{"gate-never", []string{"gate", "crat", "-n", "shop"}},
		{"why", []string{"why", "-A"}},
		{"why-service", []string{"why", "cart", "-n", "shop"}},
		{"why-source", []string{"why", "source/staging", "-n", "shop"}},
		{"why-gone", []string{"why", "service/bygone", "-n", "shop"}},
		{"why-gate", []string{"why", "gate/crat", "-n", "shop"}},
	} {
		t.Run(c.name, func(t *testing.T) { run(t, reading, "", c.args...).golden(t, c.name) })
	}
	t.Run("terminal", func(t *testing.T) {
		run(t, reading, "terminal", "list", "-n", "shop").golden(t, "list-terminal")
		run(t, reading, "terminal", "why", "staging", "-n", "shop").golden(t, "why-terminal")
		run(t, reading, "ascii", "gate", "cart", "-n", "shop").golden(t, "gate-ascii")
	})
	t.Run("names", func(t *testing.T) {
		for _, c := range []struct{ of, want string }{
			{"history", "books cart hooks"}, {"why", "books books-gate cart cart-gate crat hooks releases staging"}, {"gate", "books books-gate cart cart-gate crat"}, {"watch", "books cart hooks"},
		} {
			got := run(t, reading, "", "__complete", c.of, "-n", "shop", "")
			var words []string
			for line := range strings.Lines(got.out) {
				if word, _, _ := strings.Cut(strings.TrimSpace(line), "\t"); word != "wait" { // the command
					words = append(words, word)
				}
			}
			if got := strings.Join(words[:len(words)-1], " "); got != c.want {
				t.Errorf("%s is completed by %q, want %q", c.of, got, c.want)
			}
		}
		if got := run(t, reading, "", "__complete", "list", "-o", "jsonp"); !strings.HasPrefix(got.out, "jsonpath=\n:6\n") {
			t.Errorf("-o is completed by %q", got.out)
		}
		if got := run(t, reading, "", "__complete", "history", "-n", "fleet", "cluster/"); !strings.HasPrefix(got.out, "cluster/prod\n") {
			t.Errorf("environments are completed by %q", got.out)
		}
	})
	t.Run("mistakes", func(t *testing.T) {
		for _, c := range []struct{ args, want string }{
			{"history nope -n shop", `there is no Knative Service "nope" in namespace shop`},
			{"history cluster/nope -n fleet", `the ledger has no cluster "nope", neither in namespace fleet nor without one`},
			{"gate nope -n shop", `there is no Knative Service "nope" in namespace shop`},
			{"gate wiat -n shop", `there is no Knative Service "wiat" in namespace shop; did you mean kubectl cdevents gate wait?`},
			{"gate hooks -n shop", `Service "hooks" in namespace shop has no gate; to create one: kubectl cdevents create gate hooks -n shop --service hooks --watch`},
			{"gate gate/cart -n shop", `there is no CanaryGate "cart" in namespace shop`},
			{"gate service/cart-gate -n shop", `there is no Knative Service "cart-gate" in namespace shop`},
			{"gate pod/cart -n shop", `"pod" is none of service and gate`},
			{"gate wait gate/nope -n shop", `there is no CanaryGate "nope" in namespace shop`},
			{"history /cart -n shop", "a kind or a name is missing"},
			{"watch nope -n shop", `there is no Knative Service "nope" in namespace shop`},
			{"why nope -n shop", `there is no source, Service or gate "nope" in namespace shop`},
			{"why service/nope -n shop", `there is no service "nope" in namespace shop`},
			{"why source/cart -n shop", `there is no source "cart" in namespace shop`},
			{"why pod/cart -n shop", `"pod" is none of source, service and gate`},
			{"why cart -A", `do not go together`},
			{"list -o table", `-o table is not known; use one of json, yaml`},
			{"list --context nope", `the kubeconfig has no context "nope"`},
		} {
			run(t, reading, "", strings.Fields(c.args)...).errors(t, c.want)
		}
	})
	t.Run("jsonpath", func(t *testing.T) { // the example of the help
		got := run(t, reading, "", "list", "-A", "-o", `jsonpath={range .services[?(@.pending>0)]}{.namespace}/{.name}{"\n"}{end}`)
		if got.errors(t, ""); got.out != "shop/bygone\nshop/cart\n" {
			t.Errorf("it printed %q", got.out)
		}
	})
	t.Run("names of -o name", func(t *testing.T) {
		for _, of := range []string{"list", "why", "gate cart"} {
			for name := range strings.Lines(run(t, reading, "", append(strings.Fields(of), "-n", "shop", "-o", "name")...).out) {
				run(t, reading, "", "why", "-n", "shop", strings.TrimSpace(name)).errors(t, "")
			}
		}
		run(t, reading, "", "gate", "-n", "shop", "canarygate.knative-cdevents.dev/cart-gate").errors(t, "")
		run(t, reading, "", "gate", "-n", "shop", "service.serving.knative.dev/cart").errors(t, "")
		run(t, reading, "", "history", "-n", "shop", "service.serving.knative.dev/cart").errors(t, "")
	})
	t.Run("deleted", func(t *testing.T) { f.deleted(t, reading) })
	t.Run("selected", func(t *testing.T) { f.selected(t, reading) })
	t.Run("serverless", func(t *testing.T) { f.serverless(t, reading) })
	t.Run("watch", func(t *testing.T) { f.watch(t, reading) })
	t.Run("rights", func(t *testing.T) { f.rights(t) })
	t.Run("compare", func(t *testing.T) { f.compare(t, reading) })
	t.Run("plugin", func(t *testing.T) { plugin(t, admin) })
	t.Run("follow", func(t *testing.T) { f.follow(t, reading) })
	t.Run("wait", func(t *testing.T) { f.wait(t, reading) })
	t.Run("create", func(t *testing.T) { f.create(t, admin) })
	t.Run("test-event", func(t *testing.T) { f.testEvent(t, admin) })
	t.Run("check", func(t *testing.T) { f.check(t, admin) })
	t.Run("version", func(t *testing.T) { f.version(t, admin) })
	t.Run("not installed", func(t *testing.T) {
		f.uninstall(t)
		for _, args := range []string{
			"list -n shop", "gate cart -n shop", "why -n shop", "history cart -n shop", "watch -n shop",
			"create gate a -n shop --service cart", "create source a -n shop --sink svc:a --dry-run=server",
		} {
			got := run(t, admin, "", strings.Fields(args)...)
			if got.errors(t, "knative-cdevents is not installed in this cluster"); command.Code(got.failed) != 3 {
				t.Errorf("%s: the exit code is %d", args, command.Code(got.failed))
			}
		}
	})
}

// result is what a command printed.
type result struct {
	args     []string
	out, err string
	failed   error
}

// run runs a command with a kubeconfig, on a pipe or on a terminal.
func run(t *testing.T, config, on string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return runIn(ctx, config, on, args...)
}

// runAt runs a command with a clock.
func runAt(t *testing.T, config string, now func() time.Time, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return runWith(ctx, config, "", now, args...)
}

func runIn(ctx context.Context, config, on string, args ...string) result {
	return runWith(ctx, config, on, func() time.Time { return noon }, args...)
}

func runWith(ctx context.Context, config, on string, now func() time.Time, args ...string) result {
	var out, errs bytes.Buffer
	o := command.Options{
		IOStreams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errs},
		Program:   "/usr/bin/kubectl-cdevents", Getenv: func(string) string { return "" }, Now: now,
	}
	switch on {
	case "terminal":
		o.Screen = &screen.Screen{Out: &out, Width: 80, Colour: true}
	case "ascii":
		o.Screen = &screen.Screen{Out: &out, Width: 100, ASCII: true}
	}
	// The flag comes last: the words to complete are at the end of a line.
	if args[0] == "__complete" {
		args = append([]string{args[0], "--kubeconfig", config}, args[1:]...)
	} else {
		args = append(args, "--kubeconfig", config)
	}
	err := command.New(o, args).ExecuteContext(ctx) //nolint:contextcheck // ExecuteContext passes it
	return result{args, out.String(), errs.String(), err}
}

// errors checks why a command failed; "" for not at all.
func (r result) errors(t *testing.T, want string) {
	t.Helper()
	switch {
	case want == "" && r.failed != nil:
		t.Errorf("%v failed: %v", r.args, r.failed)
	case want != "" && r.failed == nil:
		t.Errorf("%v did not fail; it printed %s%s", r.args, r.out, r.err)
	case want != "" && !strings.Contains(r.failed.Error(), want):
		t.Errorf("%v failed with %q, want %q", r.args, r.failed, want)
	}
}

// golden compares what a command printed with a file. What it printed beside the result comes last.
func (r result) golden(t *testing.T, name string) {
	t.Helper()
	r.errors(t, "")
	got := r.out
	if r.err != "" {
		got += "--- beside the result\n" + r.err
	}
	path := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%v (-want +got; -update rewrites):\n%s", r.args, diff)
	}
}
