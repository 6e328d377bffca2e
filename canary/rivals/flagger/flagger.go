// SPDX-License-Identifier: Apache-2.0

// Package flagger decides as Flagger v1.44.0 does (pkg/controller/scheduler.go and scheduler_metrics.go), by its two
// built-in metrics.
//
// Its invariants: it is pure, and has no knowledge beyond the requests of the canary in each window. It does not shift
// traffic: how much the canary has is the caller's. An analysis whose windows end before it does is not decided.
package flagger

import (
	"math"
	"time"
)

// Analysis is the part of a Canary that decides.
type Analysis struct {
	// Interval is the time between two checks; each looks at the requests of the last MetricInterval.
	Interval, MetricInterval time.Duration
	// Threshold is how many checks may fail before the canary is rolled back.
	Threshold int
	// MaxWeight and StepWeight are percentages. Every check that holds adds a step; at the maximum, the canary is
	// promoted.
	MaxWeight, StepWeight int
	// MinSuccessRate is a percentage, MaxDuration the limit of the 99th percentile; 0 if it does not matter.
	MinSuccessRate float64
	MaxDuration    time.Duration
}

// Documented is the analysis of docs/gitbook/usage/how-it-works.md.
func Documented() Analysis {
	return Analysis{
		Interval: time.Minute, MetricInterval: time.Minute, Threshold: 10, MaxWeight: 50, StepWeight: 5,
		MinSuccessRate: 99, MaxDuration: 500 * time.Millisecond,
	}
}

// Version is the version of Flagger whose rules these are.
const Version = "v1.44.0"

// Window is what the canary did in a window.
type Window struct {
	// Requests of all response codes, and those with a 5xx.
	Requests, Failed float64
	// Bounds of the histogram of durations in seconds, and how many requests each bucket has; the last has no bound.
	Bounds, Buckets []float64
}

// Phase of a canary.
type Phase string

// The phases in which an analysis ends. It is Undecided if there are no more windows.
const (
	Undecided Phase = ""
	Succeeded Phase = "Succeeded"
	Failed    Phase = "Failed"
)

// Run analyzes a canary that has its first traffic at time 0, and returns how that ends, and when. window returns what
// the canary did between two times; false if that is not known.
func (a Analysis) Run(window func(from, to time.Duration) (Window, bool)) (end Phase, at time.Duration) {
	failed := 0
	for weight := a.StepWeight; ; {
		at += a.Interval
		if failed >= a.Threshold {
			return Failed, at
		}
		w, known := window(at-a.MetricInterval, at)
		switch {
		case !known:
			return Undecided, at - a.Interval
		case !a.Holds(w):
			failed++
		case weight >= a.MaxWeight:
			return Succeeded, at
		default:
			weight += a.StepWeight
		}
	}
}

// Holds reports whether both metrics are within their thresholds. Without requests there are no values, which fails the
// check.
func (a Analysis) Holds(w Window) bool {
	if w.Requests <= 0 {
		return false
	}
	if a.MaxDuration > 0 {
		p99 := time.Duration(Quantile(.99, w.Bounds, w.Buckets) * float64(time.Second))
		if p99.Truncate(time.Millisecond) > a.MaxDuration {
			return false
		}
	}
	return 100*(w.Requests-w.Failed)/w.Requests >= a.MinSuccessRate
}

// Quantile estimates a quantile as histogram_quantile of Prometheus does: linearly within a bucket, and as the highest
// bound beyond it.
func Quantile(q float64, bounds, buckets []float64) float64 {
	all := 0.0
	for _, n := range buckets {
		all += n
	}
	if all == 0 || len(bounds) == 0 {
		return math.NaN()
	}
	rank, below := q*all, 0.0
	for i, n := range buckets {
		if below+n < rank || n == 0 {
			below += n
			continue
		}
		if i >= len(bounds) {
			break
		}
		low := 0.0
		if i > 0 {
			low = bounds[i-1]
		}
		return low + (bounds[i]-low)*(rank-below)/n
	}
	return bounds[len(bounds)-1]
}
