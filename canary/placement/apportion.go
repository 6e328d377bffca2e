// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"
)

// Apportion divides seats in proportion to weights, by largest remainder (Hamilton's method). Each
// number differs from its exact proportion by less than one (the quota rule). If one proportion grows,
// and no other does, its number does not fall. Equal remainders are served in order of the indices.
//
// It is not monotone in everything. With more seats in all, a number may fall (the Alabama paradox);
// the number of shards is not changed while a cluster runs. If several proportions change, a number may
// fall although its proportion grew faster than another's: no method that keeps the quota rule avoids
// this (Balinski & Young 2001).
//
// Weights must not be negative, and one at least must be positive.
func Apportion(weights []int, seats int) []int {
	return apportion(weights, seats, func(int, int) int { return 0 })
}

// apportion has ties decided by a function that compares two candidates as cmp.Compare does, given
// their indices; the lesser is served first.
func apportion(weights []int, seats int, tie func(a, b int) int) []int {
	var total int64
	for _, w := range weights {
		total += int64(w)
	}
	numbers := make([]int, len(weights))
	remainders := make([]int64, len(weights))
	order := make([]int, len(weights))
	left := seats
	for i, w := range weights {
		exact := int64(w) * int64(seats)
		numbers[i], remainders[i], order[i] = int(exact/total), exact%total, i
		left -= numbers[i]
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(remainders[b], remainders[a]), tie(a, b))
	})
	for _, i := range order[:left] {
		numbers[i]++
	}
	return numbers
}
