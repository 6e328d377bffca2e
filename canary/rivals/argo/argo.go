// SPDX-License-Identifier: Apache-2.0

// Package argo decides as the controller of Argo Rollouts v1.10.0 does (analysis/analysis.go), by one metric of an
// AnalysisTemplate.
//
// Its invariants: it is pure, and has no knowledge beyond the measurements. It does not shift traffic: how much the
// canary has is the caller's. An analysis whose measurements end before it does is not decided.
package argo

import "time"

// Version is the version of Argo Rollouts whose rules these are.
const Version = "v1.10.0"

// Metric is the part of an AnalysisTemplate that decides.
type Metric struct {
	Name string
	// Start and End are when the rollout begins and stops the analysis, counted from the canary's first traffic. End is
	// 0 if that is not known.
	Start, End time.Duration
	Interval   time.Duration
	// Count is how many measurements are taken; 0 means until the end.
	Count int
	// Op is one of < <= > >=, and compares a result with Than. If that holds, the measurement succeeds, or Fails.
	Op    string
	Than  float64
	Fails bool
	// FailureLimit is how many measurements may fail.
	FailureLimit int
	// Value is what is measured; nil for the part of requests that succeed between the last two scrapes.
	Value *Query
}

// fails reports whether a measurement fails. What is not a number meets no condition.
func (m Metric) fails(v float64) bool {
	holds := map[string]bool{"<": v < m.Than, "<=": v <= m.Than, ">": v > m.Than, ">=": v >= m.Than}[m.Op]
	return holds == m.Fails
}

// Documented is the background analysis of docs/features/analysis.md: it begins with the third step, after ten minutes
// of 20 %, and the rollout takes 40 minutes. The query is an irate, so it looks at the last two scrapes.
func Documented() Metric {
	return Metric{
		Name: "success-rate", Start: 10 * time.Minute, End: 40 * time.Minute, Interval: 5 * time.Minute,
		Op: ">=", Than: .95, FailureLimit: 3,
	}
}

// Phase of an AnalysisRun.
type Phase string

// The phases in which a run ends. It is Undecided if there are no more measurements.
const (
	Undecided  Phase = ""
	Successful Phase = "Successful"
	Failed     Phase = "Failed"
)

// Run takes the measurements until the analysis ends. measure returns false if the result is not known.
func (m Metric) Run(measure func(at time.Duration) (float64, bool)) (end Phase, at time.Duration) {
	failed, taken := 0, 0
	for at = m.Start; m.End == 0 || at < m.End; at += m.Interval {
		v, known := measure(at)
		if !known {
			return Undecided, max(0, at-m.Interval)
		}
		taken++
		if m.fails(v) {
			failed++
		}
		switch {
		case failed > m.FailureLimit:
			return Failed, at
		case m.Count > 0 && taken >= m.Count:
			return Successful, at
		}
	}
	if _, known := measure(m.End); !known {
		return Undecided, at - m.Interval
	}
	return Successful, m.End
}
