// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"testing"
	"time"
)

func TestMatch(t *testing.T) {
	start := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	cart, shop := change{"cart", 10}, change{"shop", 10}
	cart20, lost := change{"cart", 20}, change{"shop", 20}
	commits := []commit{
		{cart, at(-5), at(0), at(0)}, {shop, at(-1), at(12), at(10)}, {cart20, at(20), at(30), at(30)}, {lost, at(40), at(50), at(50)},
	}
	arrivals := []arrival{
		{shop, at(9)}, // arrived before the response of its write
		{cart20, at(530)},
		{cart, at(700)}, // a duplicate, recorded before the first
		{cart, at(4)},
		{change{"probe", 1}, at(2000)},
	}
	got := match(commits, arrivals)
	if got.Changes != 4 || got.Arrived() != 3 || got.Repeated != 1 || !slices.Equal(got.Lost, []change{lost}) {
		t.Errorf("got %+v", got)
	}
	if want := []time.Duration{4 * time.Millisecond, -time.Millisecond, 500 * time.Millisecond}; !slices.Equal(got.Latencies, want) {
		t.Errorf("latencies: got %v, want %v", got.Latencies, want)
	}
	if !got.First.Equal(at(0)) || !got.LastCommit.Equal(at(50)) || !got.Last.Equal(at(530)) {
		t.Errorf("from %v to %v, the last event at %v", got.First, got.LastCommit, got.Last)
	}
	if rate := got.Rate(); rate < 5.660 || rate > 5.661 { // 3 in 0.53 s
		t.Errorf("rate: got %v", rate)
	}
	if want := []time.Duration{5 * time.Millisecond, 13 * time.Millisecond, 10 * time.Millisecond, 10 * time.Millisecond}; !slices.Equal(writes(commits), want) {
		t.Errorf("writes: got %v, want %v", writes(commits), want)
	}
}

func TestMatchNothing(t *testing.T) {
	if got := match(nil, nil); got.Changes != 0 || got.Rate() != 0 || got.Lost != nil {
		t.Errorf("got %+v", got)
	}
	if got := match([]commit{{change: change{"cart", 1}, At: time.Now()}}, nil); got.Rate() != 0 || len(got.Lost) != 1 {
		t.Errorf("got %+v", got)
	}
}
