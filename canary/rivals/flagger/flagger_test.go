// SPDX-License-Identifier: Apache-2.0

package flagger_test

import (
	"math"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/canary/rivals/flagger"
)

// Ten checks hold until the promotion, and the eleventh interval sees ten that failed.
func TestHowLongItTakes(t *testing.T) {
	t.Parallel()
	good := flagger.Window{Requests: 100, Failed: 1, Bounds: []float64{.5}, Buckets: []float64{100, 0}}
	bad := good
	bad.Failed = 2
	for name, c := range map[string]struct {
		of   func(minute int) flagger.Window
		end  flagger.Phase
		when time.Duration
	}{
		"good":            {func(int) flagger.Window { return good }, flagger.Succeeded, 10 * time.Minute},
		"bad":             {func(int) flagger.Window { return bad }, flagger.Failed, 11 * time.Minute},
		"no requests":     {func(int) flagger.Window { return flagger.Window{} }, flagger.Failed, 11 * time.Minute},
		"ends early":      {func(int) flagger.Window { return good }, flagger.Undecided, 5 * time.Minute},
		"bad for a while": {func(minute int) flagger.Window { return map[bool]flagger.Window{true: bad, false: good}[minute < 4] }, flagger.Succeeded, 14 * time.Minute},
	} {
		end, when := flagger.Documented().Run(func(from, to time.Duration) (flagger.Window, bool) {
			if to-from != time.Minute {
				t.Errorf("a window from %s to %s", from, to)
			}
			return c.of(int(from.Minutes())), c.end != flagger.Undecided || to <= 5*time.Minute
		})
		if end != c.end || when != c.when {
			t.Errorf("%s: %s after %s, want %s after %s", name, end, when, c.end, c.when)
		}
	}
}

// The values are those of Prometheus for the same buckets.
func TestQuantile(t *testing.T) {
	t.Parallel()
	bounds := []float64{.1, .5, 1}
	for _, c := range []struct {
		q       float64
		buckets []float64
		want    float64
	}{
		{.5, []float64{10, 10, 0, 0}, .1},
		{.75, []float64{10, 10, 0, 0}, .3},
		{.99, []float64{90, 5, 0, 5}, 1},
		{.25, []float64{10, 10, 0, 0}, .05},
		{.99, []float64{0, 0, 0, 0}, math.NaN()},
	} {
		if got := flagger.Quantile(c.q, bounds, c.buckets); math.Abs(got-c.want) > 1e-12 || math.IsNaN(got) != math.IsNaN(c.want) {
			t.Errorf("%v of %v: %v, want %v", c.q, c.buckets, got, c.want)
		}
	}
}
