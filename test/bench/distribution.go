// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"math"
	"slices"
)

// percentile returns the smallest value that p percent of the values do not exceed (nearest rank), so it is always a
// measured one. Without values it returns the zero value.
func percentile[T cmp.Ordered](values []T, p float64) T {
	var none T
	if len(values) == 0 {
		return none
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// spread summarizes repeats of one measurement.
type spread[T cmp.Ordered] struct {
	// Median is the lower one if the number of values is even.
	Median   T
	Min, Max T
	// Of is the number of values.
	Of int
}

func spreadOf[T cmp.Ordered](values []T) spread[T] {
	if len(values) == 0 {
		return spread[T]{}
	}
	return spread[T]{Median: percentile(values, 50), Min: slices.Min(values), Max: slices.Max(values), Of: len(values)}
}
