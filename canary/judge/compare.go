// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"cmp"
	"math"
	"slices"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// compareShards runs one interim analysis of the shards.
//
// A Fail needs two things: the canary's shards became worse than chance explains, and their point
// estimate exceeds the tolerance. Only the first has a probability, because the same certainty for the
// second missed a third of the canaries that fail three times as often. So a canary no worse than its
// baseline fails with probability Alpha at most; one that is worse but tolerated may fail more often,
// the nearer it is to the limit.
func (d *metricData) compareShards(v analysis, m Metric, l levels) {
	level := l.shardFail * v.spending
	plain, _ := v.scores(m, 1)
	high := permutation(plain, level, v.seed())
	d.P = &high
	if high <= level && !(v.negligible && v.typical(m).rate() <= m.negligible()) {
		if _, excess := v.scores(m, m.MaxOddsRatio); excess > 0 && !d.fading(v.plan, m) {
			d.fail(verdict.RelativeRegression)
		}
	}
	d.Same = d.same(v, m, l, v.spending)
}

// typical returns what the canary's shards did if none had more requests than their median: one busy
// shard must not make all others negligible.
func (v analysis) typical(m Metric) tally {
	var all []tally
	at, _ := m.Kind.kind().column(m)
	for _, stratum := range v.strata {
		for _, name := range stratum.names {
			if t := v.shards.Counts[name].tally(canarySide, at); t.N > 0 {
				all = append(all, t)
			}
		}
	}
	slices.SortFunc(all, func(a, b tally) int { return cmp.Compare(a.N, b.N) })
	var out tally
	for _, t := range all {
		most := min(t.N, all[len(all)/2].N)
		out.add(tally{N: most, K: t.rate() * most})
	}
	return out
}

// same reports whether the evidence so far shows the canary's shards to be within the tolerance, with a
// part of Beta.
func (d *metricData) same(v analysis, m Metric, l levels, part float64) bool {
	if m.limited() && logBelow(d.Tests[0].Canary, m.Limit) < -math.Log(l.shardPass) {
		return false
	}
	level := l.shardPass * part
	scaled, _ := v.scores(m, m.MaxOddsRatio)
	for i := range scaled {
		scaled[i] = scaled[i].negated()
	}
	return permutation(scaled, level, v.seed()) <= level
}

// scores returns the scores of all strata if the canary's odds were this multiple of the baseline's,
// and how far its bad requests exceed the expectation.
func (v analysis) scores(m Metric, ratio float64) (scores []dealt, excess float64) {
	at, _ := m.Kind.kind().column(m)
	for _, s := range v.strata {
		f, ok := v.shards.forecast(s, at, ratio, v.plan.tolerated(at))
		if !ok {
			continue
		}
		scores = append(scores, f.scores(v.seed()))
		excess += f.excess(func(s forecastShard) bool { return s.canary })
	}
	return scores, excess
}

// seed of the random draws, so that another process draws the same.
func (v analysis) seed() [2]uint64 {
	return [2]uint64{uint64(v.start), uint64(v.number)} //nolint:gosec // A seed may be any number.
}
