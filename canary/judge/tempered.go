package judge

import "math"

// pods returns what the baseline's pods did in a window by one test, without pods that have no data.
func (d *metricData) pods(m Metric, test int, arms map[string]Arm) map[string]tally {
	out := make(map[string]tally, len(arms))
	for name, arm := range arms {
		if all, lack := m.Kind.kind().read(m, arm, d.Tests); lack == "" {
			out[name] = all[test]
		}
	}
	return out
}

// fail returns the log evidence that the canary is worse than tolerated.
//
// If the history and the baseline show how much pods differ, half of it is the likelihood of all
// requests, tempered by that, and half is bets on minutes. Tempering plugs in an estimate and is no
// theorem; simulations show its error rate. Otherwise it uses plain bets on minutes alone, and keeps
// the other half back for longer episodes.
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

// warn returns the log evidence that the canary is worse at all.
func (t *test) warn(before past, m Metric) float64 {
	times, _ := t.spread(before, m)
	return t.Odds.tempered(1, warnGrid, times)
}

// spread returns how many bad requests count as one, and whether the windows have enough data.
func (t *test) spread(before past, m Metric) (times float64, known bool) {
	own, known := t.Clusters.spreadOfWindows()
	return max(own, t.Clusters.spreadOfPods(), before.spread(m, t.Bound)), known
}
