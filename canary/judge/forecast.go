// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
)

// forecast returns each shard's expected bad requests since the split, if the canary's odds were a
// given multiple of the baseline's. It uses the shard's own past, as far as it is informative, and what
// all shards do.
//
// Before the split, the shards' ratios have a beta distribution with a measured spread (Paule and
// Mandel 1982); each ratio is estimated between the mean and the shard's own counts. Since the split
// the odds of all shards changed by a common factor, and each shard's by another one with a measured
// spread. A window in which all shards fail more counts by the shard's requests in it, so traffic at a
// bad time does not look worse: see exposure. A shard's count is then beta-binomial, with a mean and a
// dispersion that depend on its requests. Shards with a twentieth of the requests differ in these and
// not in their scores.
type forecast struct {
	shards []forecastShard
}

type forecastShard struct {
	name   string
	canary bool
	after  tally
	// odds before the split, and unsure, the uncertainty of the ratio as a dispersion.
	odds, unsure float64
	// expected since the split.
	expected betaBinomial
}

// forecast returns the forecast of a stratum in which the canary's odds are ratio times the baseline's,
// from 1 up to the tolerance. ok is false if all requests or none were bad, because nothing can be
// compared then.
func (s *shards) forecast(of stratum, at column, ratio, tolerated float64) (f forecast, ok bool) {
	var all tally
	var sum table
	for _, one := range s.Counts {
		sum.canary.add(one.tally(canarySide, at))
		sum.baseline.add(one.tally(baselineSide, at))
	}
	past := make([]tally, len(of.names))
	for i, name := range of.names {
		one := s.Counts[name]
		fs := forecastShard{name: name, canary: one[canarySide] > 0, after: one.tally(canarySide, at)}
		if !fs.canary {
			fs.after = one.tally(baselineSide, at)
		}
		if !of.levels {
			past[i] = one.tally(beforeSide, at)
		}
		all.add(fs.after)
		f.shards = append(f.shards, fs)
	}
	if all.K == 0 || all.K == all.N {
		return f, false
	}
	f.learn(past)
	for i, name := range of.names {
		f.shards[i].odds *= s.Counts[name].exposure(at, sum, ratio, tolerated)
		if f.shards[i].canary {
			f.shards[i].odds *= ratio
		}
	}
	f.fit()
	return f, true
}

// learn estimates each shard's odds before the split. Without a past all are alike, and the counts
// since the split set their level.
func (f *forecast) learn(past []tally) {
	var sum tally
	then := forecast{shards: make([]forecastShard, len(past))}
	for i, t := range past {
		sum.add(t)
		then.shards[i] = forecastShard{after: t, odds: 1}
	}
	// Half a bad request keeps every ratio above 0.
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

// likeliest returns the maximum likelihood dispersion of ratios around a mean. The few shards that fail
// most distort it less than the mean square.
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

// leastDispersed is the logarithm of the smallest dispersion that differs from none.
const leastDispersed = -18

const (
	// mostDispersed is the largest dispersion that is considered.
	mostDispersed = 0.5
	// rounds is how often mean and dispersion are fitted in turn.
	rounds = 4
	// halvings of an interval, and its ends as logarithms.
	halvings   = 50
	widestOdds = 30
	leastLog   = -25
	mostLog    = 15
)

// fit estimates the common factor of all shards' odds, and how much shards differ in it beyond chance:
// the variance of the log odds.
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

// shift multiplies the odds of all shards.
func (f *forecast) shift(by float64) {
	for i := range f.shards {
		s := &f.shards[i]
		odds := s.odds * by
		s.expected.q = odds / (1 + odds)
	}
}

// excess returns the bad requests beyond the expectation, of some shards or of all, weighted by their
// information.
func (f *forecast) excess(of func(forecastShard) bool) float64 {
	sum := 0.0
	for _, s := range f.shards {
		if of == nil || of(s) {
			sum += (s.after.K - s.after.N*s.expected.q) / s.expected.inflation()
		}
	}
	return sum
}

// scatter sets the dispersion for a spread of the odds, and returns how far counts lie from their
// expectation: 1 is as far as they should.
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

// halve finds by bisection where a condition that holds on the left ends.
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

// scores returns the shards' scores, which have one distribution whatever their traffic, and the
// weights that compare the canary's with the baseline's.
//
// A weight is the square root of a shard's information about its log odds. With these weights the
// difference is that of the score test, and a factor common to all shards cancels.
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

// chance breaks ties, always the same way for one shard of one run.
func (s forecastShard) chance(seed [2]uint64) float64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s.name))                                     // A hash cannot fail.
	return rand.New(rand.NewPCG(seed[0]^h.Sum64(), seed[1])).Float64() //nolint:gosec // A verdict must come out the same after a restart.
}
