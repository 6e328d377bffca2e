package judge

import "math"

// pods is what the baseline's pods did in a window by one test; those that do not tell
// are left out.
func (d *metricData) pods(m Metric, test int, arms map[string]Arm) map[string]tally {
	out := make(map[string]tally, len(arms))
	for name, arm := range arms {
		if all, lack := d.read(m, arm); lack == "" {
			out[name] = all[test]
		}
	}
	return out
}

// fail is the logarithm of the evidence that the canary is worse than is tolerated.
//
// Where it is known how much pods differ, from before the split and from the baseline
// since, it is half the likelihood of all requests, tempered by that, and half bets on
// minutes. To temper is an estimate that is plugged in, and no theorem: simulations
// say how often it errs. Where it is not known there are plain bets on minutes alone; the
// other half is kept back for episodes that are longer.
func (t *test) fail(before past, m Metric) float64 {
	c := &t.Clusters
	e := logMean(c.Plain)
	if before.enough() && len(c.Pods) >= leastPods {
		e = logSum([]float64{t.likelihood(before, m), logMean(c.Bets)})
	}
	e -= math.Ln2
	if c.Informative < leastWindows {
		return min(e, 0)
	}
	return e
}

func (t *test) likelihood(before past, m Metric) float64 {
	times, known := t.spread(before, m)
	if !known {
		return math.Inf(-1)
	}
	return t.Odds.tempered(m.MaxOddsRatio, failGrid(m.MaxOddsRatio), times)
}

// warn is the logarithm of the evidence that the canary is worse at all.
func (t *test) warn(before past, m Metric) float64 {
	times, _ := t.spread(before, m)
	return t.Odds.tempered(1, warnGrid, times)
}

// spread is how many bad requests are one witness, and whether the windows tell.
func (t *test) spread(before past, m Metric) (times float64, known bool) {
	own, known := t.Clusters.spreadOfWindows()
	return max(own, t.Clusters.spreadOfPods(), before.spread(m, t.Bound)), known
}
