// Package verdict names what a gate can say of a canary, and why.
//
// Its invariant: there is one word for each. A judgement, the status of a run, a metric, an
// event and an answer over HTTP are views of the same verdict, and none of them has another
// spelling. It imports the standard library only.
package verdict

import (
	"slices"
	"strings"
)

// Verdict on a canary.
type Verdict string

// The verdicts.
const (
	// Running is none yet.
	Running Verdict = "Running"
	Pass    Verdict = "Pass"
	Warn    Verdict = "Warn"
	Fail    Verdict = "Fail"
	// Inconclusive: too little was seen in time to say either.
	Inconclusive Verdict = "Inconclusive"
	// Error: nothing could be judged.
	Error Verdict = "Error"
	// Superseded: what was judged is not in force any more. Nothing went wrong.
	Superseded Verdict = "Superseded"
)

// All are the verdicts, in the order in which they are documented.
func All() []Verdict {
	return []Verdict{Running, Pass, Warn, Fail, Inconclusive, Superseded, Error}
}

// Known says whether it is one of them.
func (v Verdict) Known() bool { return slices.Contains(All(), v) }

// Passes says whether a rollout may go on.
func (v Verdict) Passes() bool { return v == Pass || v == Warn }

// Final says whether judging once more would say the same: what was found is found, and
// what is not in force any more does not come back.
func (v Verdict) Final() bool { return v.Passes() || v == Fail || v == Superseded }

// List names verdicts for a person, with commas.
func List(of []Verdict) string {
	names := make([]string, len(of))
	for i, v := range of {
		names[i] = string(v)
	}
	return strings.Join(names, ", ")
}
