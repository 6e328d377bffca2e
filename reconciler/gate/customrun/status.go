package customrun

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"knative.dev/pkg/apis"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/canary/judge"
)

// Reasons of the condition Succeeded. Two are compared by PipelineRuns as they stand.
const (
	Running         = "Running"
	Retrying        = "Retrying"
	Cancelled       = "CustomRunCancelled"
	TimedOut        = "CustomRunTimedOut"
	GatePassed      = "GatePassed"
	GatePassedWarns = "GatePassedWithWarning"
	GateFailed      = "GateFailed"
	GateUndecided   = "GateInconclusive"
	GateError       = "GateError"
	GateSuperseded  = "GateSuperseded"
	GateDryRun      = "GateDryRun"
)

const cancelled = "RunCancelled"

// defaultTimeout is Tekton's for a CustomRun that says nothing.
const defaultTimeout = time.Hour

// Cancelled says whether somebody wants it to end.
func (r *Run) Cancelled() bool { return r.Spec.Status == cancelled }

// Limit is how long one try may take; 0 is for ever.
func (r *Run) Limit() time.Duration {
	if r.Spec.Timeout == nil {
		return defaultTimeout
	}
	return r.Spec.Timeout.Duration
}

// TimedOut says whether it has taken longer.
func (r *Run) TimedOut(now time.Time) bool {
	limit := r.Limit()
	return limit > 0 && !r.Status.StartTime.IsZero() && now.Sub(r.Status.StartTime.Time) > limit
}

// Attempt that is under way, from 0.
func (r *Run) Attempt() int { return len(r.Status.RetriesStatus) + r.Status.leftOut() }

// leftOut is how many tries were made before those that the status still holds.
func (s *Status) leftOut() int {
	n, err := strconv.Atoi(s.Annotations[LeftOut])
	if err != nil {
		return 0
	}
	return max(0, n)
}

// Proceed takes how the judgement stands; of one that is over, the end.
func (r *Run) Proceed(run *v1alpha1.GateRun, spec *v1alpha1.CanaryGateSpec, last judge.Judgement, now time.Time) error {
	if r.Status.StartTime.IsZero() {
		at := metav1.NewTime(now)
		r.Status.StartTime = &at
	}
	if run.CompletionTime == nil {
		reason := Running
		if r.Attempt() > 0 && run.Evidence == nil {
			reason = Retrying
		}
		r.condition(corev1.ConditionUnknown, reason, run.Message, now)
		return r.Status.keep(run)
	}
	status, reason := outcome(run.Verdict, spec)
	failed := status == corev1.ConditionFalse
	message := run.Message
	if failed && !again(run.Verdict) && r.Attempt() < r.Spec.Retries {
		message += fmt.Sprintf("; the verdict %s is final, so the remaining retries are not used", run.Verdict)
	}
	return r.end(run, last, status, reason, message, failed && again(run.Verdict), now)
}

// again says whether another try may be made after a verdict. What was found out stays
// found out: whoever judges until it passes lets every canary pass.
func again(v verdict.Verdict) bool {
	return v == verdict.Inconclusive || v == verdict.Error
}

// outcome of a verdict. What is not known to be good is not.
func outcome(v verdict.Verdict, spec *v1alpha1.CanaryGateSpec) (corev1.ConditionStatus, string) {
	status := corev1.ConditionFalse
	if len(spec.FailOn) > 0 && !slices.Contains(spec.FailOn, v) {
		status = corev1.ConditionTrue
	}
	if spec.DryRun {
		return corev1.ConditionTrue, GateDryRun
	}
	switch v {
	case verdict.Pass:
		return status, GatePassed
	case verdict.Warn:
		return status, GatePassedWarns
	case verdict.Fail:
		return status, GateFailed
	case verdict.Inconclusive:
		return status, GateUndecided
	case verdict.Error:
		return status, GateError
	case verdict.Superseded:
		return corev1.ConditionFalse, GateSuperseded
	}
	return corev1.ConditionFalse, GateError
}

// Refuse ends a run that asks for what cannot be. It is not tried again.
func (r *Run) Refuse(run *v1alpha1.GateRun, p *Problem, now time.Time) error {
	return r.end(run, judge.Judgement{}, corev1.ConditionFalse, p.Reason, p.Message, false, now)
}

