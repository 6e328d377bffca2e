// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/knative-cdevents/knative-cdevents/api/plural"
	"github.com/knative-cdevents/knative-cdevents/cli/lint"
	"github.com/knative-cdevents/knative-cdevents/cli/screen"
)

// lintReport is what -o json prints.
type lintReport struct {
	Problems []lint.Problem `json:"problems"`
	// Files and Objects are how many were read, and Checked how many of the objects are about this project.
	Files   int `json:"files"`
	Objects int `json:"objects"`
	Checked int `json:"checked"`
}

func (e *env) lint() *cobra.Command {
	var files []string
	recursive := false
	c := &cobra.Command{
		Use:   "lint -f FILE | DIRECTORY | -",
		Short: "Find mistakes in manifests, without a cluster",
		Long: "Checks sources, gates (also those in Tekton's CustomRuns and Pipelines), the annotations and labels of Services and\n" +
			"other objects, and the controller's ConfigMaps except config-observability and config-leader-election, by the rules of\n" +
			"this version's API, webhook and controller. It needs no cluster. Other objects are skipped.\n\n" +
			"Each line is FILE:LINE: OBJECT FIELD: what is wrong, and what would be right. The exit code is 1 if there is any.",
		Example: "  kubectl cdevents lint -f deploy/ -R\n  kustomize build . | kubectl cdevents lint -f -",
		Args:    cobra.NoArgs,
	}
	c.Flags().StringSliceVarP(&files, "filename", "f", nil, "A file or folder of manifests, or - for the standard input")
	c.Flags().BoolVarP(&recursive, "recursive", "R", false, "Read the folders in a folder, too")
	must(c.MarkFlagFilename("filename", "yaml", "yml", "json"))
	o := addOutput(c)
	c.RunE = func(*cobra.Command, []string) error {
		p, err := o.printer()
		if err != nil {
			return err
		}
		if len(files) == 0 {
			return misused("nothing to read; name files or folders with -f, or - for the standard input")
		}
		l := &lint.Linter{System: e.system, Namespace: e.connection.overrides.Context.Namespace}
		read, err := e.lintAll(l, files, recursive)
		if err != nil {
			return err
		}
		r := lintReport{append([]lint.Problem{}, l.Problems...), read, l.Objects, l.Checked}
		if err := e.give(o, p, answer{kind: "Lint", value: r, show: func() { e.showLint(r) }}); err != nil {
			return err
		}
		if n := len(r.Problems); n > 0 {
			return no("%s found", plural.Of(n, "problem", "problems"))
		}
		return nil
	}
	return c
}

// lintAll reads all files, and returns how many there were.
func (e *env) lintAll(l *lint.Linter, files []string, recursive bool) (int, error) {
	read := 0
	for _, name := range files {
		if name == "-" {
			raw, err := io.ReadAll(e.In)
			if err != nil {
				return read, fmt.Errorf("reading the standard input: %w", err)
			}
			before, problems := l.Objects, len(l.Problems)
			l.Read("standard input", raw)
			if l.Objects == before && len(l.Problems) == problems {
				// What should have written it has failed: without pipefail, a script would go on.
				return read, no("the standard input has no objects")
			}
			read++
			continue
		}
		paths, err := manifests(name, recursive)
		if err != nil {
			return read, err
		}
		for _, path := range paths {
			raw, err := os.ReadFile(path) //nolint:gosec // the user names it
			if err != nil {
				return read, fmt.Errorf("reading a manifest: %w", err)
			}
			l.Read(path, raw)
			read++
		}
	}
	return read, nil
}

// manifests returns a file, or the files of a folder that have the names of manifests.
func manifests(name string, recursive bool) ([]string, error) {
	if strings.HasPrefix(name, "http://") || strings.HasPrefix(name, "https://") {
		return nil, misused("-f reads files, not URLs; instead: curl -fsSL '%s' | kubectl cdevents lint -f -", name)
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, coded{fmt.Errorf("reading a manifest: %w", err), codeUsage}
	}
	if !info.IsDir() {
		return []string{name}, nil
	}
	var out []string
	err = filepath.WalkDir(name, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != name && !recursive:
			return filepath.SkipDir
		case !d.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(path))):
			out = append(out, path)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading a folder: %w", err)
	}
	if len(out) == 0 {
		return nil, misused("folder %s has no file that ends with .yaml, .yml or .json; -R reads the folders in it, too", name)
	}
	return out, nil
}

func (e *env) showLint(r lintReport) {
	for _, p := range r.Problems {
		at := p.File
		if p.Line > 0 {
			at += fmt.Sprintf(":%d", p.Line)
		}
		what := strings.TrimSpace(p.Object + " " + p.Field)
		if what != "" {
			what += ": "
		}
		e.Screen.Printf("%s: %s%s\n", e.Screen.Paint(screen.Bold, at), what, p.What)
	}
	if len(r.Problems) == 0 {
		e.Screen.Printf("Nothing is wrong. Looked at %d of %s in %s.\n", r.Checked,
			plural.Of(r.Objects, "object", "objects"), plural.Of(r.Files, "file", "files"))
	}
}
