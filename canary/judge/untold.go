// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"math"
	"slices"
)

// Of some requests it is not known whether they are bad: one over HTTP/2 tells its outcome at its end, where
// queue-proxy does not look, and one that is broken off has no duration. As long as they are few, the others are
// judged. They prove nothing against the canary; but a Pass must hold even if they are bad.

// concealed returns how many of the canary's requests may be bad without showing it. A request without a duration is as
// likely slow as any other if the baseline has as many of them, so only those in excess count, by two deviations.
// Without an outcome, each counts, because a release may fail just what does not show.
func (d *metricData) concealed(m Metric) tally {
	n, t := d.Untold.Canary, d.Tests[0]
	if m.Kind.Source() != Durations {
		return tally{K: n} // The test has counted them as good.
	}
	times := (t.Canary.N + n) / max(1, t.Baseline.N+d.Untold.Baseline)
	if n = n - times*d.Untold.Baseline; n <= holdDeviations*math.Sqrt(d.Untold.Canary+times*times*d.Untold.Baseline) {
		return tally{}
	}
	n = math.Ceil(n)
	return tally{N: n, K: n}
}

// conceals says why a Pass would not hold if the requests that are not known to be good were bad; empty if it would.
func (d *metricData) conceals(m Metric, l levels) string {
	if d.Untold.Canary == 0 || len(d.Tests) == 0 {
		return ""
	}
	bad := d.concealed(m)
	if bad.K == 0 || !slices.ContainsFunc(d.Tests, func(t *test) bool { return !t.holds(l, m, bad) }) {
		return ""
	}
	what := "have no outcome, and a Pass would not hold if they failed"
	if m.Kind.Source() == Durations {
		what = "more than the baseline's share have no duration, and a Pass would not hold if they were slow"
	}
	return fmt.Sprintf("%.0f requests of the canary %s", bad.K, what)
}
