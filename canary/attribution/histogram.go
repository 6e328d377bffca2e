// SPDX-License-Identifier: Apache-2.0

package attribution

import (
	"iter"
	"maps"
	"math"
	"slices"
)

// bounds are the upper bounds of the exported histogram: the defaults of Prometheus's client libraries.
// Serving's own metrics have them and more.
var bounds = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

// Bounds returns the upper bounds of the exported histogram, in seconds.
func Bounds() []float64 { return slices.Clone(bounds) }

// Histogram is cumulative, by upper bound.
type Histogram struct {
	Count   uint64
	Sum     float64
	Buckets map[float64]uint64
}

// Buckets are the counts of a cumulative histogram, by upper bound in seconds.
type Buckets map[float64]float64

// Durations returns the histogram buckets and the sum of a Revision's request durations, counted where
// requests are handled if it is stateful and where they enter otherwise.
func (t *Tally) Durations(stateful bool) (Buckets, float64) {
	if stateful {
		return t.Buckets, t.DurationSum
	}
	return t.EntryBuckets, t.EntryDurationSum
}

// Complete reports whether the +Inf bucket is present.
func (b Buckets) Complete() bool {
	_, ok := b[math.Inf(1)]
	return ok
}

// Total is the count of the +Inf bucket.
func (b Buckets) Total() float64 { return b[math.Inf(1)] }

// Rising yields bounds and counts in ascending order. Rejected samples may leave a bucket
// smaller than the one below it; Rising yields the larger count.
func (b Buckets) Rising() iter.Seq2[float64, float64] {
	return func(yield func(bound, count float64) bool) {
		most := 0.0
		for _, bound := range slices.Sorted(maps.Keys(b)) {
			if most = max(most, b[bound]); !yield(bound, most) {
				return
			}
		}
	}
}

// Above returns how many requests took longer than each finite bound.
func (b Buckets) Above() map[float64]float64 {
	above := map[float64]float64{}
	for bound, n := range b.Rising() {
		if !math.IsInf(bound, 1) {
			above[bound] = max(0, b.Total()-n)
		}
	}
	return above
}
