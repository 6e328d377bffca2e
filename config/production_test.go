// SPDX-License-Identifier: Apache-2.0

package config

import (
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Whoever mirrors images finds all of them on the page, and no other ones.
func TestPageListsEveryImage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/production.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "## Air-gapped")
	section, _, _ = strings.Cut(section, "\n## ")
	var listed, used []string
	for _, name := range regexp.MustCompile("`((?:cmd|clients)/[a-z/-]+)`").FindAllStringSubmatch(section, -1) {
		listed = append(listed, name[1])
	}
	built := regexp.MustCompile(`ko://github\.com/knative-cdevents/knative-cdevents/(\S+)`)
	folder := os.DirFS(".")
	err = fs.WalkDir(folder, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".yaml") {
			return err
		}
		raw, err := fs.ReadFile(folder, path)
		for _, name := range built.FindAllStringSubmatch(string(raw), -1) {
			used = append(used, name[1])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(listed)
	slices.Sort(used)
	if used = slices.Compact(used); !slices.Equal(listed, used) {
		t.Errorf("the page lists %v, and the manifests name %v", listed, used)
	}
}

// The memory on the page is what the pages of measurements say: a new run of the bench must change both.
func TestSizingIsMeasured(t *testing.T) {
	t.Parallel()
	text := func(path string) string {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	measured := text("../docs/lab/benchmarks.md") + text("../docs/lab/serverless.md") + text("../docs/benchmarks.md")
	rows := regexp.MustCompile(`(?m)^\| [^|]+ \| [^|]+ \| (\d+ MiB) \| \d+ MiB`).FindAllStringSubmatch(text("../docs/production.md"), -1)
	if len(rows) < 5 {
		t.Errorf("the page has only %d rows of memory", len(rows))
	}
	for _, row := range rows {
		if !strings.Contains(measured, " "+row[1]+" ") {
			t.Errorf("%s is in no table of measurements", row[1])
		}
	}
}
