// SPDX-License-Identifier: Apache-2.0

package gaterun

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// Run is one run of a gate. All of its state is in GateRun.
type Run struct {
	Namespace string
	GateRun   *v1alpha1.GateRun
	Spec      *v1alpha1.CanaryGateSpec

	// Quiet is until when nothing has happened since the last window, as far as its process knows. It is not stored.
	Quiet time.Time

	evidence *evidence
}

// Opening describes a new run.
type Opening struct {
	Namespace string
	// ID is unique among all runs.
	ID   string
	Spec *v1alpha1.CanaryGateSpec
	// Template is what the spec has from a template; nil if the gate refers to none.
	Template *v1alpha1.GateTemplateUse
	Start    time.Time
	// Limit is how long the caller waits for the verdict; 0 means without limit.
	Limit time.Duration
}

// Open starts a run. It sets the defaults of the spec and freezes it.
func Open(ctx context.Context, o Opening) (*Run, error) {
	spec := o.Spec.DeepCopy()
	given := spec.Schedule != nil && spec.Schedule.Warmup != nil
	spec.SetDefaults(ctx)
	if !given {
		// As for a timeout of the gate's own: a short run must have time to judge.
		spec.Schedule.Warmup.Duration = min(spec.Schedule.Warmup.Duration, timeout(spec, o.Limit)/10)
	}
	raw, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("writing the gate's spec: %w", err)
	}
	return &Run{Namespace: o.Namespace, Spec: spec, GateRun: &v1alpha1.GateRun{
		ID:        o.ID,
		Service:   v1alpha1.GateObject{Name: spec.Service},
		Spec:      &runtime.RawExtension{Raw: raw},
		Effective: effective(spec, o.Template, timeout(spec, o.Limit)),
		StartTime: toSeconds(o.Start),
		Deadline:  toSeconds(o.Start.Add(timeout(spec, o.Limit))),
		Verdict:   verdict.Running,
		Message:   "The run has just started",
	}}, nil
}

// effective is what a run with all defaults takes. It has all metrics until it is known whether the Service has shards.
func effective(
	spec *v1alpha1.CanaryGateSpec,
	template *v1alpha1.GateTemplateUse,
	timeout time.Duration,
) *v1alpha1.GateEffective {
	out := &v1alpha1.GateEffective{
		Template: template.DeepCopy(), GatePolicy: *spec.GatePolicy.DeepCopy(), DryRun: spec.DryRun,
	}
	out.Schedule.Timeout = &v1alpha1.Duration{Duration: timeout}
	return out
}

// toSeconds rounds a time to the precision that its JSON keeps.
func toSeconds(t time.Time) metav1.Time {
	at := metav1.NewTime(t)
	return at.Rfc3339Copy()
}

// timeout of a run. It ends two intervals before the caller's limit, so the caller still receives the
// verdict.
func timeout(spec *v1alpha1.CanaryGateSpec, limit time.Duration) time.Duration {
	own := duration(spec.Schedule.Timeout)
	if limit <= 0 {
		return own
	}
	less := limit - 2*duration(spec.Schedule.Interval)
	if less <= 0 {
		less = limit / 2
	}
	return min(own, less)
}

// Resume continues a stored run. The Run that it returns is never nil: if there is an
// error, Fail can still end it.
func Resume(ctx context.Context, namespace string, stored *v1alpha1.GateRun) (*Run, error) {
	r := &Run{Namespace: namespace, GateRun: stored.DeepCopy()}
	if err := r.readSpec(ctx); err != nil {
		r.Spec = &v1alpha1.CanaryGateSpec{}
		r.Spec.SetDefaults(ctx)
		return r, err
	}
	return r, recovering(r.readEvidence)
}

func (r *Run) readSpec(ctx context.Context) error {
	if r.GateRun.Spec == nil {
		return problem(EvidenceUnreadable, "the spec that the run began with is missing")
	}
	r.Spec = &v1alpha1.CanaryGateSpec{}
	if err := json.Unmarshal(r.GateRun.Spec.Raw, r.Spec); err != nil {
		return fmt.Errorf("reading the spec that the run began with: %w", err)
	}
	// A newer release may have fields that the stored spec lacks.
	r.Spec.SetDefaults(ctx)
	if wrong := r.Spec.Validate(ctx); wrong != nil {
		return problem(EvidenceUnreadable, "the spec that the run began with is not valid: %s", wrong)
	}
	return nil
}

func (r *Run) readEvidence() error {
	if r.Done() {
		return nil // what is left of it is not for judging
	}
	var err error
	if r.evidence, err = unpack(r.GateRun.Evidence); err != nil {
		return err
	}
	if r.evidence == nil {
		return nil
	}
	if err := r.evidence.Run.Check(r.plan()); err != nil {
		r.evidence = nil
		return problem(EvidenceUnreadable, "the evidence is not valid: %s", err)
	}
	return nil
}

// recovering turns a panic of f, which is a bug, into an error. It must end one run only, and neither the gates nor the
// events of everybody: whoever takes over would resume that run, and panic as well.
func recovering(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &ProblemError{
				Reason:  InternalError,
				Message: fmt.Sprintf("a bug of the controller ended it, please report it: %v", p),
				Stack:   string(debug.Stack()),
			}
		}
	}()
	return f()
}

// Due is when the next step is due.
func (r *Run) Due() time.Time {
	if r.evidence == nil {
		return r.GateRun.StartTime.Time
	}
	next := r.evidence.At.Add(r.Interval())
	if r.GateRun.Deadline.Time.Before(next) {
		return r.GateRun.Deadline.Time
	}
	return next
}

// Wait is how long to wait after a step.
func (r *Run) Wait(now time.Time) time.Duration {
	return max(time.Second, min(r.Interval(), r.GateRun.Deadline.Sub(now)))
}

// Interval between two analyses.
func (r *Run) Interval() time.Duration { return duration(r.Spec.Schedule.Interval) }

// Gathering reports whether the run gathers evidence.
func (r *Run) Gathering() bool { return r.evidence != nil }

// Done reports whether the run is complete.
func (r *Run) Done() bool { return r.GateRun.CompletionTime != nil }

func (r *Run) service() types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: r.GateRun.Service.Name}
}
