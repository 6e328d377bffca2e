package judge

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
)

// forecast says how many bad requests a shard should have had since the split, if the
// canary's odds were a given multiple of the baseline's: from what the shard did
// before, as far as that says anything, and from what all shards do.
//
// Before the split, the ratios of shards have a beta distribution, whose spread is
// measured (Paule and Mandel 1982); a shard's own ratio lies between their mean and
// what it counted itself. Since then the odds of all shards have changed by one factor,
// and those of each by one more of its own, whose spread is measured too. In a window in
// which all shards fail more, each fails more by the requests that it had in it, so that who
// had its traffic at a bad time is not taken for worse: see exposure. So what a shard
// counts is beta-binomial, with a mean and a dispersion that depend on how many requests
// it had. Shards with a twentieth of the requests differ in these, and not in their scores.
type forecast struct {
	shards []forecastShard
}

type forecastShard struct {
	name   string
	canary bool
	after  tally
	// odds before the split, and how uncertain the ratio is, as a dispersion.
	odds, unsure float64
	// expected since the split.
	expected betaBinomial
}

// forecast of a stratum, in which the canary's odds are ratio times the baseline's: 1, or
// up to what is tolerated.
// ok is false if all requests, or none, were bad: then there is nothing to compare.
func (s *shards) forecast(of stratum, kind MetricKind, ratio, tolerated float64) (f forecast, ok bool) {
	var all tally
	var sum table
	for _, one := range s.Counts {
		sum.canary.add(one.tally(canarySide, kind))
		sum.baseline.add(one.tally(baselineSide, kind))
	}
	past := make([]tally, len(of.names))
	for i, name := range of.names {
		one := s.Counts[name]
		fs := forecastShard{name: name, canary: one[canarySide] > 0, after: one.tally(canarySide, kind)}
		if !fs.canary {
			fs.after = one.tally(baselineSide, kind)
		}
		if !of.levels {
			past[i] = one.tally(beforeSide, kind)
		}
		all.add(fs.after)
		f.shards = append(f.shards, fs)
	}
	if all.K == 0 || all.K == all.N {
		return f, false
	}
	f.learn(past)
	for i, name := range of.names {
		f.shards[i].odds *= s.Counts[name].exposure(kind, sum, ratio, tolerated)
		if f.shards[i].canary {
			f.shards[i].odds *= ratio
		}
	}
	f.fit()
	return f, true
}

// learn each shard's odds before the split. Where nothing is known all are alike: then
// what they are is learnt from what is counted since.
func (f *forecast) learn(past []tally) {
	var sum tally
	then := forecast{shards: make([]forecastShard, len(past))}
	for i, t := range past {
		sum.add(t)
		then.shards[i] = forecastShard{after: t, odds: 1}
	}
	// Half a bad request more, so that no ratio is 0.
	mean := (sum.K + 0.5) / (sum.N + 1)
	dispersion := 0.0
	if sum.K > 0 && sum.K < sum.N {
		then.fit()
		mean = then.shards[0].expected.q
		dispersion = likeliest(past, mean)
	}
	// worth is how many requests the mean counts for.
	worth := math.Inf(1)
	if dispersion > 0 {
		worth = 1/dispersion - 1
	}
	for i, t := range past {
		p, unsure := mean, 0.0
		if !math.IsInf(worth, 1) {
			p = (t.K + mean*worth) / (t.N + worth)
			unsure = 1 / (t.N + worth + 1)
		}
		f.shards[i].odds, f.shards[i].unsure = p/(1-p), unsure
	}
}

// likeliest dispersion of ratios around a mean. Unlike the mean square it is not led
// astray by the few shards that fail most.
func likeliest(of []tally, mean float64) float64 {
	best, most := 0.0, math.Inf(-1)
	for log := math.Log(mostDispersed); log > leastDispersed; log -= 0.25 {
		b := betaBinomial{q: mean, dispersion: math.Exp(log)}
		alpha, beta := b.shapes()
		sum := -float64(len(of)) * logBeta(alpha, beta)
		for _, t := range of {
			sum += logBeta(t.K+alpha, t.N-t.K+beta)
		}
		if sum > most {
			best, most = b.dispersion, sum
		}
	}
	return best
}

