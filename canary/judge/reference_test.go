// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"math"
	"math/big"
	"testing"
)

// Values published by Newcombe, Statistics in Medicine 17:857-872 (1998), table I,
// method 3 (Wilson's without correction).
func TestWilsonAsPublished(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ k, n, low, high float64 }{
		{81, 263, 0.2553, 0.3662},
		{15, 148, 0.0624, 0.1605},
		{0, 20, 0, 0.1611},
		{1, 29, 0.0061, 0.1718},
	} {
		low, high := wilson(tally{N: tc.n, K: tc.k}, z95)
		near(t, fmt.Sprint(tc.k, "/", tc.n, " low"), low, tc.low, 5e-5)
		near(t, fmt.Sprint(tc.k, "/", tc.n, " high"), high, tc.high, 5e-5)
	}
}

// Values published by Newcombe, Statistics in Medicine 17:873-890 (1998), table II,
// method 10.
func TestNewcombeAsPublished(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ k, n, l, m, low, high float64 }{
		{56, 70, 48, 80, 0.0524, 0.3339},
		{9, 10, 3, 10, 0.1705, 0.8090},
		{6, 7, 2, 7, 0.0582, 0.8062},
		{5, 56, 0, 29, -0.0381, 0.1926},
		{0, 10, 0, 20, -0.1611, 0.2775},
		{0, 10, 0, 10, -0.2775, 0.2775},
		{10, 10, 0, 20, 0.6791, 1},
		{10, 10, 0, 10, 0.6075, 1},
	} {
		low, high := newcombe(tally{N: tc.n, K: tc.k}, tally{N: tc.m, K: tc.l}, z95)
		name := fmt.Sprintf("%v/%v - %v/%v", tc.k, tc.n, tc.l, tc.m)
		near(t, name+" low", low, tc.low, 5e-5)
		near(t, name+" high", high, tc.high, 5e-5)
	}
}

// The lady tasting tea (Fisher 1935): 1, 16, 36, 16 and 1 of 70.
func TestHypergeometricOfTheLadyTastingTea(t *testing.T) {
	t.Parallel()
	h := hypergeometric{canary: 4, baseline: 4, bad: 4}
	for k, ways := range []float64{1, 16, 36, 16, 1} {
		near(t, fmt.Sprint(k), math.Exp(h.logProbability(float64(k), 1)), ways/70, 1e-12)
	}
}

// Fisher's convicted twins, as R's fisher.test prints them: 2 of 17 dizygotic and 10 of
// 13 monozygotic ones. One-sided p is 0.0004652, and the odds ratio that is likeliest
// given the margins 0.04693661: there the expectation is what was found.
func TestHypergeometricOfConvictedTwins(t *testing.T) {
	t.Parallel()
	h := hypergeometric{canary: 17, baseline: 13, bad: 12}
	p, mean := 0.0, 0.0
	for k := 0.0; k <= 12; k++ {
		if k <= 2 {
			p += math.Exp(h.logProbability(k, 1))
		}
		mean += k * math.Exp(h.logProbability(k, 0.04693661))
	}
	near(t, "p", p, 0.0004652, 5e-8)
	near(t, "mean", mean, 2, 1e-5)
}

// The same probabilities in integers, by another method and without rounding.
func TestHypergeometricExactly(t *testing.T) {
	t.Parallel()
	for _, h := range []hypergeometric{
		{canary: 5, baseline: 95, bad: 10},
		{canary: 50, baseline: 950, bad: 12},
		{canary: 300, baseline: 300, bad: 590},
		{canary: 1000, baseline: 20, bad: 40},
		{canary: 400, baseline: 2000, bad: 700},
	} {
		for _, ratio := range []*big.Rat{big.NewRat(1, 2), big.NewRat(1, 1), big.NewRat(3, 2), big.NewRat(10, 1)} {
			psi, _ := ratio.Float64()
			lo, hi := h.support()
			total, power := new(big.Rat), new(big.Rat).SetInt64(1)
			weights := []*big.Rat{}
			for k := lo; k <= hi; k++ {
				ways := new(big.Int).Mul(new(big.Int).Binomial(int64(h.canary), int64(k)), new(big.Int).Binomial(int64(h.baseline), int64(h.bad-k)))
				weight := new(big.Rat).Mul(new(big.Rat).SetInt(ways), power)
				weights, total = append(weights, weight), total.Add(total, weight)
				power = new(big.Rat).Mul(power, ratio)
			}
			for i := 0; i < len(weights); i += 1 + len(weights)/20 {
				want, _ := new(big.Rat).Quo(weights[i], total).Float64()
				if want < 1e-300 {
					continue
				}
				got := h.logProbability(lo+float64(i), psi)
				near(t, fmt.Sprintf("%+v, ratio %v, k %v", h, psi, lo+float64(i)), got, math.Log(want), 1e-8)
			}
		}
	}
}

