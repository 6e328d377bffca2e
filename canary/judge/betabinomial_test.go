// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"math"
	"testing"
)

// The probabilities of fewer, of as many and of more, and the score at a quarter of the way, from sums
// of 60 digits (mpmath 1.3, beta functions and erfinv). Those of the distribution agree with scipy
// 1.17's betabinom and binom to ten digits.
func TestBetaBinomialAgainstLongSums(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ n, k, q, dispersion, below, exactly, above, score float64 }{
		{10, 3, 0.25, 0.2, 0.58041958042, 0.125874125874, 0.293706293706, 0.2842435068},
		{30, 0, 0.01, 0.001, 0, 0.742897743146, 0.257102256854, -0.8937626974},
		{600, 17, 0.01, 0.002, 0.989123959213, 0.00379313513558, 0.00708290565125, 2.329067048},
		{600, 17, 0.01, 0, 0.999841298415, 0.000108010540036, 5.0691045053e-5, 3.64886848},
		{1500, 1, 0.02, 0.0005, 1.5940469707e-10, 2.76444314471e-9, 0.999999997076, -6.02405255},
		{50, 45, 0.3, 0.5, 0.915705724546, 0.0108110143052, 0.0734832611492, 1.39444574},
		{40, 12, 0.05, 0.3, 0.942957509496, 0.00623190280797, 0.0508105876956, 1.593852705},
		{2000, 30, 0.01, 0.00001, 0.977631530065, 0.00848560806066, 0.0138828618741, 2.048672645},
		{20000, 260, 0.01, 0.0001, 0.989257703437, 0.000966069481763, 0.00977622708156, 2.307956458},
	} {
		b := betaBinomial{n: tc.n, q: tc.q, dispersion: tc.dispersion}
		name := fmt.Sprintf("%+v, %v bad", b, tc.k)
		near(t, name+": fewer", b.below(tc.k), tc.below, 1e-8*tc.below+1e-15)
		near(t, name+": as many", math.Exp(b.logProbability(tc.k)), tc.exactly, 1e-8*tc.exactly)
		near(t, name+": more", b.above(tc.k), tc.above, 1e-8*tc.above+1e-15)
		near(t, name+": score", b.score(tc.k, 0.25), tc.score, 1e-7)
	}
}

// The same sources.
func TestQuantile(t *testing.T) {
	t.Parallel()
	for p, want := range map[float64]float64{
		1e-10: -6.3613409024, 0.001: -3.09023230617, 0.025: -1.95996398454, 0.5: 0, 0.9: 1.28155156554, 0.999999: 4.75342430882,
	} {
		near(t, fmt.Sprint(p), quantile(p), want, 1e-7)
	}
}

// Samples of the distribution have exactly standard normal scores: their mean is 0, their variance 1,
// and a twentieth lies below the 5 % quantile.
func TestScoresAreNormal(t *testing.T) {
	t.Parallel()
	for _, b := range []betaBinomial{
		{n: 30, q: 0.01}, {n: 30, q: 0.01, dispersion: 0.05}, {n: 600, q: 0.02, dispersion: 0.001}, {n: 25, q: 0.5, dispersion: 0.5},
	} {
		const steps = 2000
		var mean, square, low, all float64
		for k := 0.0; k <= b.n; k++ {
			p := math.Exp(b.logProbability(k))
			all += p
			for i := range steps {
				z := b.score(k, (float64(i)+0.5)/steps)
				mean, square = mean+p*z/steps, square+p*z*z/steps
				if z < -1.6448536269514722 {
					low += p / steps
				}
			}
		}
		name := fmt.Sprintf("%+v", b)
		near(t, name+": probabilities", all, 1, 1e-9)
		near(t, name+": mean", mean, 0, 2e-3)
		near(t, name+": variance", square, 1, 5e-3)
		near(t, name+": lowest", low, 0.05, 1e-3)
	}
}

// Extreme inputs give finite, bounded scores.
func TestScoresAreBounded(t *testing.T) {
	t.Parallel()
	for _, n := range []float64{0, 1, 1e3, 1e6, 1e15} {
		for _, q := range []float64{1e-13, 1e-3, 0.5, 1 - 1e-9} {
			for _, dispersion := range []float64{0, 1e-10, 1e-3, 0.5} {
				for _, k := range []float64{0, math.Floor(n / 2), n} {
					if z := (betaBinomial{n: n, q: q, dispersion: dispersion}).score(k, 0.5); !(z >= -farthestScore && z <= farthestScore) {
						t.Errorf("%v of %v, q %v, dispersion %v: %v", k, n, q, dispersion, z)
					}
				}
			}
		}
	}
}
