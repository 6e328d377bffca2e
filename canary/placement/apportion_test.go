// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/canary/placement"
)

// The first two rows are the textbook's example of the Alabama paradox, the next one is a poll with
// 100 seats; both have been printed in many places, for instance in Wikipedia's "Apportionment
// paradox" and "Largest remainder method" (Hare quota).
func TestApportionAgreesWithPublishedTables(t *testing.T) {
	for _, c := range []struct {
		weights []int
		seats   int
		want    []int
	}{
		{[]int{6, 6, 2}, 10, []int{4, 4, 2}},
		{[]int{6, 6, 2}, 11, []int{5, 5, 1}},
		{[]int{47000, 16000, 15800, 12000, 6100, 3100}, 10, []int{5, 2, 1, 1, 1, 0}},
		{[]int{95, 5}, 100, []int{95, 5}},
		{[]int{95, 5}, 10, []int{10, 0}},
		{[]int{99, 1}, 128, []int{127, 1}},
		{[]int{0, 100}, 7, []int{0, 7}},
		{[]int{1, 1}, 0, []int{0, 0}},
	} {
		if got := placement.Apportion(c.weights, c.seats); !slices.Equal(got, c.want) {
			t.Errorf("%d seats for %v: %v, want %v", c.seats, c.weights, got, c.want)
		}
	}
}

func TestApportionKeepsTheQuotaRule(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		weights, total := randomWeights(rng)
		seats := rng.IntN(300)
		sum := 0
		for i, n := range placement.Apportion(weights, seats) {
			sum += n
			if exact := weights[i] * seats; n*total <= exact-total || n*total >= exact+total {
				t.Fatalf("%d seats for %v: index %d gets %d, its exact part is %v", seats, weights, i, n,
					float64(exact)/float64(total))
			}
		}
		if sum != seats {
			t.Fatalf("%d seats for %v: %d are given", seats, weights, sum)
		}
	}
}

// A canary whose percentage rises does not lose a shard, however the others shrink.
func TestApportionIsMonotoneInOneProportion(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 100_000 {
		weights, _ := randomWeights(rng)
		seats := rng.IntN(300)
		before := placement.Apportion(weights, seats)
		grown := slices.Clone(weights)
		for i := range grown[1:] {
			less := rng.IntN(grown[i+1] + 1)
			grown[i+1] -= less
			grown[0] += less
		}
		if after := placement.Apportion(grown, seats); after[0] < before[0] {
			t.Fatalf("%d seats: %v for %v, but %v for %v", seats, before, weights, after, grown)
		}
	}
}

func randomWeights(rng *rand.Rand) (weights []int, total int) {
	weights = make([]int, 1+rng.IntN(6))
	for i := range weights {
		weights[i] = rng.IntN(101)
		total += weights[i]
	}
	weights[0]++
	return weights, total + 1
}
