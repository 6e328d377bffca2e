// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"math"
	"slices"
)

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
// the other half back for longer episodes. gross is the evidence without what keeps pods apart from the
// Revision: see differing.
func (t *test) fail(before past, m Metric) (e, gross float64) {
	times, known := t.spread(before, m)
	tempered := before.enough() && len(t.Clusters.Pods) >= leastPods
	worth := func(least float64) func(mark) float64 {
		return func(stretch mark) float64 {
			e := logMean(stretch.Plain)
			if tempered {
				e = logMean(stretch.Bets)
				if known {
					e = logSum([]float64{e, stretch.likelihood(times)})
				}
			}
			e -= math.Ln2
			if stretch.Windows < leastWindows || stretch.odds() < least {
				return min(e, 0)
			}
			return e
		}
	}
	return t.mixed(m, worth(t.differing(before, m))), t.mixed(m, worth(0))
}

// likelihood returns the log likelihood ratio with that many bad requests counted as one.
func (m mark) likelihood(times float64) float64 {
	logs := slices.Clone(m.Odds)
	for i := range logs {
		logs[i] /= times
	}
	return logMean(logs)
}

// warn returns the log evidence that the canary is worse at all.
func (t *test) warn(before past, m Metric) float64 {
	times, _ := t.spread(before, m)
	return t.Odds.tempered(1, warnGrid, times)
}

// spread returns how many bad requests count as one, and whether the windows have enough data.
func (t *test) spread(before past, m Metric) (times float64, known bool) {
	own, known := t.Clusters.spreadOfWindows()
	return max(own, t.spreadOfPods(before, m)), known
}

// spreadOfPods returns how many times more pods vary than chance explains, in the run and before it, at least 1.
func (t *test) spreadOfPods(before past, m Metric) float64 {
	return max(t.Clusters.spreadOfPods(), before.spread(m, t.Bound))
}
