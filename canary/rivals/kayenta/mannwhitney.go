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

// tolerance of a root, as Kayenta's solver has it. It is absolute.
const tolerance = 1e-4

// mannWhitney returns the confidence interval and the estimate of how much larger x is than y.
func mannWhitney(x, y []float64, confidence float64) shift {
	least, most := slices.Min(x)-slices.Max(y), slices.Max(x)-slices.Min(y)
	z := -math.Sqrt2 * math.Erfinv(confidence)
	bound := func(quantile float64) float64 {
		switch {
		case Statistic(x, y, least)-quantile <= 0:
			return least
		case Statistic(x, y, most)-quantile >= 0:
			return most
		}
		return root(least, most, func(mu float64) float64 { return Statistic(x, y, mu) - quantile })
	}
	estimate := root(least, most, func(mu float64) float64 { return Statistic(x, y, mu) })
	return shift{low: bound(-z), high: bound(z), estimate: estimate}
}

// root of a function that falls.
func root(low, high float64, of func(float64) float64) float64 {
	for high-low > tolerance/2 {
		middle := (low + high) / 2
		switch value := of(middle); {
		case value == 0:
			return middle
		case value > 0:
			low = middle
		default:
			high = middle
		}
	}
	return (low + high) / 2
}

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