// Cancel ends a run as somebody wants it; message is why.
func (r *Run) Cancel(run *v1alpha1.GateRun, last judge.Judgement, now time.Time) error {
	message := r.Spec.Message
	if message == "" {
		message = "CustomRun was cancelled"
	}
	return r.end(run, last, corev1.ConditionFalse, Cancelled, message, false, now)
}

// Expire ends a try that took longer than it may.
func (r *Run) Expire(run *v1alpha1.GateRun, last judge.Judgement, now time.Time) error {
	return r.end(run, last, corev1.ConditionFalse, TimedOut, run.Message, true, now)
}

// end writes results and end together. If there are retries left and one may help,
// the try is put with the others, and the run is as if it had not started.
func (r *Run) end(run *v1alpha1.GateRun, last judge.Judgement, status corev1.ConditionStatus, reason, message string, retry bool, now time.Time) error {
	at := metav1.NewTime(now)
	if r.Status.StartTime.IsZero() {
		r.Status.StartTime = &at
	}
	r.Status.Results = results(run, last)
	if err := r.Status.keep(run); err != nil {
		return err
	}
	r.condition(status, reason, message, now)
	r.Status.CompletionTime = &at
	if !retry || r.Attempt() >= r.Spec.Retries {
		return nil
	}
	tried := *r.Status.DeepCopy()
	tried.RetriesStatus, tried.Annotations = nil, nil
	all, left := append(r.Status.RetriesStatus, tried), r.Status.leftOut()
	if more := len(all) - keptTries; more > 0 {
		all, left = slices.Clone(all[more:]), left+more
	}
	for i := range all[:max(0, len(all)-keptReports)] {
		all[i].ExtraFields, all[i].Results = nil, nil
		for j := range all[i].Conditions {
			all[i].Conditions[j].Message = ""
		}
	}
	r.Status = Status{StartTime: &at, RetriesStatus: all, ExtraFields: r.Status.ExtraFields}
	again := "Retrying: " + message
	if left > 0 {
		r.Status.Annotations = map[string]string{LeftOut: strconv.Itoa(left)}
		again += fmt.Sprintf(" (the status shows the last %d attempts; %d earlier ones are omitted)", len(all), left)
	}
	r.condition(corev1.ConditionUnknown, Retrying, again, now)
	return nil
}

// keptReports is how many tries keep their numbers and words, and keptTries how many are
// kept at all: a status that outgrows an object can never be written again, and such a
// run would never end.
const (
	keptReports = 5
	keptTries   = 100
)

// LeftOut is the annotation in a status that says how many tries it does not hold any
// more. They count all the same.
const LeftOut = v1alpha1.GroupName + "/tries-left-out"

// condition sets Succeeded, the only one.
func (r *Run) condition(status corev1.ConditionStatus, reason, message string, now time.Time) {
	c := apis.Condition{
		Type: apis.ConditionSucceeded, Status: status, Reason: reason, Message: message,
		LastTransitionTime: apis.VolatileTime{Inner: metav1.NewTime(now)},
	}
	if was := r.Status.GetCondition(apis.ConditionSucceeded); was != nil && was.Status == status {
		c.LastTransitionTime = was.LastTransitionTime
	}
	r.Status.ObservedGeneration = r.Generation
	r.Status.SetConditions(apis.Conditions{c})
}

// results are strings. None is a list in JSON, which Tekton would pass on as one, and
// none is missing, which would make whoever reads it fail.
func results(run *v1alpha1.GateRun, last judge.Judgement) []Result {
	baseline := ""
	if run.Baseline != nil {
		baseline = run.Baseline.Name
	}
	share := ""
	if last.HandledShare != nil {
		share = decimal(*last.HandledShare)
	}
	return []Result{
		{"verdict", string(run.Verdict)},
		{"score", decimal(last.Score)},
		{"coverage", decimal(last.Coverage)},
		{"reasons", strings.Join(run.Reasons, ",")},
		{"canary-revision", run.Canary.Name},
		{"baseline-revision", baseline},
		{"canary-requests", decimal(last.Canary.Requests)},
		{"handled-share", share},
		{"report", report(run)},
	}
}

// maxReport is what Tekton's users expect a result to have at most, in bytes.
const maxReport = 4 << 10

// report is an object in JSON; of one that is too large, the whole is in extraFields.
func report(run *v1alpha1.GateRun) string {
	switch {
	case run.Report == nil || len(run.Report.Raw) == 0:
		return "{}"
	case len(run.Report.Raw) > maxReport:
		return `{"see":"status.extraFields.report"}`
	}
	return string(run.Report.Raw)
}

func decimal(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
