// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"time"
)

// telemetry is what a gateway counts for one Revision: what the other tools judge.
type telemetry struct {
	now counted
	// kept are the counters at every scrape, from the split on.
	kept []counted
}

// counted holds counters.
type counted struct {
	requests, failed, seconds float64
	buckets                   [15]float64
}

// count counts a request that has ended.
func (t *telemetry) count(code string, took float64) {
	t.now.requests++
	if code[0] == '5' {
		t.now.failed++
	}
	t.now.seconds += took
	t.now.buckets[bucketOf(entryBounds, took)]++
}

// keep remembers the counters, as Prometheus does at every scrape.
func (t *telemetry) keep() { t.kept = append(t.kept, t.now) }

// between returns what was counted between two times, as far as scrapes show it.
func (t *telemetry) between(from, to time.Duration) counted {
	at := func(when time.Duration) counted {
		i := int(when/time.Second) / scrapeEvery
		return t.kept[min(max(0, i), len(t.kept)-1)]
	}
	was, is := at(from), at(to)
	out := counted{requests: is.requests - was.requests, failed: is.failed - was.failed, seconds: is.seconds - was.seconds}
	for i := range out.buckets {
		out.buckets[i] = is.buckets[i] - was.buckets[i]
	}
	return out
}

// partFailed is NaN if there are no requests.
func (c counted) partFailed() float64 {
	if c.requests <= 0 {
		return math.NaN()
	}
	return c.failed / c.requests
}