// For any number of bad requests, an e-value is 1 on average at the limit, and at most 1 beyond it.
// Ville's inequality needs no more.
func TestEValuesAreFairBets(t *testing.T) {
	t.Parallel()
	h := hypergeometric{canary: 40, baseline: 160, bad: 30}
	mean := func(truth float64, of func(*odds) float64) float64 {
		sum := 0.0
		for k := 0.0; k <= 30; k++ {
			o := newOdds(1.5)
			o.add(table{canary: tally{N: 40, K: k}, baseline: tally{N: 160, K: 30 - k}})
			sum += math.Exp(h.logProbability(k, truth) + of(o))
		}
		return sum
	}
	fail := func(o *odds) float64 { return o.against(1.5, failGrid(1.5)) }
	pass := func(o *odds) float64 { return o.pass(1.5) }
	near(t, "fail at the limit", mean(1.5, fail), 1, 1e-9)
	near(t, "pass at the limit", mean(1.5, pass), 1, 1e-9)
	near(t, "warn at 1", mean(1, func(o *odds) float64 { return o.against(1, warnGrid) }), 1, 1e-9)
	if m := mean(1, fail); m > 1 {
		t.Errorf("fail below the limit: %v on average", m)
	}
	if m := mean(2, pass); m > 1 {
		t.Errorf("pass above the limit: %v on average", m)
	}
	bet := func(truth, limit float64, of func(tally, float64) float64) float64 {
		sum := 0.0
		for k := 0.0; k <= 50; k++ {
			sum += math.Exp(logChoose(50, k) + k*math.Log(truth) + (50-k)*math.Log1p(-truth) + of(tally{N: 50, K: k}, limit))
		}
		return sum
	}
	above := func(t tally, limit float64) float64 { return temperedAbove(t, limit, 1) }
	near(t, "above, at the limit", bet(0.02, 0.02, above), 1, 1e-9)
	near(t, "below, at the limit", bet(0.02, 0.02, logBelow), 1, 1e-9)
	if m := bet(0.01, 0.02, above); m > 1 {
		t.Errorf("above, below the limit: %v on average", m)
	}
	if m := bet(0.03, 0.02, logBelow); m > 1 {
		t.Errorf("below, above the limit: %v on average", m)
	}
}

// With equal weights, the share of orders is the share of ways to deal the scores to the two sides,
// which can be counted: one way of ten puts the highest two of five on one side.
func TestPermutationExactly(t *testing.T) {
	t.Parallel()
	two, three := []float64{1, 1, -1, -1, -1}, []float64{1, 1, 1, -1, -1}
	for _, tc := range []struct {
		name string
		of   []dealt
		want float64
	}{
		{"the highest two of five", []dealt{{two, []float64{3, 4, 0, 1, 2}}}, 1. / 10},
		{"the lowest two of five", []dealt{{two, []float64{0, 1, 2, 3, 4}}}, 1},
		{"the lowest two, negated", []dealt{dealt{two, []float64{0, 1, 2, 3, 4}}.negated()}, 1. / 10},
		{"the highest and the third of five", []dealt{{two, []float64{4, 2, 0, 1, 3}}}, 2. / 10},
		{"more canaries than baselines", []dealt{{three, []float64{2, 3, 4, 0, 1}}}, 1. / 10},
		{"all alike", []dealt{{two, []float64{1, 1, 1, 1, 1}}}, 1},
		{"two strata", []dealt{{two, []float64{3, 4, 0, 1, 2}}, {two, []float64{3, 4, 0, 1, 2}}}, 1. / 100},
		{"no weight", []dealt{{[]float64{0, 0}, []float64{1, 2}}}, 1},
		{"nothing to compare", nil, 1},
	} {
		near(t, tc.name, averaged(tc.of), tc.want, 0.01)
	}
}

// With unequal weights, against all 720 orders of six scores.
func TestPermutationAgainstAllOrders(t *testing.T) {
	t.Parallel()
	d := dealt{weights: []float64{3, 0.5, -1, -2, -0.25, -0.25}, scores: []float64{1.5, 0.1, -0.4, -0.2, 0.3, -1}}
	sum := func(of []float64) float64 {
		s := 0.0
		for i, w := range d.weights {
			s += w * of[i]
		}
		return s
	}
	found, high, all := sum(d.scores), 0.0, 0.0
	var every func(of []float64, from int)
	every = func(of []float64, from int) {
		if from == len(of) {
			if all++; sum(of) >= found-1e-12 {
				high++
			}
			return
		}
		for i := from; i < len(of); i++ {
			of[from], of[i] = of[i], of[from]
			every(of, from+1)
			of[from], of[i] = of[i], of[from]
		}
	}
	every(append([]float64{}, d.scores...), 0)
	near(t, "high", averaged([]dealt{d}), high/all, 0.01)
	one, again := permutation([]dealt{d}, 0.01, [2]uint64{1, 2}), permutation([]dealt{d}, 0.01, [2]uint64{1, 2})
	if again != one {
		t.Errorf("the same seed gave %v, and then %v", one, again)
	}
}

// averaged averages over seeds, because each draws only a few hundred orders.
func averaged(of []dealt) float64 {
	sum := 0.0
	for seed := range uint64(100) {
		sum += permutation(of, 1e-5, [2]uint64{seed, 2}) / 100
	}
	return sum
}

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if math.IsNaN(got) || math.Abs(got-want) > within {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
