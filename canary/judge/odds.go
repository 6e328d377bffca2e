// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"math"
	"slices"
)

// table is one window or a part of it, as a two-by-two table: requests and bad requests of both sides.
type table struct{ canary, baseline tally }

// tally is a number of requests, and how many of them were bad.
type tally struct {
	N float64 `json:"n,omitempty"`
	K float64 `json:"k,omitempty"`
}

func (t *tally) add(o tally) {
	t.N += o.N
	t.K += o.K
}

// rate of bad requests; 0 without requests.
func (t tally) rate() float64 {
	if t.N == 0 {
		return 0
	}
	return t.K / t.N
}

// most limits the requests of one side of one window. More are thinned in proportion, which loses
// evidence and adds practically none.
const most = 1e8

// countless is more than anything measured. Sums and squares of less are numbers that can be stored.
const countless = 1e15

// whole makes a tally of measured counts: whole numbers, at least as many requests as bad ones, and no
// NaN.
func whole(n, k float64) tally {
	if math.IsNaN(n) || n < 0 {
		n = 0
	}
	if math.IsNaN(k) || k < 0 {
		k = 0
	}
	n = math.Round(min(n, countless))
	return tally{N: n, K: min(math.Round(min(k, countless)), n)}
}

func (t table) thinned() table {
	by := max(t.canary.N, t.baseline.N) / most
	if by <= 1 {
		return t
	}
	return table{
		canary:   whole(t.canary.N/by, t.canary.K/by),
		baseline: whole(t.baseline.N/by, t.baseline.K/by),
	}
}

// odds is the evidence about the odds ratio of two sides over all windows: the log likelihood of each
// ratio under test.
//
// Given a window's total of bad requests, the canary's number has Fisher's noncentral hypergeometric
// distribution. It depends on the odds ratio and not on the rate of bad requests, which may vary with
// time. The ratio of two such likelihoods, multiplied over windows, is an e-process (Turner, Ly and
// Grünwald, arXiv 2106.02693; for counts of canaries Lindon and Malek, NeurIPS 2022, arXiv 2011.03567).
// By Ville's inequality it ever exceeds 1/a with probability a at most, for any number of analyses. The
// ratio is monotonic in the canary's bad requests, so this holds for all odds ratios beyond the limit
// too.
type odds struct {
	Ratios []float64 `json:"ratios"`
	Logs   []float64 `json:"logs"`
}

// The alternatives. Those of a Fail are multiples of the tolerated odds ratio: 2, 3, 5 and 10 of 1.5.
var (
	failSteps = []float64{4. / 3, 2, 10. / 3, 20. / 3}
	warnGrid  = []float64{1.25, 1.5, 2, 3, 5, 10}
	passGrid  = []float64{0.5, 0.75, 1}
)

func newOdds(tolerated float64) *odds {
	return oddsOf(slices.Concat(warnGrid, passGrid, failGrid(tolerated), []float64{tolerated}))
}

func oddsOf(ratios []float64) *odds {
	slices.Sort(ratios)
	ratios = slices.Compact(ratios)
	return &odds{Ratios: ratios, Logs: make([]float64, len(ratios))}
}

func failGrid(tolerated float64) []float64 {
	grid := make([]float64, len(failSteps))
	for i, step := range failSteps {
		grid[i] = tolerated * step
	}
	return grid
}

// add takes one stratum.
func (o *odds) add(t table) {
	t = t.thinned()
	h := hypergeometric{canary: t.canary.N, baseline: t.baseline.N, bad: t.canary.K + t.baseline.K}
	if lo, hi := h.support(); lo == hi {
		// With only one possible outcome it has no information.
		return
	}
	for i, ratio := range o.Ratios {
		o.Logs[i] += t.canary.K*math.Log(ratio) - h.logWeight(ratio)
	}
}

// at returns the log likelihood of an odds ratio.
func (o *odds) at(ratio float64) float64 {
	for i, r := range o.Ratios {
		if r == ratio {
			return o.Logs[i]
		}
	}
	return math.Inf(-1)
}

// against returns the log e-value against an odds ratio: the mean over the alternatives.
func (o *odds) against(null float64, alternatives []float64) float64 {
	return o.tempered(null, alternatives, 1)
}

// tempered is against with that many bad requests counted as one.
func (o *odds) tempered(null float64, alternatives []float64, times float64) float64 {
	logs := make([]float64, len(alternatives))
	base := o.at(null)
	for i, a := range alternatives {
		logs[i] = (o.at(a) - base) / times
	}
	return logMean(logs)
}

// pass tests whether the canary is no worse than tolerated.
func (o *odds) pass(tolerated float64) float64 { return o.against(tolerated, passGridOf(tolerated)) }

// passGridOf has ratios above 1 too if far more is tolerated: a canary that is worse, and clearly less
// so than tolerated, would otherwise never be decided.
func passGridOf(tolerated float64) []float64 {
	grid := slices.Clone(passGrid)
	for _, ratio := range warnGrid {
		if ratio <= tolerated/1.5 {
			grid = append(grid, ratio)
		}
	}
	return grid
}

// logMean returns the logarithm of the mean of the exponentials.
func logMean(logs []float64) float64 {
	if len(logs) == 0 {
		return 0
	}
	return logSum(logs) - math.Log(float64(len(logs)))
}

func logSum(logs []float64) float64 {
	top := slices.Max(logs)
	if math.IsInf(top, -1) {
		return top
	}
	sum := 0.0
	for _, l := range logs {
		sum += math.Exp(l - top)
	}
	return top + math.Log(sum)
}

// value returns the exponential, limited to what JSON and people can read.
func value(log float64) float64 { return math.Exp(min(log, logLargest)) }

// logLargest is the logarithm of the largest e-value that is shown: 1e15.
var logLargest = math.Log(1e15)
