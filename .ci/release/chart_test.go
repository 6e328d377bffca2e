// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The chart of a release has the images of the release, and the same bytes each time.
func TestChart(t *testing.T) {
	t.Parallel()
	r, built := repository(t)
	text, err := os.ReadFile(filepath.Join(r.root, "charts", chartName, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	values, err := resolve(string(text), built)
	if err != nil || !strings.Contains(values, "\n  controller: registry.example.com/x/controller:v1.2.3@sha256:0\n") {
		t.Errorf("%v\n%s", err, values)
	}
	if r.root, err = filepath.Abs(r.root); err != nil {
		t.Fatal(err)
	}
	var archives [2][]byte
	for i := range archives {
		r.out = t.TempDir()
		if reference, err := r.chart(t.Context(), built); err != nil || reference != "" {
			t.Fatalf("%q, %v", reference, err)
		}
		if archives[i], err = os.ReadFile(filepath.Join(r.out, chartName+"-1.2.3.tgz")); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two archives of the same chart differ")
	}
}
