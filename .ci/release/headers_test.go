// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Each source file names its license at its beginning, as the linter demands of those in Go.
func TestEverySourceNamesItsLicense(t *testing.T) {
	t.Parallel()
	list := exec.CommandContext(t.Context(), "git", "ls-files")
	list.Dir = "../.."
	out, err := list.Output()
	if err != nil {
		t.Fatalf("listing the files of the repository: %v", err)
	}
	seen := 0
	for path := range strings.FieldsSeq(string(out)) {
		if !slices.Contains([]string{".go", ".java", ".js", ".mjs", ".css", ".html"}, filepath.Ext(path)) {
			continue
		}
		seen++
		raw, err := os.ReadFile(filepath.Join("../..", path))
		if os.IsNotExist(err) {
			continue // deleted, and not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(raw[:min(len(raw), 200)], []byte("SPDX-License-Identifier: Apache-2.0")) {
			t.Errorf("%s does not begin with SPDX-License-Identifier: Apache-2.0", path)
		}
	}
	if seen < 1000 {
		t.Errorf("only %d source files were found", seen)
	}
}
