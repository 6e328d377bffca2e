// SPDX-License-Identifier: Apache-2.0

package dashboards

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The pages name only metrics that exist, and every one that exists is described. Those of the doorbell and of the core
// are in programs of their own.
func TestPagesNameExportedMetrics(t *testing.T) {
	names := exported(t)
	for _, name := range described(t) {
		names[name] = true
	}
	for _, name := range append(ofOthers, "cdevents_held_acknowledgements") { // the replica of these tests has no ledger
		names[name] = true
	}
	files, err := filepath.Glob("../docs/*.md")
	if err != nil || len(files) < 30 {
		t.Fatalf("found %d pages: %v", len(files), err)
	}
	var all strings.Builder
	metric := regexp.MustCompile(`\b(?:canary|gate|cdevents|dora|environment)_[a-z_]*[a-z]\b_?\*?`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
		for _, name := range metric.FindAllString(string(text), -1) {
			program := strings.HasPrefix(name, "cdevents_doorbell_") || strings.HasPrefix(name, "cdevents_core_")
			if !names[name] && !program && !strings.HasSuffix(name, "*") {
				t.Errorf("%s names %s, which is not exported", file, name)
			}
		}
	}
	for name := range names {
		part := strings.HasSuffix(name, "_bucket") || strings.HasSuffix(name, "_sum") || strings.HasSuffix(name, "_count")
		if metric.MatchString(name) && !part && !regexp.MustCompile("`"+name+"[`{]").MatchString(all.String()) {
			t.Errorf("no page describes %s", name)
		}
	}
}
