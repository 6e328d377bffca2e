// SPDX-License-Identifier: Apache-2.0

package kayenta

import (
	_ "embed"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
)

//go:embed testdata/real.txt
var itself string

// What Kayenta v2.46.0 itself finds: testdata/README.md says how it was asked.
func TestKayentaItself(t *testing.T) {
	t.Parallel()
	cases := strings.Split(strings.TrimSpace(itself), "\n")
	if len(cases) < 100 {
		t.Fatalf("%d cases", len(cases))
	}
	for i, line := range cases {
		f := strings.Fields(line)
		control, experiment := values(t, f[0]), values(t, f[1])
		if got := Classify(control, experiment); got != Class(f[2]) {
			t.Errorf("line %d: %s, Kayenta says %s", i+1, got, f[2])
		}
		if f[3] == "-" {
			continue
		}
		is := mannWhitney(experiment, control, confidence)
		for j, got := range []float64{is.low, is.high, is.estimate} {
			if want, err := strconv.ParseFloat(f[3+j], 64); err != nil || math.Abs(got-want) > 1e-9*max(1, math.Abs(want)) {
				t.Errorf("line %d: %s is %v, Kayenta has %s", i+1, []string{"low", "high", "estimate"}[j], got, f[3+j])
			}
		}
	}
}

// values reads percentages as fractions.
func values(t *testing.T, list string) (out []float64) {
	t.Helper()
	if list == "-" {
		return nil
	}
	for _, v := range strings.Split(list, ",") {
		var part, whole float64
		if _, err := fmt.Sscanf(v, "%g/%g", &part, &whole); err != nil {
			t.Fatal(err)
		}
		out = append(out, 100*part/whole)
	}
	return out
}
