// SPDX-License-Identifier: Apache-2.0

package gaterun

import (
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/sanitize"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// Supersede ends a run whose split is no longer in effect. That is not an error, and the evidence so
// far gives no verdict.
func (r *Run) Supersede(now time.Time, reason, why string) {
	r.End(now, verdict.Superseded, "The run was superseded: "+why, reason)
	r.GateRun.SplitEndTime = r.GateRun.CompletionTime
}

// Fail ends a run that cannot continue.
func (r *Run) Fail(now time.Time, err error) {
	reason := EvidenceUnreadable
	if p, ok := err.(*ProblemError); ok { //nolint:errorlint // ours are never wrapped
		reason = p.Reason
	}
	r.End(now, verdict.Error, "The run cannot continue: "+err.Error(), reason)
}

// expire ends an undecided run at its deadline.
func (r *Run) expire(now time.Time) {
	if r.evidence == nil {
		r.End(now, verdict.Inconclusive, "Nothing was measured before the deadline: "+r.GateRun.Message,
			string(verdict.NoData), string(verdict.Timeout))
		return
	}
	r.End(now, verdict.Inconclusive, "Undecided at the deadline: "+r.progress(r.Last()),
		append(r.undecided(r.Last()), string(verdict.Timeout))...)
}

// undecided returns why there is no verdict. Missing measurements come before the lack
// of requests.
func (r *Run) undecided(j verdict.Judgement) []string {
	out := append([]string{r.evidence.QueryLacks}, reasons(j)...)
	if r.evidence.Lacking != "" {
		out = append([]string{string(verdict.NoData), r.evidence.Lacking}, out...)
	}
	return out // the caller leaves out what is empty
}

// End completes the run. Of the evidence, it leaves what both sides did.
func (r *Run) End(now time.Time, v verdict.Verdict, message string, why ...string) {
	if r.Done() {
		return
	}
	at := toSeconds(now)
	left, err := r.left()
	if err != nil {
		left, message = nil, message+" ("+err.Error()+")"
	}
	r.GateRun.CompletionTime, r.GateRun.WaitingSince, r.GateRun.PlacedSince, r.GateRun.Evidence = &at, nil, nil, left
	r.GateRun.Verdict, r.GateRun.Reasons, r.GateRun.Message = v, distinct(why), sanitize.Truncate(message, maxMessage)
	if r.Spec.DryRun {
		r.GateRun.Reasons = distinct(append(r.GateRun.Reasons, string(verdict.DryRun)))
	}
}

// save stores the evidence in the GateRun. If it cannot, the run fails.
func (r *Run) save(now time.Time) {
	var err error
	if r.GateRun.Evidence, err = pack(r.evidence); err != nil {
		r.evidence = nil
		r.Fail(now, err)
	}
}

// report stores the latest judgement. The GateRun keeps the previous one if JSON cannot express a figure,
// because a status with such a figure cannot be written.
func (r *Run) report(j verdict.Judgement) {
	if j.Finite() {
		r.GateRun.Report = j.DeepCopy()
	}
}

// Last is the latest judgement; its verdict is empty before the first one.
func (r *Run) Last() verdict.Judgement { return deref(r.GateRun.Report) }
