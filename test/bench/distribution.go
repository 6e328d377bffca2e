package main

import (
	"cmp"
	"math"
	"slices"
)

// percentile is the smallest of the values that p percent of them do not exceed (nearest rank), so that it is always
// one that was measured. It is the zero value where there are none.
func percentile[T cmp.Ordered](values []T, p float64) T {
	var none T
	if len(values) == 0 {
		return none
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// spread sums up what repeats of the same measurement gave.
type spread[T cmp.Ordered] struct {
	// Median is the lower one where their number is even.
	Median   T
	Min, Max T
	// Of is how many there were.
	Of int
}

func spreadOf[T cmp.Ordered](values []T) spread[T] {
	if len(values) == 0 {
		return spread[T]{}
	}
	return spread[T]{Median: percentile(values, 50), Min: slices.Min(values), Max: slices.Max(values), Of: len(values)}
}
