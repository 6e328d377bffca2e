// SPDX-License-Identifier: Apache-2.0

// Command reference writes docs/plugin.md: all commands and flags of the plugin, from its own help. "make generate" runs
// it.
package main

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/knative-cdevents/knative-cdevents/cli/command"
)

const page = "docs/plugin.md"

const head = `# Reference of kubectl cdevents

<!-- Written by "make generate" from the help of the program. Do not edit. -->

[kubectl.md](kubectl.md) shows the plugin at work. This page lists all commands and flags.

`

func main() {
	log.SetFlags(0)
	root := command.New(command.Options{
		IOStreams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: io.Discard, ErrOut: io.Discard},
		Program:   "kubectl-cdevents", Getenv: func(string) string { return "" }, Now: time.Now,
	}, nil)
	root.InitDefaultHelpCmd()
	var out bytes.Buffer
	out.WriteString(head)
	out.WriteString(text(root.Long))
	out.WriteString("| command | what it does |\n|---|---|\n")
	list(&out, root)
	section(&out, root)
	out.WriteString("\n## Flags of all commands\n\n")
	flags(&out, root.PersistentFlags())
	if err := os.WriteFile(page, out.Bytes(), 0o644); err != nil { //nolint:gosec // a world-readable page
		log.Fatalf("reference: writing the page: %v", err)
	}
}

// list writes a row for each command.
func list(out *bytes.Buffer, of *cobra.Command) {
	for _, c := range commands(of) {
		name := path(c)
		fmt.Fprintf(out, "| [`%s`](#%s) | %s |\n", name, strings.ReplaceAll(name, " ", "-"), c.Short)
		list(out, c)
	}
}

// section writes a section for each command.
func section(out *bytes.Buffer, of *cobra.Command) {
	for _, c := range commands(of) {
		fmt.Fprintf(out, "\n## %s\n\n%s.\n\n```\n%s\n```\n\n", path(c), c.Short, usage(c))
		out.WriteString(text(c.Long))
		if c.Example != "" {
			fmt.Fprintf(out, "```sh\n%s\n```\n\n", dedent(c.Example))
		}
		flags(out, c.LocalNonPersistentFlags())
		section(out, c)
	}
}

func commands(of *cobra.Command) []*cobra.Command {
	var out []*cobra.Command
	for _, c := range of.Commands() {
		if c.Name() != "help" {
			out = append(out, c)
		}
	}
	return out
}

// path is the command without the name of the program.
func path(c *cobra.Command) string {
	_, rest, _ := strings.Cut(c.CommandPath(), " cdevents ")
	return rest
}

func usage(c *cobra.Command) string { return strings.TrimSuffix(c.UseLine(), " [flags]") }

// text writes paragraphs as they are, and indented lines as a block.
func text(long string) string {
	if long == "" {
		return ""
	}
	var out strings.Builder
	block := false
	for line := range strings.Lines(long + "\n") {
		if indented := strings.HasPrefix(line, "  "); indented != block {
			if block = indented; block {
				out.WriteString("\n")
			}
			out.WriteString("```\n")
		}
		out.WriteString(line)
	}
	if block {
		out.WriteString("```\n")
	}
	return out.String() + "\n"
}

func dedent(example string) string {
	return strings.TrimPrefix(strings.ReplaceAll(example, "\n  ", "\n"), "  ")
}

// flags writes a table of flags.
func flags(out *bytes.Buffer, of *pflag.FlagSet) {
	if !of.HasAvailableFlags() {
		return
	}
	out.WriteString("| flag | default | meaning |\n|---|---|---|\n")
	of.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		name := "`--" + f.Name + "`"
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		value := ""
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" {
			value = "`" + f.DefValue + "`"
		}
		fmt.Fprintf(out, "| %s | %s | %s |\n", name, value, strings.ReplaceAll(f.Usage, "|", `\|`))
	})
}