// leastDispersed is the logarithm of the least dispersion that is told from none.
const leastDispersed = -18

const (
	// mostDispersed is the dispersion that is reckoned with at most.
	mostDispersed = 0.5
	// rounds in which mean and dispersion are fitted in turn.
	rounds = 4
	// halvings of an interval, and its ends, as logarithms.
	halvings   = 50
	widestOdds = 30
	leastLog   = -25
	mostLog    = 15
)

// fit the factor by which the odds of all shards changed, and how much shards differ
// in this beyond chance: the variance of the logarithm of their odds.
func (f *forecast) fit() {
	for i := range f.shards {
		s := &f.shards[i]
		s.expected = betaBinomial{n: s.after.N, dispersion: s.unsure}
	}
	for range rounds {
		shift := halve(-widestOdds, widestOdds, func(shift float64) bool {
			f.shift(math.Exp(shift))
			return f.excess(nil) > 0
		})
		f.shift(math.Exp(shift))
		spread := 0.0
		if f.scatter(0) > 1 {
			spread = math.Exp(halve(leastLog, mostLog, func(log float64) bool { return f.scatter(math.Exp(log)) > 1 }))
		}
		f.scatter(spread)
	}
}

// shift the odds of all shards.
func (f *forecast) shift(by float64) {
	for i := range f.shards {
		s := &f.shards[i]
		odds := s.odds * by
		s.expected.q = odds / (1 + odds)
	}
}

// excess of bad requests over what is expected, of some shards or of all, weighted by
// what they tell.
func (f *forecast) excess(of func(forecastShard) bool) float64 {
	sum := 0.0
	for _, s := range f.shards {
		if of == nil || of(s) {
			sum += (s.after.K - s.after.N*s.expected.q) / s.expected.inflation()
		}
	}
	return sum
}

// scatter sets the dispersion that a spread of the odds gives, and returns how far
// counts lie from what is expected: 1 is as far as they should.
func (f *forecast) scatter(spread float64) float64 {
	sum, degrees := 0.0, -1.0
	for i := range f.shards {
		s := &f.shards[i]
		b := &s.expected
		if b.n == 0 {
			continue
		}
		b.dispersion = min(mostDispersed, s.unsure+spread*b.q*(1-b.q))
		d := s.after.K - b.n*b.q
		sum += d * d / b.variance()
		degrees++
	}
	return sum / max(1, degrees)
}

// halve finds where a condition that holds on the left ceases to.
func halve(low, high float64, holds func(float64) bool) float64 {
	for range halvings {
		if mid := (low + high) / 2; holds(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return (low + high) / 2
}

// scores of the shards, which come from one distribution whatever their traffic, and the
// weights with which those of the canary are compared with those of the baseline.
//
// A weight is the square root of what a shard tells of the logarithm of its odds.
// Weighted so, the difference is the score test's, and a factor common to all shards
// drops out of it.
func (f *forecast) scores(seed [2]uint64) dealt {
	var out dealt
	told := map[bool]float64{}
	weights := make([]float64, len(f.shards))
	for i, s := range f.shards {
		b := s.expected
		weights[i] = math.Sqrt(b.n * b.q * (1 - b.q) / b.inflation())
		told[s.canary] += weights[i] * weights[i]
	}
	all := told[true] + told[false]
	for i, s := range f.shards {
		weight := weights[i] * told[false] / all
		if !s.canary {
			weight = -weights[i] * told[true] / all
		}
		out.weights = append(out.weights, weight)
		out.scores = append(out.scores, s.expected.score(s.after.K, s.chance(seed)))
	}
	return out
}

// chance that breaks ties, always the same for one shard of one run.
func (s forecastShard) chance(seed [2]uint64) float64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s.name))                                     // A hash cannot fail.
	return rand.New(rand.NewPCG(seed[0]^h.Sum64(), seed[1])).Float64() //nolint:gosec // A verdict must come out the same after a restart.
}
