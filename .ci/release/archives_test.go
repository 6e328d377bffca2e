// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
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
