// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"testing"
	"time"
)

func TestPercentile(t *testing.T) {
	// The standard example for the nearest-rank method.
	values := []int{50, 15, 40, 20, 35}
	for p, want := range map[float64]int{0: 15, 5: 15, 20: 15, 30: 20, 40: 20, 50: 35, 99: 50, 100: 50} {
		if got := percentile(values, p); got != want {
			t.Errorf("p%v: got %d, want %d", p, got, want)
		}
	}
	if !slices.Equal(values, []int{50, 15, 40, 20, 35}) {
		t.Errorf("the values were changed: %v", values)
	}
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(100-i) * time.Millisecond
	}
	if got := percentile(hundred, 99); got != 99*time.Millisecond {
		t.Errorf("p99 of 1 to 100 ms: got %v", got)
	}
	if got := percentile([]time.Duration{}, 99); got != 0 {
		t.Errorf("p99 of nothing: got %v", got)
	}
	if got := percentile([]int{7}, 1); got != 7 {
		t.Errorf("p1 of one value: got %v", got)
	}
}

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   spread[float64]
	}{
		{nil, spread[float64]{}},
		{[]float64{3}, spread[float64]{3, 3, 3, 1}},
		{[]float64{3, 1, 2}, spread[float64]{2, 1, 3, 3}},
		{[]float64{4, 1, 2, 3}, spread[float64]{2, 1, 4, 4}},
	} {
		if got := spreadOf(c.values); got != c.want {
			t.Errorf("%v: got %+v, want %+v", c.values, got, c.want)
		}
	}
}
