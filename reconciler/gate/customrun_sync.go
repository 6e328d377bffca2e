// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/canary/gaterun"
	"github.com/knative-cdevents/knative-cdevents/reconciler/gate/customrun"
)

// Cancelled is the reason of a run whose CustomRun was cancelled.
//
//reasons:table CanaryGate/Run
const (
	// Cancelled: the CustomRun was cancelled, as by its PipelineRun, or it or the gate was deleted.
	Cancelled = "Cancelled"
)

// proceed advances the run, changes the status, and returns when to sync again.
func (s *customRunSync) proceed(ctx context.Context) (time.Duration, error) {
	now := s.Clock.Now()
	run, err := s.currentRun(ctx, now)
	if s.problem == nil || s.stored != nil {
		s.now = run.GateRun // a rejected request is not stored
	}
	switch {
	case s.run.Cancelled():
		run.End(now, verdict.Inconclusive, "Cancelled before a verdict was reached", Cancelled)
		return 0, s.run.Cancel(run.GateRun, now)
	case s.problem != nil && s.stored == nil:
		run.End(now, verdict.Error, s.problem.Message, s.problem.Reason)
		return 0, s.run.Refuse(run.GateRun, s.problem, now)
	case err != nil:
		run.Fail(now, err)
		return 0, s.run.Proceed(run.GateRun, run.Spec, now)
	case run.Done(): // the process died before it wrote the status
		return 0, s.run.Proceed(run.GateRun, run.Spec, now)
	case s.run.TimedOut(now):
		limit := s.run.Limit()
		run.End(now, verdict.Inconclusive, fmt.Sprintf("The CustomRun timed out after %s, before a verdict was reached: %s",
			limit, run.GateRun.Message), string(verdict.Timeout))
		return 0, s.run.Expire(run.GateRun, now)
	}
	if wait := run.Due().Sub(now); wait > 0 && run.Gathering() {
		// The status may be behind the stored run.
		return wait, s.run.Proceed(run.GateRun, run.Spec, now)
	}
	m := s.moment(s.service())
	m.Readings = s.Queries.Query(ctx, m.Now, run.Questions())
	s.step(ctx, run, m)
	if err := s.run.Proceed(run.GateRun, run.Spec, now); err != nil {
		return 0, err
	}
	if !run.Gathering() {
		return min(pollInterval, run.Interval()), nil
	}
	return run.Wait(now), nil
}

// currentRun returns the run in progress, or a new one. It is never nil, even if the run
// cannot continue, so that there is always something to report.
func (s *customRunSync) currentRun(ctx context.Context, now time.Time) (*gaterun.Run, error) {
	namespace, id := s.run.Namespace, s.id()
	empty := func() *gaterun.Run {
		spec, gate := &v1alpha1.CanaryGateSpec{}, ""
		if s.request != nil {
			spec.Service, gate = s.request.Service(s.gate), s.request.Gate
		}
		spec.SetDefaults(ctx)
		at := metav1.NewTime(now)
		return &gaterun.Run{Namespace: namespace, Spec: spec, GateRun: &v1alpha1.GateRun{
			ID: id, Gate: gate, Service: v1alpha1.GateObject{Name: spec.Service}, StartTime: at, Deadline: at,
			Verdict: verdict.Running,
		}}
	}
	switch {
	case s.storedErr != nil:
		return empty(), s.storedErr
	case s.stored != nil && (s.stored.CompletionTime == nil || s.stored.ID == id):
		return s.resume(ctx, namespace, s.stored)
	case s.request != nil && s.stored != nil && s.request.Suspended(s.gate) != nil: // no retry begins either
		s.problem, s.stored = s.request.Suspended(s.gate), nil
		return empty(), nil
	case s.stored != nil: // the previous attempt
		before, err := gaterun.Resume(ctx, namespace, s.stored)
		if err != nil {
			return empty(), err
		}
		var use *v1alpha1.GateTemplateUse
		if s.stored.Effective != nil {
			use = s.stored.Effective.Template
		}
		run, err := s.open(ctx, id, s.stored.Gate, before.Spec, use, now)
		if err != nil {
			return empty(), err
		}
		return run, nil
	case s.problem != nil:
		return empty(), nil
	}
	spec, use, wrong := s.request.Spec(ctx, s.gate, s.template)
	if wrong != nil {
		s.problem = wrong
		return empty(), nil
	}
	run, err := s.open(ctx, id, s.request.Gate, spec, use, now)
	if err != nil {
		return empty(), err
	}
	return run, nil
}

func (s *customRunSync) open(
	ctx context.Context,
	id, gate string,
	spec *v1alpha1.CanaryGateSpec,
	use *v1alpha1.GateTemplateUse,
	now time.Time,
) (*gaterun.Run, error) {
	run, err := gaterun.Open(
		ctx,
		gaterun.Opening{
			Namespace: s.run.Namespace, ID: id, Spec: spec, Template: use, Start: now, Limit: s.run.Limit(),
		},
	)
	if err != nil {
		return nil, fmt.Errorf("beginning a run: %w", err) // a spec that was read can be written
	}
	run.GateRun.Gate = gate
	return run, nil
}

// write updates a changed status.
func (s *customRunSync) write(ctx context.Context) error {
	if sameJSON(s.was, s.run.Status) {
		return nil
	}
	changed, err := customrun.With(s.object, s.run.Status)
	if err != nil {
		return err
	}
	_, err = s.Runs.Resource(customrun.Resource).Namespace(s.run.Namespace).UpdateStatus(ctx, changed,
		metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("writing the status of CustomRun %s/%s: %w", s.run.Namespace, s.run.Name, err)
	}
	return nil
}

// sameJSON compares statuses as JSON: the API server reorders the fields of unknown types.
func sameJSON(a, b any) bool {
	plain := func(of any) (out any) {
		raw, err := json.Marshal(of)
		if err != nil || json.Unmarshal(raw, &out) != nil {
			return nil
		}
		return out
	}
	return reflect.DeepEqual(plain(a), plain(b))
}

// report reports the completed runs of a stored status. It returns false if it is too
// early for one of them.
func (s *customRunSync) report(status customrun.Status) bool {
	all := true
	for _, attempt := range status.Attempts() {
		run, err := attempt.GateRun()
		if err != nil || run == nil {
			continue // load has handled the error
		}
		s.Metrics.Record(s.run.Namespace, run)
		all = s.reporter.report(s.run.Namespace, run) && all
	}
	return all
}
