// SPDX-License-Identifier: Apache-2.0

package judge

import "math"

// A window in which all shards fail more is a bad time, not the fault of the shards with requests in
// it. The shards themselves show how bad it was, but a canary with most of the requests would set its
// own expectation. So a window's bad requests are divided by the odds ratio under test (as Mantel and
// Haenszel 1959 compare within strata). If that ratio is true, both sides' bad requests tell the same
// about the window, whoever has most of them. A window with one side says nothing about the ratio.

// expectedTo is the precision of stored expected numbers.
const expectedTo = 1e4

// rates returns both sides' rates of bad requests whose odds have this ratio and that give the observed
// total.
func (t table) rates(ratio float64) sides {
	n, bad := t.canary.N+t.baseline.N, t.canary.K+t.baseline.K
	if bad <= 0 || bad >= n {
		return sides{Canary: min(1, max(0, bad)), Baseline: min(1, max(0, bad))}
	}
	// The odds are the positive root of a·o² + b·o = bad, in a form without cancellation.
	a, b := ratio*(n-bad), t.baseline.N+ratio*t.canary.N-(1+ratio)*bad
	root := math.Sqrt(b*b + 4*a*bad)
	o := (root - b) / (2 * a)
	if b > 0 {
		o = 2 * bad / (root + b)
	}
	return sides{Canary: ratio * o / (1 + ratio*o), Baseline: o / (1 + o)}
}

// expects returns how many bad requests these rates give.
func (t table) expects(rates sides) float64 {
	return t.canary.N*rates.Canary + t.baseline.N*rates.Baseline
}

// sides returns both sides of a shard since the split.
func (s *shard) sides(at column) table {
	return table{canary: s.tally(canarySide, at), baseline: s.tally(baselineSide, at)}
}

// expect adds a shard's expected bad requests.
func (s *shard) expect(at int, own table, rates sides) {
	s[at] = math.Round((s[at]+own.expects(rates))*expectedTo) / expectedTo
}

// exposure returns the odds in the windows where the shard had its requests, as a multiple of the odds
// in the whole run, if the canary's were ratio times the baseline's. It is 1 for a shard whose traffic
// follows that of all others. Half a bad request and half a good one keep it above 0.
func (s *shard) exposure(at column, all table, ratio, tolerated float64) float64 {
	own := s.sides(at)
	n := own.canary.N + own.baseline.N
	odds := func(bad float64) float64 {
		bad = max(0, min(n, bad))
		return (bad + 0.5) / (n - bad + 0.5)
	}
	expected := odds(s[expectedAt+int(at)])
	if tolerated > 1 {
		// Nothing was counted for a ratio in between, so interpolate.
		expected *= math.Pow(odds(s[toleratedAt+int(at)])/expected, math.Log(ratio)/math.Log(tolerated))
	}
	return expected / odds(own.expects(all.rates(ratio)))
}

// tolerated returns the largest tolerated odds ratio of the metrics whose bad requests shards count; 1
// without such a metric.
func (p Plan) tolerated(at column) float64 {
	most := 1.0
	for _, m := range p.Metrics {
		if of, byShard := m.Kind.kind().column(m); byShard && of == at {
			most = max(most, m.MaxOddsRatio)
		}
	}
	return most
}
