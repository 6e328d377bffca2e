// SPDX-License-Identifier: Apache-2.0

// Package argo decides as the controller of Argo Rollouts v1.10.0-rc1 does (analysis/analysis.go), by one metric of an
// AnalysisTemplate.
//
// Its invariants: it is pure, and has no knowledge beyond the measurements. It does not shift traffic: how much the
// canary has is the caller's.
package argo

import "time"

// Metric is the part of an AnalysisTemplate that decides.
type Metric struct {
	// Start and End are when the rollout begins and stops the analysis, counted from the canary's first traffic.
	Start, End time.Duration
	Interval   time.Duration
	// Count is how many measurements are taken; 0 means until the end.
	Count int
	// AtLeast is the success condition: the result must not be less.
	AtLeast float64
	// FailureLimit is how many measurements may fail.
	FailureLimit int
}

// Documented is the background analysis of docs/features/analysis.md: it begins with the third step, after ten minutes
// of 20 %, and the rollout takes 40 minutes. The query is an irate, so it looks at the last two scrapes.
func Documented() Metric {
	return Metric{Start: 10 * time.Minute, End: 40 * time.Minute, Interval: 5 * time.Minute, AtLeast: .95, FailureLimit: 3}
}

// Phase of an AnalysisRun.
type Phase string

// The phases in which a run ends.
const (
	Successful Phase = "Successful"
	Failed     Phase = "Failed"
)

// Run takes the measurements until the analysis ends. A result that is not a number does not meet the condition.
func (m Metric) Run(measure func(at time.Duration) float64) (end Phase, at time.Duration) {
	failed, taken := 0, 0
	for at = m.Start; at < m.End; at += m.Interval {
		taken++
		if !(measure(at) >= m.AtLeast) { // also for NaN
			failed++
		}
		switch {
		case failed > m.FailureLimit:
			return Failed, at
		case m.Count > 0 && taken >= m.Count:
			return Successful, at
		}
	}
	return Successful, m.End
}
