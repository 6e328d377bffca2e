// SPDX-License-Identifier: Apache-2.0

package dashboards

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/knative-cdevents/knative-cdevents/cli/command"
)

// commands are those of kubectl in the runbooks, in blocks and in sentences, without what they are piped into.
func commands(t *testing.T) [][]string {
	t.Helper()
	page, err := os.ReadFile("../docs/runbooks.md")
	if err != nil {
		t.Fatal(err)
	}
	var out [][]string
	for _, found := range regexp.MustCompile("(?s)(?m:^|`)kubectl (.*?)(?:\n```|\nkubectl |`)").FindAllStringSubmatch(overlapping(string(page)), -1) {
		line, _, _ := strings.Cut(found[1], " | ")
		if line != "cdevents" { // the plugin as such
			out = append(out, strings.Fields(line))
		}
	}
	if len(out) < 30 {
		t.Fatalf("found only %d commands: %q", len(out), out)
	}
	return out
}

// overlapping doubles the ends of lines between two commands of a block, so that each has its own.
func overlapping(page string) string { return strings.ReplaceAll(page, "\nkubectl ", "\n\nkubectl ") }

// flags are those in the arguments of a command, as they are written.
func flags(args []string) []string {
	var out []string
	quoted := false
	for _, a := range args {
		if name, _, _ := strings.Cut(a, "="); !quoted && strings.HasPrefix(name, "-") && name != "-" {
			out = append(out, name)
		}
		quoted = quoted != (strings.Count(a, "'")%2 == 1)
	}
	return out
}

// A runbook is read at night: each of its commands exists, with its flags. What they print on a cluster is the matter of
// the end-to-end tests.
func TestCommandsOfRunbooksExist(t *testing.T) {
	t.Parallel()
	root := command.New(command.Options{
		IOStreams: genericiooptions.NewTestIOStreamsDiscard(), Program: "kubectl-cdevents",
		Getenv: func(string) string { return "" },
	}, nil)
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		t.Log("kubectl is not installed, so only the commands of the plugin are checked")
	}
	usages := map[string]string{}
	for _, args := range commands(t) {
		if args[0] == "cdevents" {
			plugin(t, root, args)
		} else if kubectl != "" {
			builtin(t, kubectl, usages, args)
		}
	}
}

func plugin(t *testing.T, root *cobra.Command, args []string) {
	t.Helper()
	c, _, err := root.Find(args[1:])
	if err != nil || c == root {
		t.Errorf("kubectl %s: no such command (%v)", strings.Join(args, " "), err)
		return
	}
	for _, name := range flags(args) {
		known := c.Flags().Lookup(strings.TrimLeft(name, "-")) != nil || c.InheritedFlags().Lookup(strings.TrimLeft(name, "-")) != nil
		if !strings.HasPrefix(name, "--") {
			known = c.Flags().ShorthandLookup(name[1:2]) != nil || c.InheritedFlags().ShorthandLookup(name[1:2]) != nil
		}
		if !known {
			t.Errorf("kubectl %s: no flag %s", strings.Join(args, " "), name)
		}
	}
}

// builtin asks kubectl itself. Its usage lists the flags of each command.
func builtin(t *testing.T, kubectl string, usages map[string]string, args []string) {
	t.Helper()
	verb := args[:1]
	if slices.Contains([]string{"auth", "config", "rollout"}, args[0]) {
		verb = args[:2]
	}
	usage := func(of ...string) string {
		key := strings.Join(of, " ")
		if usages[key] == "" {
			out, err := exec.CommandContext(t.Context(), kubectl, of...).CombinedOutput()
			if err != nil || bytes.Contains(out, []byte("kubectl controls the Kubernetes cluster manager")) {
				t.Errorf("kubectl %s: no such command (%v)", strings.Join(args, " "), err)
			}
			usages[key] = string(out)
		}
		return usages[key]
	}
	all := usage(append(slices.Clone(verb), "--help")...) + usage("options")
	for _, name := range flags(args) {
		form := regexp.QuoteMeta(name) + "="
		if !strings.HasPrefix(name, "--") {
			form = `(?m)^\s*` + regexp.QuoteMeta(name[:2]) + ","
		}
		if !regexp.MustCompile(form).MatchString(all) {
			t.Errorf("kubectl %s: no flag %s", strings.Join(args, " "), name)
		}
	}
}
