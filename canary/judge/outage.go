// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"math"
	"time"
)

// An outage is plain to see, and no rate has to be estimated for it: most of the canary's requests fail, in
// every window for minutes on end, while hardly any of the baseline's fail. The sequential tests count a bad
// minute once, however many of its requests fail, because a healthy pod may have some. So a canary that answers
// no request at all would run for a quarter of an hour. Like a crash loop, an outage fails at once, and is
// no part of Alpha: requests that are equally likely to fail at both sides do not do this.
type outage struct {
	// Canary and Baseline count the requests since it began.
	Canary   tally `json:"canary"`
	Baseline tally `json:"baseline"`
	// Long is how long it has lasted at least.
	Long time.Duration `json:"long"`
}

const (
	// outageRate is the ratio of the canary's requests above which they fail in an outage. Fewer than
	// outageOthers of the baseline's do, and did in its worst minutes before.
	outageRate   = 0.5
	outageOthers = 0.1
	// outageTime is how long an outage lasts before it fails the canary. outageWindow is the most of it that one
	// window shows: a window after a pause may be an hour long, and most of its requests are of one bad minute.
	outageTime   = 2 * time.Minute
	outageWindow = outageTime / leastWindows
	// outageRequests are the fewest of the canary that fail, and the fewest of the baseline, in an outage.
	outageRequests = 20
)

// add takes a window, and all that the canary did in it, with its young pods. A window in which not most of the
// canary's requests fail, with or without young pods, ends an outage. One with requests of one side only shows none.
func (o *outage) add(t table, all tally, long time.Duration) {
	serves := func(t tally) bool { return t.N > 0 && t.rate() <= outageRate }
	switch {
	case serves(t.canary) || serves(all):
		*o = outage{}
	case t.canary.N > 0 && t.baseline.N > 0:
		o.Canary.add(t.canary)
		o.Baseline.add(t.baseline)
		o.Long += min(long, outageWindow)
	}
}

// outage reports whether there is an outage of the canary alone that is not negligible. Pods that are known to be as
// bad now and then may explain it, and so may what happened to the baseline before the canary's first pod.
func (d *metricData) outage(v analysis, m Metric) bool {
	t, o := d.Tests[0], d.Outage
	was, _ := v.worst.of(m, t.Bound)
	return o.Long >= outageTime && o.Canary.rate() > m.negligible() &&
		min(o.Canary.K/t.spreadOfPods(v.past, m), o.Baseline.N) >= outageRequests &&
		max(o.Baseline.rate(), was.rate()) < outageOthers &&
		o.Canary.odds() > t.differing(v.past, m)*o.Baseline.odds()
}

func (o *outage) String() string {
	return fmt.Sprintf("most requests of the canary failed for at least %s, and %s of the baseline's",
		o.Long.Round(time.Second), percent(new(o.Baseline.rate())))
}

// check returns why stored evidence cannot be used.
func (o *outage) check() error {
	least := min(o.Canary.N, o.Canary.K, o.Baseline.N, o.Baseline.K, float64(o.Long))
	if !(least >= 0) || math.IsInf(least, 0) {
		return fmt.Errorf("an outage of %s has less than no requests", o.Long)
	}
	return nil
}
