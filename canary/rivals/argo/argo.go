// SPDX-License-Identifier: Apache-2.0

// Package argo decides as the controller of Argo Rollouts v1.10.0-rc1 does (analysis/analysis.go), by one metric of an
// AnalysisTemplate.
//
// Its invariants: it is pure, and has no knowledge beyond the measurements. It does not shift traffic: how much the
// canary has is the caller's. An analysis whose measurements end before it does is not decided.
package argo

import "time"

// Version is the version of Argo Rollouts whose rules these are.
const Version = "v1.10.0-rc1"

// Metric is the part of an AnalysisTemplate that decides.
type Metric struct {
	Name string
	// Start and End are when the rollout begins and stops the analysis, counted from the canary's first traffic. End is
	// 0 if that is not known.
	Start, End time.Duration
	Interval   time.Duration
	// Count is how many measurements are taken; 0 means until the end.
	Count int
	// Success and Failure are conditions on the result, of which one may be missing.
	Success, Failure *Condition
	// FailureLimit and InconclusiveLimit are how many measurements may be so; -1 is without limit.
	FailureLimit, InconclusiveLimit int
	// Value is what is measured; nil for the part of requests that succeed between the last two scrapes.
	Value *Query
}

// Condition compares a result with a number.
type Condition struct {
	// Op is one of < <= > >= == !=.
	Op   string
	Than float64
}

// holds also for what is not a number: no comparison with it is true, but that it is different.
func (c *Condition) holds(v float64) bool {
	switch c.Op {
	case "<":
		return v < c.Than
	case "<=":
		return v <= c.Than
	case ">":
		return v > c.Than
	case ">=":
		return v >= c.Than
	case "==":
		return v == c.Than
	}
	return v != c.Than
}

// Documented is the background analysis of docs/features/analysis.md: it begins with the third step, after ten minutes
// of 20 %, and the rollout takes 40 minutes. The query is an irate, so it looks at the last two scrapes.
func Documented() Metric {
	return Metric{
		Name: "success-rate", Start: 10 * time.Minute, End: 40 * time.Minute, Interval: 5 * time.Minute,
		Success: &Condition{Op: ">=", Than: .95}, FailureLimit: 3,
	}
}

// Phase of an AnalysisRun.
type Phase string

// The phases in which a run ends. It is Undecided if there are no more measurements.
const (
	Undecided    Phase = ""
	Successful   Phase = "Successful"
	Failed       Phase = "Failed"
	Inconclusive Phase = "Inconclusive"
)

// assess returns what a measurement says.
func (m Metric) assess(v float64) Phase {
	switch {
	case m.Success == nil && m.Failure == nil:
		return Successful
	case m.Failure == nil && m.Success.holds(v), m.Success == nil && !m.Failure.holds(v):
		return Successful
	case m.Failure == nil, m.Failure.holds(v):
		return Failed
	case m.Success.holds(v):
		return Successful
	}
	return Inconclusive
}

// Run takes the measurements until the analysis ends. measure returns false if the result is not known.
func (m Metric) Run(measure func(at time.Duration) (float64, bool)) (end Phase, at time.Duration) {
	taken := map[Phase]int{}
	for at = m.Start; m.End == 0 || at < m.End; at += m.Interval {
		v, known := measure(at)
		if !known {
			return Undecided, max(0, at-m.Interval)
		}
		taken[m.assess(v)]++
		switch {
		case m.FailureLimit >= 0 && taken[Failed] > m.FailureLimit:
			return Failed, at
		case m.InconclusiveLimit >= 0 && taken[Inconclusive] > m.InconclusiveLimit:
			return Inconclusive, at
		case m.Count > 0 && taken[Successful]+taken[Failed]+taken[Inconclusive] >= m.Count:
			return Successful, at
		}
	}
	if _, known := measure(m.End); !known {
		return Undecided, at - m.Interval
	}
	return Successful, m.End
}
