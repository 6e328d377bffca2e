// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/knative-cdevents/knative-cdevents/cli/command"
)

// plugin builds the program, and lets the kubectl that belongs to the API server find it.
func plugin(t *testing.T, config string) {
	kubectl := filepath.Join(assets(t), "kubectl")
	if _, err := os.Stat(kubectl); err != nil {
		t.Skipf("there is no kubectl in KUBEBUILDER_ASSETS: %v", err) // another folder than that of "make test"
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "kubectl-cdevents")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../cmd/kubectl-cdevents").CombinedOutput(); err != nil {
		t.Fatalf("building the plugin: %v\n%s", err, out)
	}
	for _, name := range []string{"kn-cdevents", command.Completer} {
		if err := os.Symlink(program, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	call := func(name string, args ...string) string {
		c := exec.CommandContext(t.Context(), name, args...)
		c.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "KUBECONFIG="+config)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Errorf("%s %v: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	for _, c := range []struct {
		want string
		args []string
	}{
		{"/kubectl-cdevents\n", []string{kubectl, "plugin", "list"}},
		{"cart      True", []string{kubectl, "cdevents", "list", "-n", "shop"}},
		{"cart\n", []string{kubectl, "__complete", "cdevents", "history", "-n", "shop", "ca"}},
		{"--namespace", []string{kubectl, "__complete", "cdevents", "list", "--name"}},
		{"kn cdevents [command]", []string{filepath.Join(dir, "kn-cdevents"), "--help"}},
		{"kubectl cdevents [command]", []string{program, "--help"}},
	} {
		if got := call(c.args[0], c.args[1:]...); !strings.Contains(got, c.want) {
			t.Errorf("%v printed %s, without %q", c.args, got, c.want)
		}
	}
	c := exec.CommandContext(t.Context(), program, "gate", "nope", "--kubeconfig", config)
	if out, err := c.CombinedOutput(); err == nil || string(out) != "error: there is no Knative Service \"nope\" in namespace default\n" {
		t.Errorf("for a wrong name, it ended with %v and %s", err, out)
	}
}

// assets returns the folder that the API server was started from.
func assets(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("KUBEBUILDER_ASSETS"); dir != "" {
		return dir
	}
	c := exec.CommandContext(t.Context(), "go", "run", ".", "assets")
	c.Dir = filepath.Join("..", "..", "test", "cluster")
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// shared is what a command that runs has printed so far.
type shared struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *shared) waitFor(t *testing.T, want string) {
	t.Helper()
	text := ""
	for range 300 {
		s.mu.Lock()
		text = s.text.String()
		s.mu.Unlock()
		if strings.Contains(text, want) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("%q was not printed, but only:\n%s", want, text)
}

func runTo(ctx context.Context, to *shared, config string, args ...string) result {
	c := command.New(command.Options{ //nolint:contextcheck // ExecuteContext passes it
		IOStreams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: to, ErrOut: to},
		Program:   "kn-cdevents", Getenv: func(string) string { return "" }, Now: func() time.Time { return noon },
	}, append(args, "--kubeconfig", config))
	err := c.ExecuteContext(ctx)
	return result{args: args, failed: err}
}
