// SPDX-License-Identifier: Apache-2.0

package judge

import "math"

// farthest is the largest useful estimate of missing requests; a larger one is dropped.
const farthest = 1e9

// missing estimates how many more requests the canary needs for a verdict if it continues as before:
// the fewest for a proof of being negligible or for the comparison, and at least its minimum. 0 means
// unknown.
func missing(v analysis, m Metric, t *test, l levels) float64 {
	p := v.plan
	least := max(0, p.MinCanary-t.Canary.N)
	more := math.Inf(1)
	if r := m.negligible(); r > 0 && t.Canary.rate() < r {
		more = solve(func(n float64) bool {
			s := tally{N: n, K: n * t.Canary.rate()}
			return math.Log(negligibleShare)+logBelow(s, r) >= math.Log(l.pass)
		}) - t.Canary.N
	}
	if l.relative {
		fail, _ := t.fail(v.past, m)
		more = min(more,
			extrapolate(fail, math.Log(l.fail), t.Canary.N),
			extrapolate(t.Odds.pass(m.MaxOddsRatio)+math.Log(1-negligibleShare), math.Log(l.pass), t.Canary.N))
	}
	if more > farthest {
		return math.Ceil(least)
	}
	return math.Ceil(max(least, more, 1))
}

// extrapolate scales the requests to the wanted logarithm, which grows in proportion.
func extrapolate(log, want, n float64) float64 {
	if log <= 0 || n == 0 {
		return math.Inf(1)
	}
	return n * (want/log - 1)
}

// solve finds the fewest requests from which enough holds.
func solve(enough func(n float64) bool) float64 {
	high := 1.0
	for !enough(high) {
		if high *= 2; high > farthest {
			return math.Inf(1)
		}
	}
	low := high / 2
	for high-low > 1 {
		if mid := math.Floor((low + high) / 2); enough(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}
