// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// dependency is a module whose code is in a program of the release.
type dependency struct {
	path, version string
	// texts are its licenses and notices by their path in the module.
	texts map[string]string
}

// shipped are the systems whose programs a release has: a dependency may be in one of them only.
var shipped = map[string][]string{
	"linux/amd64": nil, "linux/arm64": nil,
	"darwin/amd64": plugin, "darwin/arm64": plugin, "windows/amd64": plugin, "windows/arm64": plugin,
}

var plugin = []string{module + "/cmd/kubectl-cdevents"}

var licenseFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|unlicense)([-_. ].*)?$`)

// dependencies reads them from Go's module cache.
func (r *release) dependencies(ctx context.Context) ([]dependency, error) {
	programs, err := r.programs()
	if err != nil {
		return nil, err
	}
	programs = append(programs, plugin...)
	modules := map[string]*dependency{}
	for system, only := range shipped {
		goos, goarch, _ := strings.Cut(system, "/")
		if only == nil {
			only = programs
		}
		const format = "{{with .Module}}{{if not .Main}}{{.Path}}\t{{.Version}}\t{{.Dir}}\t{{$.Dir}}{{end}}{{end}}"
		out, err := r.command(ctx, []string{"CGO_ENABLED=0", "GOOS=" + goos, "GOARCH=" + goarch}, "", "go",
			append([]string{"list", "-tags=grpcnotrace", "-deps", "-f", format}, only...)...)
		if err != nil {
			return nil, fmt.Errorf("listing what %s has: %w", system, err)
		}
		for line := range strings.Lines(out) {
			f := strings.Split(strings.TrimSpace(line), "\t")
			// Our own modules have our own license.
			if len(f) != 4 || strings.HasPrefix(f[0], module) {
				continue
			}
			d := modules[f[0]]
			if d == nil {
				d = &dependency{path: f[0], version: f[1], texts: map[string]string{}}
				modules[f[0]] = d
			}
			if err := d.collect(f[2], f[3]); err != nil {
				return nil, err
			}
		}
	}
	root, err := r.command(ctx, nil, "", "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	golang := &dependency{path: "go.dev", version: goVersion(), texts: map[string]string{}}
	if err := golang.collect(strings.TrimSpace(root), strings.TrimSpace(root)); err != nil {
		return nil, err
	}
	modules[golang.path] = golang
	var all []dependency
	for _, path := range slices.Sorted(maps.Keys(modules)) {
		if len(modules[path].texts) == 0 {
			return nil, fmt.Errorf("module %s has no license file", path)
		}
		all = append(all, *modules[path])
	}
	return all, nil
}

// collect reads the licenses from the folder of a package up to that of its module.
func (d *dependency) collect(module, dir string) error {
	for {
		held, err := os.ReadDir(dir)
		if err != nil {
			return fmt.Errorf("reading the licenses of %s: %w", d.path, err)
		}
		for _, f := range held {
			path := filepath.Join(dir, f.Name())
			name, err := filepath.Rel(module, path)
			if err != nil {
				return fmt.Errorf("reading the licenses of %s: %w", d.path, err)
			}
			if !licenseFile.MatchString(f.Name()) || strings.HasSuffix(f.Name(), ".go") || d.texts[name] != "" {
				continue
			}
			raw, err := os.ReadFile(path) //nolint:gosec // in the module cache
			if errors.Is(err, fs.ErrNotExist) || f.IsDir() {
				continue
			}
			if err != nil {
				return fmt.Errorf("reading the licenses of %s: %w", d.path, err)
			}
			d.texts[name] = strings.TrimSpace(strings.ReplaceAll(string(raw), "\r\n", "\n"))
		}
		if dir == module || !strings.HasPrefix(dir, module) {
			return nil
		}
		dir = filepath.Dir(dir)
	}
}

// named returns the SPDX names of its licenses.
func (d *dependency) named() (string, error) {
	var names []string
	for file, text := range d.texts {
		if strings.Contains(strings.ToLower(filepath.Base(file)), "notice") {
			continue
		}
		for _, m := range licensecheck.Scan([]byte(text)).Match {
			if !m.IsURL {
				names = append(names, m.ID)
			}
		}
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) == 0 {
		return "", fmt.Errorf("the license of %s is not known", d.path)
	}
	return strings.Join(names, ", "), nil
}

const noticeHead = `knative-cdevents
Copyright The knative-cdevents Authors

Licensed under the Apache License 2.0; see LICENSE.

The programs contain software of others. This list is generated from go.mod by "make notice". Each release has
the texts of these licenses, and the notices that they ask for, in licenses.txt; so have its images, below
/licenses, and its archives.

`

const noticeTail = `
The images contain the certificate authorities that Mozilla trusts, under the MPL-2.0:
golang.org/x/crypto/x509roots/fallback
`

// writeNotice writes NOTICE. It has no versions, so that an update of a dependency does not change it.
func (r *release) writeNotice(ctx context.Context) error {
	all, err := r.dependencies(ctx)
	if err != nil {
		return err
	}
	width := 0
	for _, d := range all {
		width = max(width, len(d.path))
	}
	var out strings.Builder
	out.WriteString(noticeHead)
	for _, d := range all {
		names, err := d.named()
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "%-*s  %s\n", width, d.path, names)
	}
	out.WriteString(noticeTail)
	path := filepath.Join(r.root, "NOTICE")
	if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil { //nolint:gosec // everybody may read it
		return fmt.Errorf("writing NOTICE: %w", err)
	}
	return nil
}

// licenses returns all texts, each of them once, after the modules that have it.
func (r *release) licenses(ctx context.Context) ([]byte, error) {
	all, err := r.dependencies(ctx)
	if err != nil {
		return nil, err
	}
	owners := map[string][]string{}
	for _, d := range all {
		for file, text := range d.texts {
			owners[text] = append(owners[text], d.path+" "+d.version+": "+file)
		}
	}
	for text := range owners {
		slices.Sort(owners[text])
	}
	texts := slices.SortedFunc(maps.Keys(owners), func(a, b string) int {
		return cmp.Or(cmp.Compare(owners[a][0], owners[b][0]), cmp.Compare(a, b))
	})
	var out strings.Builder
	out.WriteString("Licenses and notices of the software that knative-cdevents " + r.version + " contains.\n")
	for _, text := range texts {
		fmt.Fprintf(&out, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 100), strings.Join(owners[text], "\n"), text)
	}
	return []byte(out.String()), nil
}
