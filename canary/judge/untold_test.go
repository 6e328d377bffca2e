// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"slices"
	"strings"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// A few requests of which it is not known how they ended hide nothing, and change nothing. As soon as a Pass would rest
// on their being good, there is none; a Fail never rests on them. Without a duration, only those in excess count.
func TestRequestsThatTellNothing(t *testing.T) {
	t.Parallel()
	silent := func(n, bad, untold float64) Arm {
		a := arm(n, bad)
		a.Untold, a.Untimed, a.Above = untold, untold, map[float64]float64{0.5: bad}
		return a
	}
	const outcome, duration = "have no outcome, and a Pass would not hold", "more than the baseline's share have no duration"
	for name, c := range map[string]struct {
		plan             Plan
		canary, baseline Arm
		want             verdict.Verdict
		says             string
	}{
		"outcomes: one of a thousand":           {errorsOnly(), silent(1000, 0, 1), silent(9000, 0, 0), verdict.Pass, ""},
		"outcomes: one of a thousand, 1 % fail": {errorsOnly(), silent(1000, 10, 1), silent(9000, 90, 9), verdict.Pass, ""},
		"outcomes: 8 % on both sides":           {errorsOnly(), silent(1000, 0, 80), silent(9000, 0, 720), verdict.Inconclusive, outcome},
		"outcomes: 8 %, 1 % fail":               {errorsOnly(), silent(1000, 10, 80), silent(9000, 90, 720), verdict.Inconclusive, outcome},
		"outcomes: 8 % of the baseline's":       {errorsOnly(), silent(1000, 0, 0), silent(9000, 0, 720), verdict.Pass, ""},
		"outcomes: 8 %, and the canary fails":   {errorsOnly(), silent(1000, 50, 80), silent(9000, 90, 720), verdict.Fail, ""},
		"durations: 8 % on both sides":          {latency(Slow), silent(1000, 0, 80), silent(9000, 0, 720), verdict.Pass, ""},
		"durations: 8 %, 1 % are slow":          {latency(Slow), silent(1000, 10, 80), silent(9000, 90, 720), verdict.Pass, ""},
		"durations: 8 % of the canary's":        {latency(Slow), silent(1000, 0, 80), silent(9000, 0, 0), verdict.Inconclusive, duration},
		"durations: 8 % and 1 %, 1 % are slow":  {latency(Slow), silent(1000, 10, 80), silent(9000, 90, 90), verdict.Inconclusive, duration},
		"durations: a few more":                 {latency(Slow), silent(1000, 0, 2), silent(9000, 0, 9), verdict.Pass, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := repeat(c.plan, c.canary, c.baseline, nil)
			if j.Verdict != c.want || !strings.Contains(j.Message, c.says) {
				t.Errorf("%s %q: %s", j.Verdict, j.Reasons, j.Message)
			}
			if c.says != "" && !slices.Contains(j.Reasons, verdict.NoData) {
				t.Errorf("%q", j.Reasons)
			}
		})
	}
}

// Requests without a duration are not fast: the ratio is of those that have one.
func TestUntimedRequestsAreNotFast(t *testing.T) {
	t.Parallel()
	a := arm(100, 0)
	a.Untimed, a.Above = 10, map[float64]float64{0.5: 9}
	did, lack := slow{}.read(Metric{}, a, []*test{{Bound: 0.5}})
	if want := (tally{N: 90, K: 9}); lack != "" || did[0] != want {
		t.Errorf("%+v %s", did, lack)
	}
}
