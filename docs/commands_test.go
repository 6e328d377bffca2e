// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/knative-cdevents/knative-cdevents/cli/command"
)

// commands that read the tree: the target of a make, and the files that kubectl applies or deletes.
var (
	target  = regexp.MustCompile(`(?m)^(?:[A-Z_]+=\S+ )*make (?:-s )?([a-z][a-z0-9-]*)`)
	applied = regexp.MustCompile(`-f (config/[^ \\\n]+)`)
)

// What a reader is told to run exists: targets of the Makefile, and files of this repository.
func TestCommands(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for from, p := range pages(t) {
		for _, m := range target.FindAllStringSubmatch(p.commands, -1) {
			found++
			if !regexp.MustCompile(`(?m)^` + m[1] + `:`).Match(makefile) {
				t.Errorf("%s says to run make %s: the Makefile has no such target", from, m[1])
			}
		}
		for _, m := range applied.FindAllStringSubmatch(p.commands, -1) {
			found++
			if files, err := filepath.Glob(filepath.Join("..", m[1])); err != nil || len(files) == 0 {
				t.Errorf("%s says to apply %s: there is no such file: %v", from, m[1], err)
			}
		}
	}
	if found < 50 {
		t.Errorf("found only %d commands; are the documents read as they are written?", found)
	}
}

// argument is a word of a command.
type argument struct {
	text   string
	quoted bool
}

// invocations divides what a shell reads into commands, and these into words. It knows as much of a shell as documents use.
func invocations(script string) [][]argument {
	var out [][]argument
	var words []argument
	var word strings.Builder
	var quote rune
	quoted, begun := false, false
	flush := func() {
		if begun {
			words = append(words, argument{word.String(), quoted})
		}
		word.Reset()
		quoted, begun = false, false
	}
	end := func() {
		flush()
		if len(words) > 0 {
			out = append(out, words)
		}
		words = nil
	}
	comment := false
	for _, r := range strings.ReplaceAll(script, "\\\n", " ") {
		switch {
		case comment && r != '\n':
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quoted = quoted || !begun
			quote, begun = r, true
		case r == '#' && !begun:
			comment = true
		case strings.ContainsRune("\n|;&()`", r):
			comment = false
			end()
		case r == ' ' || r == '\t':
			flush()
		default:
			begun = true
			word.WriteRune(r)
		}
	}
	end()
	return out
}

// flags are the names of those in a command.
func flags(words []argument) []string {
	var out []string
	for _, w := range words {
		if w.text == "--" {
			break
		}
		if name, _, _ := strings.Cut(w.text, "="); !w.quoted && strings.HasPrefix(name, "-") && name != "-" {
			out = append(out, name)
		}
	}
	return out
}

func joined(words []argument) string {
	var out []string
	for _, w := range words {
		out = append(out, w.text)
	}
	return strings.Join(out, " ")
}

var verb = regexp.MustCompile(`^[a-z][a-z-]*$`)

// Each command of kubectl and of the plugin exists, with its flags. What they print on a cluster is the matter of the
// end-to-end tests.
func TestCommandsOfKubectl(t *testing.T) {
	t.Parallel()
	root := command.New(command.Options{
		IOStreams: genericiooptions.NewTestIOStreamsDiscard(), Program: "kubectl-cdevents",
		Getenv: func(string) string { return "" },
	}, nil)
	program, err := exec.LookPath("kubectl")
	if err != nil {
		t.Log("kubectl is not installed, so only the commands of the plugin are checked")
	}
	usages := map[string]string{}
	found := 0
	for from, p := range pages(t) {
		for _, words := range invocations(p.commands) {
			i := slices.IndexFunc(words, func(w argument) bool { return w.text == "kubectl" || w.text == "kn" })
			if i < 0 || len(words) < i+2 || !verb.MatchString(words[i+1].text) {
				continue // such as the name alone
			}
			switch args := words[i+1:]; {
			case args[0].text == "cdevents" && len(args) > 1 && verb.MatchString(args[1].text):
				found++
				plugin(t, from, root, args[1:])
			case args[0].text != "cdevents" && words[i].text == "kubectl" && program != "":
				found++
				builtin(t, from, program, usages, args)
			}
		}
	}
	if found < 100 {
		t.Errorf("found only %d commands; are the documents read as they are written?", found)
	}
}

func plugin(t *testing.T, from string, root *cobra.Command, args []argument) {
	t.Helper()
	c, _, err := root.Find(strings.Fields(joined(args)))
	if err != nil || c == root {
		t.Errorf("%s: kubectl cdevents %s: no such command (%v)", from, joined(args), err)
		return
	}
	for _, name := range flags(args) {
		known := c.Flags().Lookup(strings.TrimLeft(name, "-")) != nil || c.InheritedFlags().Lookup(strings.TrimLeft(name, "-")) != nil
		if !strings.HasPrefix(name, "--") {
			known = c.Flags().ShorthandLookup(name[1:2]) != nil || c.InheritedFlags().ShorthandLookup(name[1:2]) != nil
		}
		if !known {
			t.Errorf("%s: kubectl cdevents %s: no flag %s", from, joined(args), name)
		}
	}
}

// builtin asks kubectl itself. Its usage lists the flags of each command.
func builtin(t *testing.T, from, program string, usages map[string]string, args []argument) {
	t.Helper()
	if args[0].text == "krew" {
		return // another plugin
	}
	of := []string{args[0].text}
	for _, more := range args[1:] {
		if !slices.Contains([]string{"auth", "config", "create", "plugin", "rollout", "secret", "set"}, of[len(of)-1]) || !verb.MatchString(more.text) {
			break
		}
		of = append(of, more.text)
	}
	usage := func(of ...string) string {
		key := strings.Join(of, " ")
		if usages[key] == "" {
			out, err := exec.CommandContext(t.Context(), program, of...).CombinedOutput()
			if err != nil || bytes.Contains(out, []byte("kubectl controls the Kubernetes cluster manager")) {
				t.Errorf("%s: kubectl %s: no such command (%v)", from, joined(args), err)
			}
			usages[key] = string(out)
		}
		return usages[key]
	}
	all := usage(append(slices.Clone(of), "--help")...) + usage("options")
	for _, name := range flags(args) {
		form := regexp.QuoteMeta(name) + "="
		if !strings.HasPrefix(name, "--") {
			form = `(?m)^\s*` + regexp.QuoteMeta(name[:2]) + ","
		}
		if !regexp.MustCompile(form).MatchString(all) {
			t.Errorf("%s: kubectl %s: no flag %s", from, joined(args), name)
		}
	}
}
