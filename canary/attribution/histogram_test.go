// SPDX-License-Identifier: Apache-2.0

package attribution

import (
	"maps"
	"math"
	"testing"
)

func TestBucketsRise(t *testing.T) {
	t.Parallel()
	b := Buckets{.5: 5, 1: 3, 2.5: 7, math.Inf(1): 6}
	if want := map[float64]float64{.5: 1, 1: 1, 2.5: 0}; !maps.Equal(b.Above(), want) || !b.Complete() || b.Total() != 6 {
		t.Errorf("%v", b.Above())
	}
	if (Buckets{.5: 5}).Complete() {
		t.Error("a histogram without +Inf is complete")
	}
}
