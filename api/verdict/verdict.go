// SPDX-License-Identifier: Apache-2.0

// Package verdict defines the verdicts of gates, and their reasons.
//
// Its invariant: there is one word for each. A judgement, the status of a run, a metric, an event
// and an HTTP response are views of the same verdict, with the same spelling. It imports the
// standard library only.
package verdict

import (
	"slices"
	"strings"
)

// Verdict is a verdict on a canary.
type Verdict string

// The verdicts.
const (
	// Running: there is no verdict yet.
	Running Verdict = "Running"
	Pass    Verdict = "Pass"
	Warn    Verdict = "Warn"
	Fail    Verdict = "Fail"
	// Inconclusive: there was too little data to decide in time.
	Inconclusive Verdict = "Inconclusive"
	// Error: the canary could not be judged.
	Error Verdict = "Error"
	// Superseded: the judged rollout is no longer in force. This is not an error.
	Superseded Verdict = "Superseded"
)

// All returns the verdicts in the order of the documentation.
func All() []Verdict {
	return []Verdict{Running, Pass, Warn, Fail, Inconclusive, Superseded, Error}
}

// Known reports whether v is one of them.
func (v Verdict) Known() bool { return slices.Contains(All(), v) }

// Passes reports whether a rollout may continue.
func (v Verdict) Passes() bool { return v == Pass || v == Warn }

// Final reports whether judging again would give the same result: data does not change, and a
// superseded rollout does not come back.
func (v Verdict) Final() bool { return v.Passes() || v == Fail || v == Superseded }

// List returns verdicts for people, separated by commas.
func List(of []Verdict) string {
	names := make([]string, len(of))
	for i, v := range of {
		names[i] = string(v)
	}
	return strings.Join(names, ", ")
}
