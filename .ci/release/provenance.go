// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// statement is an in-toto statement with SLSA provenance (https://slsa.dev/spec/v1.0/provenance). It has no times, as
// it would differ from run to run otherwise.
type statement struct {
	Type          string    `json:"_type"`
	Subject       []subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     predicate `json:"predicate"`
}

type subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

type predicate struct {
	BuildDefinition struct {
		BuildType            string            `json:"buildType"`
		ExternalParameters   map[string]string `json:"externalParameters"`
		ResolvedDependencies []resolved        `json:"resolvedDependencies"`
	} `json:"buildDefinition"`
	RunDetails struct {
		Builder struct {
			ID string `json:"id"`
		} `json:"builder"`
	} `json:"runDetails"`
}

type resolved struct {
	URI    string            `json:"uri"`
	Digest map[string]string `json:"digest,omitempty"`
}

// provenance says what the release was built from.
func (r *release) provenance(ctx context.Context, built []image) error {
	s := statement{Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1"}
	for _, i := range built {
		name, _, _ := strings.Cut(i.reference, "@")
		s.Subject = append(s.Subject, subject{name, map[string]string{"sha256": i.digest.Hex}})
	}
	files, err := r.files()
	if err != nil {
		return err
	}
	for _, f := range files {
		s.Subject = append(s.Subject, subject{f.name, map[string]string{"sha256": f.sum}})
	}
	definition := &s.Predicate.BuildDefinition
	definition.BuildType = "https://" + module + "/blob/main/DEVELOPMENT.md#a-release"
	definition.ExternalParameters = map[string]string{
		"target": "make release", "version": r.version, "repository": r.repository,
		"platforms":     strings.Join(r.platforms, ","),
		"pluginSystems": strings.Join(r.systems, ","),
	}
	definition.ResolvedDependencies = []resolved{{URI: "pkg:generic/go@" + goVersion()}}
	changed, err := r.command(ctx, nil, "", "git", "status", "--porcelain", "--untracked-files=no")
	commit := ""
	if err == nil {
		commit, err = r.command(ctx, nil, "", "git", "rev-parse", "HEAD")
	}
	switch {
	case err != nil || changed != "":
		fmt.Fprintln(os.Stderr, "the provenance names no commit: this is not a clean clone")
	default:
		definition.ResolvedDependencies = append(definition.ResolvedDependencies, resolved{
			URI:    "git+https://" + module + "@refs/tags/" + r.version,
			Digest: map[string]string{"gitCommit": strings.TrimSpace(commit)},
		})
	}
	s.Predicate.RunDetails.Builder.ID = "https://" + module + "/blob/main/.ci/release"
	raw, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the provenance: %w", err)
	}
	return r.file("provenance.json", append(raw, '\n'))
}

// summed is a file of the release.
type summed struct{ name, sum string }

// files lists what is in the release. The digests of images are in images.txt, and say what is in the layout.
func (r *release) files() ([]summed, error) {
	var out []summed
	err := filepath.WalkDir(r.out, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(r.out, path)
		if err != nil {
			return fmt.Errorf("listing the release: %w", err)
		}
		if d.IsDir() && name == "images" {
			return filepath.SkipDir
		}
		if d.IsDir() || name == marker {
			return nil
		}
		raw, err := os.ReadFile(path) //nolint:gosec // just written
		if err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		out = append(out, summed{filepath.ToSlash(name), sum(raw)})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing the release: %w", err)
	}
	return out, nil
}

// checksums writes what "sha256sum -c" reads.
func (r *release) checksums() error {
	files, err := r.files()
	if err != nil {
		return err
	}
	var out strings.Builder
	for _, f := range files {
		fmt.Fprintf(&out, "%s  %s\n", f.sum, f.name)
	}
	return r.file(marker, []byte(out.String()))
}
