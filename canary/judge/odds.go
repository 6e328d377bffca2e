package judge

import (
	"math"
	"slices"
)

// table is one window, or a part of one, as a table of two by two: requests and the
// bad ones among them, on both sides.
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

// rate of bad ones; 0 without requests.
func (t tally) rate() float64 {
	if t.N == 0 {
		return 0
	}
	return t.K / t.N
}

// most is how many requests of one side of one window are computed with; more are
// thinned in proportion, which loses evidence and invents none to speak of.
const most = 1e8

// whole makes a tally of counts that were measured: whole numbers, no fewer requests
// than bad ones, and nothing that is no number.
func whole(n, k float64) tally {
	if math.IsNaN(n) || n < 0 {
		n = 0
	}
	if math.IsNaN(k) || k < 0 {
		k = 0
	}
	n = math.Round(min(n, 1e15))
	return tally{N: n, K: min(math.Round(min(k, 1e15)), n)}
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

// odds is the evidence about the odds ratio of two sides, over all windows: for each
// ratio that is asked for, the logarithm of the likelihood.
//
// Given how many were bad in a window in all, how many of them are the canary's has
// Fisher's noncentral hypergeometric distribution, which depends on the odds ratio
// alone and not on how many are bad: that may vary with time as it likes. The ratio
// of two such likelihoods, multiplied over windows, is an e-process (Turner, Ly and
// Grünwald, arXiv 2106.02693; for counts of canaries Lindon and Malek, NeurIPS 2022,
// arXiv 2011.03567). By Ville's inequality it ever exceeds 1/a with probability a at
// most, however often one analyzes. The ratio is monotonous in the canary's bad
// requests, so that this holds for all odds ratios on the far side of the limit too.
type odds struct {
	Ratios []float64 `json:"ratios"`
	Logs   []float64 `json:"logs"`
}

// The alternatives. Those of a Fail are multiples of the odds ratio that is
// tolerated: 2, 3, 5 and 10 of 1.5.
var (
	failSteps = []float64{4. / 3, 2, 10. / 3, 20. / 3}
	warnGrid  = []float64{1.25, 1.5, 2, 3, 5, 10}
	passGrid  = []float64{0.5, 0.75, 1}
)

func newOdds(tolerated float64) *odds {
	ratios := slices.Concat(warnGrid, passGrid, failGrid(tolerated), []float64{tolerated})
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
		// Only one outcome is possible: it says nothing.
		return
	}
	for i, ratio := range o.Ratios {
		o.Logs[i] += t.canary.K*math.Log(ratio) - h.logWeight(ratio)
	}
}

// at is the log-likelihood of an odds ratio.
func (o *odds) at(ratio float64) float64 {
	for i, r := range o.Ratios {
		if r == ratio {
			return o.Logs[i]
		}
	}
	return math.Inf(-1)
}

// against is the logarithm of the e-value against an odds ratio: the mean over the
// alternatives.
func (o *odds) against(null float64, alternatives []float64) float64 {
	return o.tempered(null, alternatives, 1)
}

// tempered is the same if so many bad requests are one witness.
func (o *odds) tempered(null float64, alternatives []float64, times float64) float64 {
	logs := make([]float64, len(alternatives))
	base := o.at(null)
	for i, a := range alternatives {
		logs[i] = (o.at(a) - base) / times
	}
	return logMean(logs)
}

// pass is the question whether the canary is not worse than is tolerated.
func (o *odds) pass(tolerated float64) float64 { return o.against(tolerated, passGrid) }

// logMean is the logarithm of the mean of what the logarithms are of.
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

// value is what a logarithm is of, as far as JSON and people can read it.
func value(log float64) float64 { return math.Exp(min(log, logLargest)) }

// logLargest is the largest e-value that is shown: 1e15.
var logLargest = math.Log(1e15)
