package web

import (
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/canary/gaterun"
)

// The reasons why there is no verdict on what is in force, beside those of the judge.
const (
	// NoRun: the gate has not seen a split yet.
	NoRun = "NoRun"
	// NewSplit: the last run was about another split, and the next has not begun.
	NewSplit = "NewSplit"
	// NoSplit: all traffic goes to one Revision.
	NoSplit = "NoSplit"
	// TrafficUnknown: the Service is not known, or its Route is being changed.
	TrafficUnknown = "TrafficUnknown"
)

// Answer is the body of what is answered about a gate.
type Answer struct {
	// Verdict on the split that is in force: Running as long as there is none. In a
	// dry run it is Pass.
	Verdict verdict.Verdict `json:"verdict"`
	Reasons []string        `json:"reasons"`
	Message string          `json:"message,omitempty"`
	// WouldBe is the verdict of a dry run.
	WouldBe verdict.Verdict `json:"wouldBe,omitempty"`
	Gate    string          `json:"gate"`
	Service string          `json:"service"`
	// Run is the last one, whatever it was about.
	Run *Run `json:"run,omitempty"`
	// Report holds its numbers.
	Report *runtime.RawExtension `json:"report,omitempty"`
}

// Run is what it was about.
type Run struct {
	ID             string           `json:"id"`
	Verdict        verdict.Verdict  `json:"verdict"`
	Canary         string           `json:"canary"`
	Baseline       string           `json:"baseline,omitempty"`
	Split          map[string]int64 `json:"split,omitempty"`
	StartTime      metav1.Time      `json:"startTime"`
	Deadline       metav1.Time      `json:"deadline"`
	CompletionTime *metav1.Time     `json:"completionTime,omitempty"`
}

// answer for the traffic that is in force, nil if that is not known. With unsplit, there
// is nothing to wait for where nothing is split.
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

// judge says whether the last run's verdict is on what is in force.
func (a *Answer) judge(gate *v1alpha1.CanaryGate, now *gaterun.Service, unsplit bool) {
	run := gate.Status.Run
	without := func(reason, message string) {
		a.Verdict, a.Reasons, a.Message = verdict.Running, []string{reason}, message
	}
	switch {
	case now == nil:
		without(TrafficUnknown, "the traffic of Service "+gate.Spec.Service+" is not known, or is being changed")
	case !now.Divided():
		without(NoSplit, "all traffic goes to one Revision, so there is nothing to judge; to ask before the first step, add ?unsplit=pass")
		if unsplit {
			a.Verdict = verdict.Pass
		}
	case run == nil:
		without(NoRun, "the gate has not started a run for the current split of the traffic yet")
	case run.Service.Name != gate.Spec.Service || !now.JudgedBy(run):
		without(NewSplit, "the last run judged another split of the traffic than the current one")
	default:
		a.Verdict, a.Message = run.Verdict, run.Message
		a.Reasons = append(a.Reasons, run.Reasons...)
		if !run.Verdict.Known() {
			a.Verdict, a.Message = verdict.Error, fmt.Sprintf("the run's verdict is %q, which is not a known verdict", run.Verdict)
		}
	}
}

// status is what those are told who read nothing else. Flagger takes 200 for yes, and
// asks again at its next interval otherwise; it repeats a 5xx at once.
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
