// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"math"
	"slices"
	"time"
)

// Bad requests that come in clusters (a pod with a bad minute, a client that retries) are less evidence
// than as many independent ones. clusters measures that for a comparison: how much more the windows and
// the baseline's pods vary than independent requests would. It holds sums and a bounded list.
type clusters struct {
	// Windows with information; neighbours are merged when there are too many.
	Windows []flat `json:"windows,omitempty"`
	// Informative is the number of such windows.
	Informative int `json:"informative,omitempty"`
	// Ratio has the two sums whose quotient estimates the odds ratio.
	Ratio [2]float64 `json:"ratio,omitzero"`
	// Pods of the baseline, by a hash of their name: the bad requests of each, and the number it would
	// have had at the baseline's rate of each window.
	Pods map[string]seen `json:"pods,omitempty"`
	// Most is the largest number of the baseline's pods in one window.
	Most int `json:"most,omitempty"`
	// Minute is the current minute, Minutes the number of finished ones with information.
	Minute  minute `json:"minute,omitzero"`
	Minutes int    `json:"minutes,omitempty"`
	// Bets on minutes: the logarithm of what each alternative has won. Surprise is the sum of the
	// squared results, each divided by its variance for independent requests.
	Bets     []float64 `json:"bets,omitempty"`
	Surprise float64   `json:"surprise,omitempty"`
	// Plain bets ignore how many bad requests a minute has.
	Plain []float64 `json:"plain,omitempty"`
}

// flat is a table as bare numbers, to be short: requests and bad ones of the canary, then of the
// baseline.
type flat [4]float64

// seen is the number of bad requests, and the expected number.
type seen [2]float64

const (
	// mostWindows is the limit above which two neighbours are merged.
	mostWindows = 40
	// mostPods limits the baseline's pods that are tracked separately.
	mostPods = 32
	// leastPods is how many pods show how much pods differ. leastHistory is how long each of as many
	// must have been watched before the split.
	leastPods    = 4
	leastHistory = 10 * time.Minute
	// wholeHistory is used as it is; a shorter history may have missed a bad episode.
	wholeHistory = time.Hour
	// leastWindows is the number of windows with information before a Fail by comparison.
	leastWindows = 4
	// leastEven is how many windows of equal weight an estimate of their spread needs.
	leastEven = 3
	// together is the interval of one bet, because one pod's bad requests come in minutes.
	together = time.Minute
	// mostStake is the largest part of the winnings that is bet at once.
	mostStake = 0.9
)

// stakes of the plain bets; their winnings are averaged.
var stakes = []float64{0.05, 0.1, 0.2, 0.4, mostStake}

// add takes a window of both sides. past is how much pods differed before the split.
func (c *clusters) add(m Metric, t table, long time.Duration, past float64) {
	t = t.thinned()
	if t.canary.N > 0 && t.baseline.N > 0 && t.canary.K+t.baseline.K > 0 {
		c.Minute.add(m, t)
		c.Informative++
		window := flat{t.canary.N, t.canary.K, t.baseline.N, t.baseline.K}
		up, down := window.mantelHaenszel()
		c.Ratio[0] += up
		c.Ratio[1] += down
		c.Windows = append(c.Windows, window)
		if len(c.Windows) > mostWindows {
			c.Windows = inPairs(c.Windows)
		}
	}
	if c.Minute.Long += long; c.Minute.Long >= together {
		c.bet(m, max(past, c.spreadOfPods()))
	}
}

// inPairs merges neighbours.
func inPairs(windows []flat) []flat {
	out := make([]flat, 0, mostWindows)
	for pair := range slices.Chunk(windows, 2) {
		one := pair[0]
		for _, other := range pair[1:] {
			for i := range one {
				one[i] += other[i]
			}
		}
		out = append(out, one)
	}
	return out
}

// watch adds the window's counts of the baseline's pods.
func (c *clusters) watch(pods map[string]tally) {
	var all tally
	active := 0
	for _, t := range pods {
		all.add(t)
		if t.N > 0 {
			active++
		}
	}
	c.Most = max(c.Most, active)
	if all.K == 0 {
		return
	}
	for _, name := range sortedKeys(pods) {
		t := pods[name]
		was, known := c.Pods[name]
		if !known && len(c.Pods) >= mostPods || t.N == 0 {
			continue
		}
		if c.Pods == nil {
			c.Pods = map[string]seen{}
		}
		c.Pods[name] = seen{was[0] + t.K, was[1] + t.N*all.rate()}
	}
}

// spreadOfPods returns how many times more the baseline's pods vary than chance explains, at least 1.
func (c *clusters) spreadOfPods() float64 { return spread(valuesByKey(c.Pods)) }

// spread returns the variation of counts around their expectation: 1 if each is a Poisson variable.
func spread(of []seen) float64 {
	sum, n := 0.0, 0
	for _, s := range of {
		if s[1] > 0 {
			sum += (s[0] - s[1]) * (s[0] - s[1]) / s[1]
			n++
		}
	}
	if n < leastPods {
		return 1
	}
	return max(1, sum/float64(n-1))
}

// spreadOfWindows returns how many times more the canary's part of the bad requests varies between
// windows than chance explains, at least 1. known is false with too few windows.
func (c *clusters) spreadOfWindows() (times float64, known bool) {
	odds := c.mantelHaenszel()
	var squares, variance, weights float64
	for _, w := range c.Windows {
		x, v := w.residual(odds)
		squares += x * x
		variance += v
		weights += v * v
	}
	if weights == 0 || variance*variance < leastEven*weights {
		return 1, false
	}
	even := variance * variance / weights
	return max(1, squares/variance*even/(even-1)), true
}

// mantelHaenszel estimates the odds ratio over all windows (Mantel and Haenszel 1959). Half a bad
// request on each side makes it finite.
func (c *clusters) mantelHaenszel() float64 {
	var up, down, canary, baseline float64
	for _, w := range c.Windows {
		more, less := w.mantelHaenszel()
		up, down = up+more, down+less
		canary, baseline = canary+w[0], baseline+w[2]
	}
	if canary+baseline == 0 {
		return 1
	}
	part := canary / (canary + baseline)
	return (up + (1-part)/2) / (down + part/2)
}

// mantelHaenszel returns what the window adds to the two sums of the estimate.
func (w flat) mantelHaenszel() (up, down float64) {
	n := w[0] + w[2]
	return w[1] * (w[2] - w[3]) / n, (w[0] - w[1]) * w[3] / n
}

// residual returns the canary's bad requests minus their expectation, and the variance for independent
// requests. These are the mode of Fisher's noncentral hypergeometric distribution and the curvature
// there (Levin 1984).
func (w flat) residual(odds float64) (x, variance float64) {
	canary, baseline, bad := w[0], w[2], w[1]+w[3]
	low, high := max(0, bad-baseline), min(bad, canary)
	// k·(baseline−bad+k) = odds·(canary−k)·(bad−k) has one root in the valid range.
	a, b, d := 1-odds, baseline-bad+odds*(canary+bad), -odds*canary*bad
	k := -d / b
	if a != 0 {
		root := math.Sqrt(max(0, b*b-4*a*d))
		// This form does not lose digits.
		k = -2 * d / (b + root)
	}
	k = min(max(k, low), high)
	inverse := 1/k + 1/(canary-k) + 1/(bad-k) + 1/(baseline-bad+k)
	if !(inverse > 0) || math.IsInf(inverse, 0) {
		return w[1] - k, 0
	}
	return w[1] - k, 1 / inverse
}
