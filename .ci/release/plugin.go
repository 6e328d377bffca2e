// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// maxPlugin is what the plugin may have, unpacked. One that registers the types of all of Kubernetes, as client-go's
// clientset and discovery do, has a third as much again. One that calls methods by name, as text/template does, has
// half as much again: the linker then keeps every method. "go build -ldflags=-dumpdep" shows who does, as
// <ReflectMethod>.
const maxPlugin = 36_000_000

// plugins writes an archive for each system, and the manifest for krew.
func (r *release) plugins(ctx context.Context, licenses []byte) error {
	if len(r.systems) == 0 {
		return nil
	}
	own, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return fmt.Errorf("reading the license: %w", err)
	}
	dir, err := os.MkdirTemp("", "release-plugin-")
	if err != nil {
		return fmt.Errorf("making a folder for the plugin: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	krew := strings.NewReplacer("$VERSION", r.version, "$MODULE", module).Replace(krewHead)
	for _, s := range r.systems {
		system, architecture, _ := strings.Cut(s, "/")
		program := "kubectl-cdevents"
		if system == "windows" {
			program += ".exe"
		}
		path := filepath.Join(dir, program)
		env := []string{"CGO_ENABLED=0", "GOOS=" + system, "GOARCH=" + architecture}
		link := "-ldflags=-s -w -X " + module + "/cli/released.Version=" + r.version
		args := []string{"build", "-trimpath", link, "-o", path, "./cmd/kubectl-cdevents"}
		if _, err := r.command(ctx, env, "", "go", args...); err != nil {
			return fmt.Errorf("building the plugin for %s: %w", s, err)
		}
		raw, err := os.ReadFile(path) //nolint:gosec // just built
		if err != nil {
			return fmt.Errorf("reading the plugin for %s: %w", s, err)
		}
		if len(raw) > maxPlugin {
			return fmt.Errorf("the plugin for %s has %d bytes; at most %d are allowed", s, len(raw), maxPlugin)
		}
		fmt.Fprintf(os.Stderr, "the plugin for %s has %.1f MB\n", s, float64(len(raw))/1e6)
		files := []file{
			{name: program, mode: 0o755, content: raw},
			{name: "LICENSE", mode: 0o644, content: own},
			{name: "licenses.txt", mode: 0o644, content: licenses},
		}
		pack, ending := gzipped, ".tar.gz"
		if system == "windows" {
			pack, ending = zipped, ".zip"
		}
		archive, err := pack(files)
		if err != nil {
			return err
		}
		name := "kubectl-cdevents-" + system + "-" + architecture + ending
		if err := r.file(name, archive); err != nil {
			return err
		}
		krew += strings.NewReplacer(
			"$OS", system, "$ARCH", architecture, "$URI", r.url+"/"+name, "$SHA", sum(archive), "$BIN", program,
		).Replace(krewPlatform)
	}
	return r.file("cdevents.yaml", []byte(krew))
}

// The manifest of krew, as its index wants it.
const (
	krewHead = `apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: cdevents
spec:
  version: $VERSION
  homepage: https://$MODULE
  shortDescription: Show what happens to Knative Services
  description: |
    Shows rollouts, canary gates and CDEvents of Knative Services, and why
    something does not work. It reads with your own rights, and needs
    knative-cdevents in the cluster.
  platforms:
`
	krewPlatform = `    - selector:
        matchLabels:
          os: $OS
          arch: $ARCH
      uri: $URI
      sha256: "$SHA"
      bin: $BIN
      files:
        - from: $BIN
          to: .
        - from: LICENSE
          to: .
        - from: licenses.txt
          to: .
`
)

func sum(raw []byte) string {
	s := sha256.Sum256(raw)
	return hex.EncodeToString(s[:])
}

func gzipped(files []file) ([]byte, error) {
	raw, err := tarOf(files)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	// Without a name and a time in its header.
	w := gzip.NewWriter(&out)
	if _, err := w.Write(raw); err != nil {
		return nil, fmt.Errorf("compressing an archive: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("compressing an archive: %w", err)
	}
	return out.Bytes(), nil
}

// zipEpoch is the first time that a zip archive knows.
var zipEpoch = time.Date(1980, time.January, 1, 0, 0, 0, 0, time.UTC)

func zipped(files []file) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range files {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: zipEpoch}
		h.SetMode(os.FileMode(f.mode)) //nolint:gosec // permissions
		to, err := w.CreateHeader(h)
		if err != nil {
			return nil, fmt.Errorf("adding %s to an archive: %w", f.name, err)
		}
		if _, err := to.Write(f.content); err != nil {
			return nil, fmt.Errorf("adding %s to an archive: %w", f.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("ending an archive: %w", err)
	}
	return out.Bytes(), nil
}
