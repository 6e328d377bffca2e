// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"math"
	"slices"
	"time"
)

// A fault that comes late is diluted by all the good requests before it. So a Fail is tested from
// several times on: from the start of the run, and from late starts, which divide the time between the
// warm-up and the deadline evenly. The plan fixes them, not the data. What each of them has won is
// weighed, and the weights add to one. A late start holds its weight in reserve until it comes, as an
// e-value of 1. So the sum is an e-process, and exceeds 1/alpha with probability alpha at most,
// whenever somebody looks.

const (
	// lateStarts is the number of late starts, and lateShare the weight of all of them. The rest is
	// for the whole run.
	lateStarts = 5
	lateShare  = 0.05
	// markedTo is the precision of stored marks.
	markedTo = 1e4
)

// begun returns how many late starts have come.
func (p Plan) begun(elapsed time.Duration) int {
	part := float64(elapsed-p.Warmup) / float64(p.Deadline-p.Warmup)
	return max(0, min(lateStarts, int(part*(lateStarts+1))))
}

// mark is what a test has gathered up to a moment. What it gathered since is the difference. It has
// bare numbers and short names, because a test has one for each late start.
type mark struct {
	// Odds are the log likelihoods of the alternatives of a Fail, each less that of the tolerated one.
	Odds []float64 `json:"o,omitempty"`
	// Bets on minutes, and plain ones.
	Bets  []float64 `json:"b,omitempty"`
	Plain []float64 `json:"p,omitempty"`
	// Windows with information, and the two sums of the Mantel-Haenszel estimate.
	Windows float64    `json:"w,omitempty"`
	Ratio   [2]float64 `json:"r,omitzero"`
	// Limit is the tally that is compared with the limit, Above the bets on it.
	Limit tally     `json:"l,omitzero"`
	Above []float64 `json:"a,omitempty"`
	// Excess is how the canary compares with what is tolerated.
	Excess excess `json:"e,omitzero"`
}

// mark returns what has been gathered.
func (t *test) mark(m Metric) mark {
	c := &t.Clusters
	out := mark{
		Bets: c.Bets, Plain: c.Plain, Windows: float64(c.Informative), Ratio: c.Ratio,
		Limit: t.Alone.tally, Above: t.Alone.Bets, Excess: t.Excess,
	}
	if c.Informative == 0 {
		return out // Nothing was compared by requests, and in a sharded Service nothing will be.
	}
	base := t.Odds.at(m.MaxOddsRatio)
	for _, ratio := range failGrid(m.MaxOddsRatio) {
		out.Odds = append(out.Odds, t.Odds.at(ratio)-base)
	}
	return out
}

// since returns what has been gathered since an earlier mark.
func (m mark) since(o mark) mark {
	return mark{
		Odds: less(m.Odds, o.Odds), Bets: less(m.Bets, o.Bets), Plain: less(m.Plain, o.Plain),
		Windows: m.Windows - o.Windows, Ratio: [2]float64{m.Ratio[0] - o.Ratio[0], m.Ratio[1] - o.Ratio[1]},
		Limit: tally{N: m.Limit.N - o.Limit.N, K: m.Limit.K - o.Limit.K}, Above: less(m.Above, o.Above),
		Excess: m.Excess.since(o.Excess),
	}
}

// less subtracts numbers; those that are missing are 0.
func less(of, by []float64) []float64 {
	out := slices.Clone(of)
	for i := range min(len(of), len(by)) {
		out[i] -= by[i]
	}
	return out
}

// rounded makes a mark short.
func (m mark) rounded() mark {
	for _, list := range []*[]float64{&m.Odds, &m.Bets, &m.Plain, &m.Above} {
		*list = slices.Clone(*list)
		for i, v := range *list {
			(*list)[i] = shortened(v)
		}
	}
	for i := range m.Ratio {
		m.Ratio[i] = shortened(m.Ratio[i])
	}
	for i := range m.Excess {
		m.Excess[i] = math.Round(m.Excess[i])
	}
	return m
}

func shortened(v float64) float64 { return math.Round(v*markedTo) / markedTo }

// begin marks the late starts that have come, before a window is added.
func (e *evidence) begin(p Plan, elapsed time.Duration) {
	for _, m := range p.Metrics {
		d := e.Metrics[m.Name]
		if d == nil {
			continue
		}
		for _, t := range d.Tests {
			for len(t.Marks) < p.begun(elapsed) {
				t.Marks = append(t.Marks, t.mark(m).rounded())
			}
		}
	}
}

// mixed weighs what the whole run and each late start have won, given the logarithm that a stretch of
// the run is worth.
func (t *test) mixed(m Metric, worth func(stretch mark) float64) float64 {
	now := t.mark(m)
	logs := []float64{math.Log(1-lateShare) + worth(now)}
	for i := range lateStarts {
		e := 0.0
		if i < len(t.Marks) {
			e = worth(now.since(t.Marks[i]))
		}
		logs = append(logs, math.Log(lateShare/lateStarts)+e)
	}
	return logSum(logs)
}
