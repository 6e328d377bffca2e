// SPDX-License-Identifier: Apache-2.0

package customrun

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"knative.dev/pkg/apis"

	"github.com/knative-cdevents/knative-cdevents/api/plural"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// Reasons of the condition Succeeded. PipelineRuns compare two of them verbatim.
//
//reasons:table CustomRun/Succeeded
const (
	// Running: the gate judges. The message says what it waits for.
	Running = "Running"
	// Retrying: an attempt ended without a clear verdict, and the next one has begun.
	Retrying = "Retrying"
	// Cancelled: the CustomRun was cancelled, as by its PipelineRun.
	Cancelled = "CustomRunCancelled"
	// TimedOut: the CustomRun took longer than its timeout. Give it more time, or the canary more traffic.
	TimedOut = "CustomRunTimedOut"
	// GatePassed: the verdict is Pass.
	GatePassed = "GatePassed"
	// GatePassedWarns: the verdict is Warn. Read the message before you go on.
	GatePassedWarns = "GatePassedWithWarning"
	// GateFailed: the verdict is Fail. The message says which metric failed.
	GateFailed = "GateFailed"
	// GateUndecided: the verdict is Inconclusive. The message says what was missing.
	GateUndecided = "GateInconclusive"
	// GateError: the verdict is Error: the canary could not be judged. Do what the message says.
	GateError = "GateError"
	// GateSuperseded: the verdict is Superseded: what was judged is no longer in force. Judge the new split.
	GateSuperseded = "GateSuperseded"
	// GateDryRun: the gate is a dry run, so the CustomRun succeeds. The result verdict says what it found.
	GateDryRun = "GateDryRun"
)

const cancelled = "RunCancelled"

// defaultTimeout is Tekton's default for a CustomRun without a timeout.
const defaultTimeout = time.Hour

// Cancelled reports whether the CustomRun is cancelled.
func (r *Run) Cancelled() bool { return r.Spec.Status == cancelled }

// Limit is the timeout of one attempt; 0 means none.
func (r *Run) Limit() time.Duration {
	if r.Spec.Timeout == nil {
		return defaultTimeout
	}
	return r.Spec.Timeout.Duration
}

// TimedOut reports whether the attempt exceeds its timeout.
func (r *Run) TimedOut(now time.Time) bool {
	limit := r.Limit()
	return limit > 0 && !r.Status.StartTime.IsZero() && now.Sub(r.Status.StartTime.Time) > limit
}

// Attempt is the number of the current attempt, from 0.
func (r *Run) Attempt() int { return len(r.Status.RetriesStatus) + r.Status.leftOut() }

// leftOut returns how many older attempts the status no longer contains.
func (s *Status) leftOut() int {
	n, err := strconv.Atoi(s.Annotations[LeftOut])
	if err != nil {
		return 0
	}
	return max(0, n)
}

// Proceed records the state of the judgement. If that is final, it ends the attempt.
func (r *Run) Proceed(run *v1alpha1.GateRun, spec *v1alpha1.CanaryGateSpec, now time.Time) error {
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
	return r.end(run, ending{status, reason, message, failed && again(run.Verdict)}, now)
}

// again reports whether a verdict allows a retry. A clear verdict is final: retries until
// a pass would let every canary pass.
func again(v verdict.Verdict) bool {
	return v == verdict.Inconclusive || v == verdict.Error
}

// outcome maps a verdict to the condition. By default, only a known good canary
// succeeds.
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

// Refuse ends a CustomRun with an invalid request. It is not retried.
func (r *Run) Refuse(run *v1alpha1.GateRun, p *Problem, now time.Time) error {
	return r.end(run, ending{corev1.ConditionFalse, p.Reason, p.Message, false}, now)
}

// Cancel ends a cancelled run; message says why.
func (r *Run) Cancel(run *v1alpha1.GateRun, now time.Time) error {
	message := r.Spec.Message
	if message == "" {
		message = "CustomRun was cancelled"
	}
	return r.end(run, ending{corev1.ConditionFalse, Cancelled, message, false}, now)
}

// Expire ends an attempt that exceeds its timeout.
func (r *Run) Expire(run *v1alpha1.GateRun, now time.Time) error {
	return r.end(run, ending{corev1.ConditionFalse, TimedOut, run.Message, true}, now)
}

// ending is how an attempt ends.
type ending struct {
	status          corev1.ConditionStatus
	reason, message string
	// retry says that another attempt may help.
	retry bool
}

// end sets the results and the completion in one step. If a retry is left and may help,
// it starts another attempt.
func (r *Run) end(run *v1alpha1.GateRun, e ending, now time.Time) error {
	at := metav1.NewTime(now)
	if r.Status.StartTime.IsZero() {
		r.Status.StartTime = &at
	}
	r.Status.Results = results(run)
	if err := r.Status.keep(run); err != nil {
		return err
	}
	r.condition(e.status, e.reason, e.message, now)
	r.Status.CompletionTime = &at
	if e.retry && r.Attempt() < r.Spec.Retries {
		r.retry(e.message, now)
	}
	return nil
}

// retry archives the completed attempt and starts another one.
func (r *Run) retry(message string, now time.Time) {
	at := metav1.NewTime(now)
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
		again += fmt.Sprintf(" (the status shows the last %d attempts; %s omitted)", len(all),
			plural.Of(left, "earlier one is", "earlier ones are"))
	}
	r.condition(corev1.ConditionUnknown, Retrying, again, now)
}

// keptReports is how many attempts keep their results and messages, and keptTries how many
// are kept at all. A status that exceeds the size limit of an object cannot be written, and
// its run would never end.
const (
	keptReports = 5
	keptTries   = 100
)

// LeftOut is the status annotation with the number of attempts that the status no longer
// contains. They still count as attempts.
const LeftOut = v1alpha1.GroupName + "/tries-left-out"

// condition sets Succeeded, the only condition.
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

// results are strings. None is a JSON list, which Tekton would pass on as an array, and
// none is omitted, because a task that reads a missing result fails.
func results(run *v1alpha1.GateRun) []Result {
	baseline := ""
	if run.Baseline != nil {
		baseline = run.Baseline.Name
	}
	last := verdict.Judgement{}
	if run.Report != nil {
		last = *run.Report
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
		{"canary-requests", strconv.FormatInt(last.Canary.Requests, 10)},
		{"baseline-requests", strconv.FormatInt(last.Baseline.Requests, 10)},
		{"handled-share", share},
		{"report", report(run.Report)},
	}
}

// maxReport is the size that Tekton's users expect of a result at most, in bytes.
const maxReport = 4 << 10

// report returns a JSON object. If it is too large, extraFields contains the full report.
func report(j *verdict.Judgement) string {
	raw, err := json.Marshal(j)
	switch {
	case j == nil || err != nil: // a stored judgement has a JSON form
		return "{}"
	case len(raw) > maxReport:
		return `{"see":"status.extraFields.report"}`
	}
	return string(raw)
}

func decimal(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
