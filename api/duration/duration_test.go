// SPDX-License-Identifier: Apache-2.0

package duration

import (
	"testing"
	"time"
)

// Each notation is tested against its own specification, not against the other parser.
func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"2m": 120e9, "PT2M": 120e9, "1h30m": 5400e9, "PT1H30M": 5400e9, "0s": 0, "PT0S": 0, "PT0.2S": 200e6, "200ms": 200e6,
		"P1D": 86400e9, "P1W": 604800e9, "P1DT12H": 129600e9, "PT36H": 129600e9, "P1W2DT3H4M5.5S": 788645500e6, "-5s": -5e9,
		"P999W9999DT999999H999999M999999.999999999S": (999*7*24+9999*24+999999)*time.Hour + 999999*time.Minute + 999999999999999,
	} {
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("%s: got %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "P", "PT", "P1DT", "P1Y", "P1M", "P3000000000Y", "PT1H30", "pt2m", "2", "2 m", "-PT2M", "PT-2M", "PT1,5S", "P1D2W", "PT9999999H", "1d"} {
		if got, err := Parse(text); err == nil {
			t.Errorf("%q is %s", text, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("P1W2DT3H4M5.5S")
	f.Add("1h30m")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := Parse(text)
		if err != nil {
			return
		}
		if again, err := Parse(d.String()); err != nil || again != d {
			t.Errorf("%q is %s, but %s after a round trip (%v)", text, d, again, err)
		}
		if text[0] == 'P' && d < 0 {
			t.Errorf("%q is %s", text, d)
		}
	})
}
