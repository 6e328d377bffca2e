// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/canary/gaterun"
	"github.com/knative-cdevents/knative-cdevents/reconciler/gate/customrun"
)

// gateSync is one sync of one gate.
type gateSync struct {
	*gates
	gate *v1alpha1.CanaryGate
	// spec is the gate's, with its template and defaults; problem is what is wrong with the template.
	spec    *v1alpha1.CanaryGateSpec
	problem *customrun.Problem
	status  v1alpha1.CanaryGateStatus
	// restarted: the record of the run in progress is lost, so it starts again with the present spec.
	restarted bool
	// reopen: a run has ended, and the next sync may open another.
	reopen bool
	// run is the stored run in progress, and now the same run after this sync.
	run, now *v1alpha1.GateRun
}

// service returns the Service whose leader works on the gate.
func (s *gateSync) service() types.NamespacedName {
	return types.NamespacedName{Namespace: s.gate.Namespace, Name: s.gate.Judged()}
}

// do changes the status, and returns when to sync again.
func (s *gateSync) do(ctx context.Context) time.Duration {
	defer func() {
		runs := s.runsOf()
		runs = append(runs, s.deleted(ctx, runs)...)
		s.status.Latest, s.status.History = s.latest(runs), s.history(runs)
	}()
	m := s.moment(s.service())
	run := s.status.Run
	if run.InProgress() {
		wait := s.proceed(ctx, m)
		s.conditions(ctx, m)
		return wait
	}
	// The next run replaces this one, which may not be reported yet.
	reported := run == nil || s.report()
	s.conditions(ctx, m)
	if run != nil && m.Known {
		gaterun.NoteSplit(run, s.spec.Service, m.Service, m.Now)
	}
	opens := s.spec.Watch && !s.spec.Suspend && s.problem == nil && s.gate.Validate(ctx) == nil
	if reported && opens && m.Known && gaterun.ShouldOpen(run, s.spec, m.Service) {
		return s.open(ctx, m)
	}
	return interval(s.spec)
}

func interval(spec *v1alpha1.CanaryGateSpec) time.Duration { return spec.Schedule.Interval.Duration }

// open starts a run for a new split.
func (s *gateSync) open(ctx context.Context, m gaterun.Moment) time.Duration {
	id := fmt.Sprintf("%s-%d", s.gate.UID, m.Now.UnixMilli())
	run, err := gaterun.Open(ctx, gaterun.Opening{
		Namespace: s.gate.Namespace, ID: id, Spec: s.spec, Template: s.status.Template, Start: m.Now,
	})
	if err != nil {
		return retryDelay // a spec that was read can be written
	}
	run.GateRun.Gate = s.gate.Name
	s.step(ctx, run, m)
	s.now, s.status.Run = run.GateRun, run.GateRun.Public()
	if !run.Gathering() {
		return pollInterval
	}
	return run.Wait(m.Now)
}

// proceed advances the run in progress.
func (s *gateSync) proceed(ctx context.Context, m gaterun.Moment) time.Duration {
	run, err := s.resume(ctx, s.gate.Namespace, s.run)
	switch {
	case err != nil:
		run.Fail(m.Now, err)
	case s.restarted && s.problem != nil:
		run.End(m.Now, verdict.Error, s.problem.Message, s.problem.Reason)
	}
	// The status may be behind the stored run.
	defer func() { s.now, s.status.Run = run.GateRun, run.GateRun.Public() }()
	moved := run.GateRun.Service.Name != s.gate.Spec.Service
	if moved {
		run.Supersede(m.Now, gaterun.GateChanged, fmt.Sprintf("the gate now names Service %q", s.gate.Spec.Service))
	}
	if wait := run.Due().Sub(m.Now); err == nil && !moved && wait > 0 && run.Gathering() {
		return wait
	}
	m.Readings = s.Queries.Query(ctx, m.Now, run.Questions())
	s.step(ctx, run, m)
	switch {
	case run.Done():
		s.reopen = true
		return pollInterval
	case !run.Gathering():
		return pollInterval
	}
	return run.Wait(m.Now)
}
