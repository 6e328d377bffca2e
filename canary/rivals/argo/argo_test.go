// SPDX-License-Identifier: Apache-2.0

package argo_test

import (
	"math"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/canary/rivals/argo"
)

// The fourth measurement that fails ends the analysis.
func TestHowLongItTakes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		of   func(at time.Duration) float64
		end  argo.Phase
		when time.Duration
	}{
		"good":        {func(time.Duration) float64 { return .95 }, argo.Successful, 40 * time.Minute},
		"bad":         {func(time.Duration) float64 { return .94 }, argo.Failed, 25 * time.Minute},
		"ends early":  {func(time.Duration) float64 { return .95 }, argo.Undecided, 15 * time.Minute},
		"no requests": {func(time.Duration) float64 { return math.NaN() }, argo.Failed, 25 * time.Minute},
		"bad three times": {func(at time.Duration) float64 {
			return map[bool]float64{true: 0, false: 1}[at < 25*time.Minute]
		}, argo.Successful, 40 * time.Minute},
	} {
		if end, when := argo.Documented().Run(func(at time.Duration) (float64, bool) {
			return c.of(at), c.end != argo.Undecided || at <= 17*time.Minute
		}); end != c.end || when != c.when {
			t.Errorf("%s: %s after %s, want %s after %s", name, end, when, c.end, c.when)
		}
	}
	inline := argo.Metric{Start: time.Minute, Interval: time.Minute, Count: 5, Op: ">=", Than: .95}
	if end, when := inline.Run(func(time.Duration) (float64, bool) { return 1, true }); end != argo.Successful || when != 5*time.Minute {
		t.Errorf("five measurements: %s after %s", end, when)
	}
}
