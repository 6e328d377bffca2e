// SPDX-License-Identifier: Apache-2.0

package judge

import "math"

// A pod may be worse than others for as long as it lives: its node is slow, or its client sends what
// fails. That is not the fault of its Revision, and bets on minutes do not see it, because it never
// ends. So a Fail by comparison needs more than the tolerated odds: as many times more as the worst pod
// of the baseline is worse than its like, or gross ones if there are too few pods to tell. This only
// withholds a Fail.

// fewPodsOdds is the odds ratio that a Fail needs if too few pods show how much pods differ.
// It is below 5, so that a canary whose bad requests rise from 1 to 5 % fails.
const fewPodsOdds = 4

// leastUnknownPods is how many pods without a history show how much pods differ.
const leastUnknownPods = 8

// differing returns the odds ratio that a Fail needs.
func (t *test) differing(before past, m Metric) float64 {
	if t.fewPods(before) {
		return max(fewPodsOdds, m.MaxOddsRatio)
	}
	return m.MaxOddsRatio * max(worstPod(valuesByKey(t.Clusters.Pods)), before.worst(m, t.Bound))
}

// fewPods reports whether the baseline has too few pods to show how much pods differ.
func (t *test) fewPods(before past) bool {
	return t.Clusters.Most < leastUnknownPods && !before.enough()
}

// worstPod returns how many times more bad requests the worst pod had than expected of it, beyond chance;
// at least 1.
func worstPod(of []seen) float64 {
	most := 1.0
	for _, s := range of {
		if s[1] > 0 {
			// The square root of a count varies by half a request, whatever the count is.
			root := max(0, math.Sqrt(s[0])-doubtful/2)
			most = max(most, root*root/s[1])
		}
	}
	return most
}

// doubtful is how many standard deviations one of some dozen pods may be off by chance.
const doubtful = 2.5

// odds estimates the odds ratio in a stretch (Mantel and Haenszel 1959).
func (m mark) odds() float64 {
	if m.Ratio[0] <= 0 {
		return 0
	}
	return m.Ratio[0] / max(m.Ratio[1], tiny)
}

// tiny replaces the baseline's sum if none of its requests was bad.
const tiny = 1e-3
