// SPDX-License-Identifier: Apache-2.0

package cdevents

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

var update = flag.Bool("update", false, "write testdata and the examples in docs/event-examples.md anew")

// indented returns indented JSON; the values keep their bytes.
func indented(t *testing.T, data []byte) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Indent(&b, data, "", "  "); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Receivers see a change of these files, so it needs a new version of the rendering; see
// TestJournaledEventsKeepTheirBytes.
func TestGolden(t *testing.T) {
	each(t, func(t *testing.T, version string, tr lifecycle.Transition) {
		e := render(t, profile(version), tr)
		var headers strings.Builder
		for _, h := range binaryHeaders(e) {
			headers.WriteString(h + "\n")
		}
		// Each file looks like the request in binary mode.
		got := headers.String() + "\n" + indented(t, e.Data()) + "\n"
		compare(t, filepath.Join("testdata", strings.ToLower(string(tr.Type))+"-"+version+".txt"), got)
	})
}

func compare(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; if this is intended, run: go test ./emitter/cdevents -update\ngot:\n%s", file, got)
	}
}
