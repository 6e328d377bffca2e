// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The same files give the same bytes.
func TestArchives(t *testing.T) {
	t.Parallel()
	files := []file{{name: "etc/", mode: 0o755}, {name: "etc/x", mode: 0o644, owner: 65532, content: []byte("x")}}
	for name, pack := range map[string]func([]file) ([]byte, error){"tar": tarOf, "gzip": gzipped, "zip": zipped} {
		first, err := pack(files)
		if err != nil {
			t.Fatal(err)
		}
		second, err := pack(files)
		if err != nil {
			t.Fatal(err)
		}
		if len(first) == 0 || !bytes.Equal(first, second) {
			t.Errorf("%s: two archives of the same files differ", name)
		}
	}
}

// A date without a month and a day, which is what no time gives, is not one that every program reads.
func TestZipHasADate(t *testing.T) {
	t.Parallel()
	raw, err := zipped([]file{{name: "x", mode: 0o755, content: []byte("x")}})
	if err != nil {
		t.Fatal(err)
	}
	// In MS-DOS's form, which stands in the header of the first file.
	if got := binary.LittleEndian.Uint16(raw[12:]); got != 1<<5|1 {
		t.Errorf("the date is %#x; it must be January 1, 1980", got)
	}
}

func TestBaseIsTheSame(t *testing.T) {
	t.Parallel()
	r := &release{root: "../..", platforms: []string{"linux/amd64", "linux/arm64"}}
	first, err := r.base(t.TempDir(), []byte("licenses"))
	if err != nil {
		t.Fatal(err)
	}
	second, err := r.base(t.TempDir(), []byte("licenses"))
	if err != nil {
		t.Fatal(err)
	}
	if first != second {
		t.Errorf("two base images differ: %s, %s", first, second)
	}
	if n := bytes.Count(authorities(), []byte("BEGIN CERTIFICATE")); n < 50 {
		t.Errorf("the base image has only %d certificate authorities", n)
	}
}

func TestFolderOfOthersStays(t *testing.T) {
	t.Parallel()
	r := &release{out: t.TempDir()}
	if err := r.empty(); err != nil {
		t.Fatal(err)
	}
	if err := r.file("release.yaml", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := r.empty(); err != nil {
		t.Errorf("a release is not replaced: %v", err)
	}
	other := &release{out: t.TempDir()}
	if err := other.file("mine.txt", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := other.empty(); err == nil {
		t.Error("a folder with something else was emptied")
	}
}

// A release takes long, and is signed last. A key that cannot be read is an error before, and an earlier release stays.
func TestKeyIsReadFirst(t *testing.T) {
	t.Setenv("COSIGN_KEY", "cosign.key")
	r := &release{root: t.TempDir(), out: t.TempDir()}
	tool := filepath.Join(r.root, ".ci", "tool")
	if err := os.Mkdir(filepath.Dir(tool), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(tool, []byte("#!/bin/sh\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{marker, "release.yaml"} {
		if err := r.file(name, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.write(t.Context()); err == nil || !strings.Contains(err.Error(), "COSIGN_KEY") {
		t.Errorf("the error is %v", err)
	}
	if _, err := os.Stat(filepath.Join(r.out, "release.yaml")); err != nil {
		t.Errorf("the earlier release is gone: %v", err)
	}
}
