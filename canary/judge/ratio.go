// SPDX-License-Identifier: Apache-2.0

package judge

import "math"

// An e-process about one ratio p of bad requests: the likelihood of the counts under alternatives,
// divided by that under the limit, averaged over the alternatives. As with odds, it may be checked at
// any time, p may vary while it stays on one side of the limit, and only sums are needed.

// aboveSteps are the alternatives to a limit, as multiples of its odds.
var aboveSteps = []float64{1.5, 2, 3, 5, 10}

// temperedAbove is the logarithm of the e-value against p ≤ limit, with that many bad requests counted as one.
func temperedAbove(t tally, limit, times float64) float64 {
	logs := make([]float64, len(aboveSteps))
	for i, step := range aboveSteps {
		p := step * limit / (1 - limit + step*limit)
		logs[i] = t.logRatio(p, limit) / times
	}
	return logMean(logs)
}

// belowSteps are the alternatives to a ratio to stay below, as fractions of it, with their weights.
// Most canaries have no bad requests at all, so that alternative weighs as much as the rest.
var belowSteps = []struct{ part, weight float64 }{{0, 0.5}, {0.1, 0.15}, {0.2, 0.15}, {0.4, 0.1}, {0.6, 0.1}}

// logBelow is the logarithm of the e-value against p ≥ limit.
func logBelow(t tally, limit float64) float64 {
	logs := make([]float64, len(belowSteps))
	for i, step := range belowSteps {
		logs[i] = math.Log(step.weight) + t.logRatio(step.part*limit, limit)
	}
	return logSum(logs)
}

// logRatio is the log-likelihood of p less that of q; q is neither 0 nor 1.
func (t tally) logRatio(p, q float64) float64 {
	l := (t.N - t.K) * (math.Log1p(-p) - math.Log1p(-q))
	if t.K > 0 {
		l += t.K * (math.Log(p) - math.Log(q))
	}
	return l
}
