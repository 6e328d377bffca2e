// SPDX-License-Identifier: Apache-2.0

package kayenta

import (
	"math"
	"slices"
)

// shift is how much larger one sample is than another, by the test of Mann and Whitney.
type shift struct {
	// low and high are the confidence interval, estimate is that of Hodges and Lehmann.
	low, high, estimate float64
}

// mannWhitney returns the confidence interval and the estimate of how much larger x is than y. They are NaN if the test
// cannot be done.
func mannWhitney(x, y []float64, confidence float64) shift {
	least, most := slices.Min(x)-slices.Max(y), slices.Max(x)-slices.Min(y)
	atLeast, atMost := Statistic(x, y, least), Statistic(x, y, most)
	z := math.Sqrt2 * math.Erfinv(confidence)
	bound := func(quantile float64) float64 {
		switch {
		case atLeast-quantile <= 0:
			return least
		case atMost-quantile >= 0:
			return most
		}
		return root(least, most, func(mu float64) float64 { return Statistic(x, y, mu) - quantile })
	}
	estimate := root(least, most, func(mu float64) float64 { return Statistic(x, y, mu) })
	return shift{low: bound(z), high: bound(-z), estimate: estimate}
}

// tolerance of a root, as Kayenta's solver has it. It is absolute.
const tolerance = 1e-4

// root is that of a function between two points, by the method of Brent (1973, chapter 4), as R's uniroot and Kayenta
// have it. The statistic is a function with steps, so which point of a step is found depends on the method, and
// Kayenta compares these points with each other: a simpler method would classify some metrics otherwise.
func root(low, high float64, of func(float64) float64) float64 {
	type point struct{ at, value float64 }
	// best is the best so far, before is the one before it, and other is on the other side of the root.
	before, best := point{low, of(low)}, point{high, of(high)}
	other := before
	if before.value == 0 {
		return low
	}
	for range 1000 {
		moved := best.at - before.at
		if math.Abs(other.value) < math.Abs(best.value) {
			before, best, other = best, other, best
		}
		least := 2*epsilon*math.Abs(best.at) + tolerance/2
		wide := other.at - best.at
		if best.value == 0 || math.Abs(wide/2) <= least || math.IsNaN(best.value) {
			break
		}
		step := wide / 2
		if math.Abs(moved) >= least && math.Abs(before.value) > math.Abs(best.value) {
			var p, q float64
			if s := best.value / before.value; before.at == other.at { // along a line
				p, q = wide*s, 1-s
			} else { // along a parabola
				u, v := before.value/other.value, best.value/other.value
				p, q = s*(wide*u*(u-v)-(best.at-before.at)*(v-1)), (u-1)*(v-1)*(s-1)
			}
			if p > 0 {
				q = -q
			}
			if p = math.Abs(p); p < .75*wide*q-math.Abs(least*q)/2 && p < math.Abs(moved*q/2) {
				step = p / q
			}
		}
		if math.Abs(step) < least {
			step = math.Copysign(least, step)
		}
		before = best
		best.at += step
		best.value = of(best.at)
		if best.value*other.value > 0 {
			other = before
		}
	}
	if math.IsNaN(best.value) {
		return math.NaN()
	}
	return best.at
}

// epsilon is the distance of 1 to the next number.
const epsilon = 0x1p-52

// Statistic is the standardized U of Mann and Whitney of x less mu and y, with correction for ties and continuity. It
// is NaN if all values are equal.
func Statistic(x, y []float64, mu float64) float64 {
	n, m := float64(len(x)), float64(len(y))
	sum, ties := ranks(x, y, mu)
	d := sum - n*(n+1)/2 - n*m/2
	sigma := math.Sqrt(n * m / 12 * (n + m + 1 - ties/((n+m)*(n+m-1))))
	if sigma == 0 {
		return math.NaN()
	}
	switch {
	case d > 0:
		d -= .5
	case d < 0:
		d += .5
	}
	return d / sigma
}

// ranks returns the sum of the ranks of x less mu among all values, with the average rank for ties, and the sum of t³-t
// over the ties.
func ranks(x, y []float64, mu float64) (sum, ties float64) {
	type ranked struct {
		value float64
		ofX   bool
	}
	all := make([]ranked, 0, len(x)+len(y))
	for _, v := range x {
		all = append(all, ranked{v - mu, true})
	}
	for _, v := range y {
		all = append(all, ranked{v, false})
	}
	slices.SortFunc(all, func(a, b ranked) int {
		switch {
		case a.value < b.value:
			return -1
		case a.value > b.value:
			return 1
		}
		return 0
	})
	for i := 0; i < len(all); {
		j := i
		for j < len(all) && all[j].value == all[i].value {
			j++
		}
		rank, t := float64(i+j+1)/2, float64(j-i)
		ties += t*t*t - t
		for ; i < j; i++ {
			if all[i].ofX {
				sum += rank
			}
		}
	}
	return sum, ties
}
