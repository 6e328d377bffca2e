package web

import (
	"fmt"
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
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
	Verdict string   `json:"verdict"`
	Reasons []string `json:"reasons"`
	Message string   `json:"message,omitempty"`
	// WouldBe is the verdict of a dry run.
	WouldBe string `json:"wouldBe,omitempty"`
	Gate    string `json:"gate"`
	Service string `json:"service"`
	// Run is the last one, whatever it was about.
	Run *Run `json:"run,omitempty"`
	// Report holds its numbers.
	Report *runtime.RawExtension `json:"report,omitempty"`
}

// Run is what it was about.
type Run struct {
	ID             string           `json:"id"`
	Verdict        string           `json:"verdict"`
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
		a.WouldBe, a.Verdict = a.Verdict, v1alpha1.VerdictPass
	}
	return a
}

// judge says whether the last run's verdict is on what is in force.
func (a *Answer) judge(gate *v1alpha1.CanaryGate, now *gaterun.Service, unsplit bool) {
	run := gate.Status.Run
	without := func(reason, message string) {
		a.Verdict, a.Reasons, a.Message = v1alpha1.VerdictRunning, []string{reason}, message
	}
	switch {
	case now == nil:
		without(TrafficUnknown, "the traffic of Service "+gate.Spec.Service+" is not known, or is just being changed")
	case !now.Divided():
		without(NoSplit, "all traffic goes to one Revision, so that there is nothing to judge; whoever asks before the first step adds ?unsplit=pass")
		if unsplit {
			a.Verdict = v1alpha1.VerdictPass
		}
	case run == nil:
		without(NoRun, "the gate has not begun to judge the split of the traffic")
	case run.Service.Name != gate.Spec.Service || !now.JudgedBy(run):
		without(NewSplit, "the last run judged another split of the traffic than the one in force")
	default:
		a.Verdict, a.Message = run.Verdict, run.Message
		a.Reasons = append(a.Reasons, run.Reasons...)
		if !slices.Contains(verdicts, run.Verdict) {
			a.Verdict, a.Message = v1alpha1.VerdictError, fmt.Sprintf("the run's verdict is %q, which is none", run.Verdict)
		}
	}
}

var verdicts = []string{
	v1alpha1.VerdictRunning, v1alpha1.VerdictPass, v1alpha1.VerdictWarn, v1alpha1.VerdictFail, v1alpha1.VerdictInconclusive, v1alpha1.VerdictSuperseded,
	v1alpha1.VerdictError,
}

// status is what those are told who read nothing else. Flagger takes 200 for yes, and
// asks again at its next interval otherwise; it repeats a 5xx at once.
func (a Answer) status() int {
	switch a.Verdict {
	case v1alpha1.VerdictPass, v1alpha1.VerdictWarn:
		return http.StatusOK
	case v1alpha1.VerdictFail:
		return http.StatusConflict
	case v1alpha1.VerdictRunning, v1alpha1.VerdictInconclusive, v1alpha1.VerdictSuperseded:
		return http.StatusTooEarly
	}
	return http.StatusServiceUnavailable
}
