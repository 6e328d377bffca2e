// SPDX-License-Identifier: Apache-2.0

package gaterun

import (
	"encoding/json"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/knative-cdevents/knative-cdevents/api/text"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/canary/judge"
)

// Supersede ends a run whose split is no longer in effect. That is not an error, and the evidence so
// far gives no verdict.
func (r *Run) Supersede(now time.Time, reason, why string) {
	r.End(now, verdict.Superseded, "The run was superseded: "+why, reason)
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
		r.End(now, verdict.Inconclusive, "Nothing was measured before the deadline: "+r.GateRun.Message, string(verdict.NoData), string(verdict.Timeout))
		return
	}
	r.End(now, verdict.Inconclusive, "Undecided at the deadline: "+r.progress(r.last), append(r.undecided(r.last), string(verdict.Timeout))...)
}

// undecided returns why there is no verdict. Missing measurements come before the lack
// of requests.
func (r *Run) undecided(j judge.Judgement) []string {
	out := append([]string{r.evidence.QueryLacks}, reasons(j)...)
	if r.evidence.Lacking != "" {
		out = append([]string{string(verdict.NoData), r.evidence.Lacking}, out...)
	}
	return out // the caller leaves out what is empty
}

// End completes the run. It keeps the report, and drops the evidence, which only a run
// that continues needs.
func (r *Run) End(now time.Time, v verdict.Verdict, message string, why ...string) {
	if r.Done() {
		return
	}
	if r.evidence != nil {
		r.saveReport()
	}
	at := toSeconds(now)
	r.GateRun.CompletionTime, r.GateRun.WaitingSince, r.GateRun.PlacedSince, r.GateRun.Evidence = &at, nil, nil, nil
	r.GateRun.Verdict, r.GateRun.Reasons, r.GateRun.Message = v, distinct(why), text.Truncate(message, maxMessage)
	if r.Spec.DryRun {
		r.GateRun.Reasons = distinct(append(r.GateRun.Reasons, string(verdict.DryRun)))
	}
}

// save stores report and evidence in the GateRun. If it cannot, the run fails.
func (r *Run) save(now time.Time) {
	r.saveReport()
	var err error
	if r.GateRun.Evidence, err = pack(r.evidence); err != nil {
		r.evidence = nil
		r.Fail(now, err)
	}
}

// saveReport stores the latest judgement. If it cannot, the GateRun keeps the previous one.
func (r *Run) saveReport() {
	if report, err := json.Marshal(r.last); err == nil {
		r.GateRun.Report = &runtime.RawExtension{Raw: report}
	}
}
