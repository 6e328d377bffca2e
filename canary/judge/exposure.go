package judge

import "math"

// A window in which all shards fail more is a bad time, and no fault of those that have
// their requests in it. How bad it was, the shards themselves say; and where the canary
// has most of the requests, what it did itself would become what is expected of it. So
// the bad requests of a window are shared out by the odds ratio that is asked about (as
// Mantel and Haenszel 1959 compare within strata): if it is the true one, the canary's
// bad requests say as much of the window as the baseline's, and who has most of them does
// not matter. A window of one side alone says nothing for or against that ratio.

// expectedTo is the precision of expected numbers: they are written down.
const expectedTo = 1e4

// rates of bad requests on both sides, whose odds have a ratio, and which give as many
// bad requests as there are.
func (t table) rates(ratio float64) sides {
	n, bad := t.canary.N+t.baseline.N, t.canary.K+t.baseline.K
	if bad <= 0 || bad >= n {
		return sides{Canary: min(1, max(0, bad)), Baseline: min(1, max(0, bad))}
	}
	// The odds are the root above 0 of a·o² + b·o = bad, written so that nothing cancels.
	a, b := ratio*(n-bad), t.baseline.N+ratio*t.canary.N-(1+ratio)*bad
	root := math.Sqrt(b*b + 4*a*bad)
	o := (root - b) / (2 * a)
	if b > 0 {
		o = 2 * bad / (root + b)
	}
	return sides{Canary: ratio * o / (1 + ratio*o), Baseline: o / (1 + o)}
}

// expects is how many bad requests these rates give.
func (t table) expects(rates sides) float64 {
	return t.canary.N*rates.Canary + t.baseline.N*rates.Baseline
}

// sides of a shard since the split.
func (s *shard) sides(kind MetricKind) table {
	return table{canary: s.tally(canarySide, kind), baseline: s.tally(baselineSide, kind)}
}

// expect so many more bad requests of a shard.
func (s *shard) expect(at int, own table, rates sides) {
	s[at] = math.Round((s[at]+own.expects(rates))*expectedTo) / expectedTo
}

// exposure is how many times the odds those windows had in which the shard had its
// requests, of the odds in the whole run, all if the canary's were ratio times the
// baseline's. It is 1 for a shard whose traffic rises and falls with that of all others.
// Half a bad request and half a good one keep it from 0.
func (s *shard) exposure(kind MetricKind, all table, ratio, tolerated float64) float64 {
	own, i := s.sides(kind), 0
	if kind != Errors {
		i = 1
	}
	n := own.canary.N + own.baseline.N
	odds := func(bad float64) float64 {
		bad = max(0, min(n, bad))
		return (bad + 0.5) / (n - bad + 0.5)
	}
	expected := odds(s[expectedAt+i])
	if tolerated > 1 {
		// Of a ratio in between nothing was counted: it is on the line between the two.
		expected *= math.Pow(odds(s[toleratedAt+i])/expected, math.Log(ratio)/math.Log(tolerated))
	}
	return expected / odds(own.expects(all.rates(ratio)))
}

// tolerated is the largest odds ratio that a metric tolerates whose bad requests shards
// count; 1 without such a metric.
func (p Plan) tolerated(kind MetricKind) float64 {
	most := 1.0
	for _, m := range p.Metrics {
		if m.Kind == kind && byShard(m) {
			most = max(most, m.MaxOddsRatio)
		}
	}
	return most
}
