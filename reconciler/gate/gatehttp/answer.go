// SPDX-License-Identifier: Apache-2.0

package gatehttp

import (
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/canary/gaterun"
	"github.com/knative-cdevents/knative-cdevents/reconciler/gate/customrun"
)

// Reasons for the lack of a verdict on the current split, in addition to those of a run, and to what is wrong with a
// gate: NoSplit, TrafficUnknown, RevisionNotInSplit, SameRevision, GateSuspended, InvalidSpec and those of its
// template.
//
//reasons:table HTTP/Answer
const (
	// NoRun: the gate has not started a run yet. Ask again.
	NoRun = "NoRun"
	// NewSplit: the last run judged something else, and the next run has not started. Ask again.
	NewSplit = "NewSplit"
)

// Answer is the body of a response about a gate.
type Answer struct {
	// Verdict on the current split: Running until there is one. In a dry run it is
	// Pass.
	Verdict verdict.Verdict `json:"verdict"`
	Reasons []string        `json:"reasons"`
	Message string          `json:"message,omitempty"`
	// WouldBe is the verdict that a dry run does not enforce.
	WouldBe verdict.Verdict `json:"wouldBe,omitempty"`
	Gate    string          `json:"gate"`
	Service string          `json:"service"`
	// Run is the last run, even if it judged another split.
	Run *Run `json:"run,omitempty"`
	// Report contains the figures of the run.
	Report *verdict.Judgement `json:"report,omitempty"`
}

// Run identifies a run and what it compares.
type Run struct {
	ID             string               `json:"id"`
	Verdict        verdict.Verdict      `json:"verdict"`
	Canary         string               `json:"canary"`
	Baseline       string               `json:"baseline,omitempty"`
	Split          []v1alpha1.GateShare `json:"split,omitempty"`
	StartTime      metav1.Time          `json:"startTime"`
	Deadline       metav1.Time          `json:"deadline"`
	CompletionTime *metav1.Time         `json:"completionTime,omitempty"`
}

// answer returns the answer for the current traffic; now is nil if that is unknown. With
// unsplit, a Service without a split passes.
func answer(gate *v1alpha1.CanaryGate, now *gaterun.Service, unsplit bool) Answer {
	a := Answer{Gate: gate.Namespace + "/" + gate.Name, Service: gate.Spec.Service, Reasons: []string{}}
	if run := gate.Status.Run; run != nil {
		a.Run = &Run{
			ID: run.ID, Verdict: run.Verdict, Canary: run.Canary.Name, Split: run.Split,
			StartTime: run.StartTime, Deadline: run.Deadline, CompletionTime: run.CompletionTime,
		}
		if run.Baseline != nil {
			a.Run.Baseline = run.Baseline.Name
		}
		a.Report = run.Report
	}
	a.judge(gate, now, unsplit)
	if gate.Spec.DryRun {
		a.WouldBe, a.Verdict = a.Verdict, verdict.Pass
	}
	return a
}

// judge sets the verdict if the last run stands for the current split.
func (a *Answer) judge(gate *v1alpha1.CanaryGate, now *gaterun.Service, unsplit bool) {
	run, wrong := gate.Status.Run, gate.Status.Obstacle()
	pair, problem := gaterun.Choose(gate.Spec.Service, now, gate.Spec.Canary, gate.Spec.Baseline)
	judged := problem == nil && run != nil && run.Service.Name == gate.Spec.Service && now.JudgedBy(run, pair)
	without := func(reason, message string) {
		a.Verdict, a.Reasons, a.Message = verdict.Running, []string{reason}, message
	}
	switch {
	case now == nil:
		without(gaterun.TrafficUnknown, "the traffic of Service "+gate.Spec.Service+" is not known, or is being changed")
	case !now.Divided():
		without(gaterun.NoSplit,
			"all traffic goes to one Revision, so there is nothing to judge; to ask before the first step, add ?unsplit=pass")
		if unsplit {
			a.Verdict = verdict.Pass
		}
	case judged:
		a.Verdict, a.Message = run.Verdict, run.Message
		a.Reasons = append(a.Reasons, run.Reasons...)
		if !run.Verdict.Known() {
			a.Verdict, a.Message = verdict.Error, fmt.Sprintf("the run's verdict is %q, which is not a known verdict",
				run.Verdict)
		}
	case gate.Spec.Suspend:
		without(customrun.GateSuspended, "the gate is suspended, so it starts no run for the current split of the traffic")
	case wrong != nil:
		without(wrong.Reason, wrong.Message)
	case problem != nil:
		without(problem.Reason, problem.Message)
	case run == nil:
		without(NoRun, "the gate has not started a run for the current split of the traffic yet")
	default:
		without(NewSplit, "the last run judged another split of the traffic than the current one, or other Revisions")
	}
}

// status is the answer for clients that read only the status. Flagger takes 200 as yes
// and otherwise asks again at its next interval, but it retries a 5xx at once.
func (a Answer) status() int {
	switch a.Verdict {
	case verdict.Pass, verdict.Warn:
		return http.StatusOK
	case verdict.Fail:
		return http.StatusConflict
	case verdict.Running, verdict.Inconclusive, verdict.Superseded:
		return http.StatusTooEarly
	}
	return http.StatusServiceUnavailable
}
