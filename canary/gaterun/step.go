// SPDX-License-Identifier: Apache-2.0

package gaterun

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/canary/attribution"
	"github.com/knative-cdevents/knative-cdevents/canary/judge"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

const (
	// splitTimeout is how long a run waits for a split in a Service that has settled.
	splitTimeout = 2 * time.Minute
	// settleTimeout is how long a run waits for a Service to settle before it accepts the split that is
	// in effect.
	settleTimeout = 30 * time.Second
	// placementTimeout is the longest that a run waits until the cluster follows its plan. What the canary
	// handles until then says nothing about its share.
	placementTimeout = 5 * time.Minute
)

// Counts are the request counts of Services; attribution.Counts implements it.
type Counts interface {
	Snapshot(service types.NamespacedName) (attribution.Snapshot, bool)
	Since(service types.NamespacedName, from attribution.Snapshot) (attribution.Delta, bool)
	Figure(service types.NamespacedName) (attribution.Figures, bool)
}

// Analyze evaluates one window; it is (*judge.Run).Analyze in production.
type Analyze func(r *judge.Run, p judge.Plan, w judge.Window) verdict.Judgement

// Moment is the input of a step: the time, and what is known then.
type Moment struct {
	Now time.Time
	// Known is false until the Services of the cluster are known. Service is nil if it
	// does not exist.
	Known   bool
	Service *Service
	Counts  Counts
	Analyze Analyze
	// Readings are the answers to the run's Questions.
	Readings map[Question]Reading
}

// Step advances the run as far as possible. It returns an error if that panicked; the run has then failed.
func (r *Run) Step(m Moment) error {
	err := recovering(func() error {
		r.step(m)
		return nil
	})
	if err != nil {
		r.evidence = nil
		r.Fail(m.Now, err)
	}
	return err
}

func (r *Run) step(m Moment) {
	if r.Done() {
		return
	}
	if m.Known {
		r.proceed(m)
	} else {
		r.setMessage("Waiting until the controller has read the Knative Services of the cluster")
	}
	if !r.Done() && !m.Now.Before(r.GateRun.Deadline.Time) {
		r.expire(m.Now)
	}
}

func (r *Run) proceed(m Moment) {
	if r.GateRun.Canary.Name == "" && !r.find(m) {
		return
	}
	if reason, why := superseded(r.GateRun, m.Service); reason != "" {
		r.Supersede(m.Now, reason, why)
		return
	}
	if r.evidence == nil {
		r.gather(m)
		return
	}
	r.analyze(m)
}

// find chooses the two Revisions once they are known, and freezes the choice.
func (r *Run) find(m Moment) bool {
	waited := m.Now.Sub(r.GateRun.StartTime.Time)
	both, p := Choose(r.GateRun.Service.Name, m.Service, r.Spec.Canary, r.Spec.Baseline)
	changing := m.Service != nil && (!m.Service.Settled || !m.Service.Effective)
	switch {
	case p == nil && changing && waited < settleTimeout:
		r.setMessage("Waiting until Service %q has settled: the current split may not be the one that was requested",
			r.GateRun.Service.Name)
		return false
	case p == nil:
		r.GateRun.Service.UID = m.Service.UID
		r.GateRun.Canary = object(both.Canary)
		baseline := object(both.Baseline)
		r.GateRun.Baseline, r.GateRun.Split = &baseline, Shares(m.Service.Traffic)
		return true
	case p.Reason == SameRevision || !changing && waited >= splitTimeout:
		r.End(m.Now, verdict.Error, "Nothing can be judged: "+p.Message, p.Reason)
	default:
		r.setMessage("Waiting: %s", p.Message)
	}
	if m.Service != nil {
		r.GateRun.Service.UID = m.Service.UID
	}
	return false
}

func object(r lifecycle.Revision) v1alpha1.GateObject {
	return v1alpha1.GateObject{Name: r.Name, UID: r.UID}
}

// superseded returns why a run that chose its Revisions no longer applies to the Service; empty if it does.
func superseded(run *v1alpha1.GateRun, s *Service) (reason, why string) {
	switch {
	case s == nil:
		return ServiceGone, fmt.Sprintf("Service %q no longer exists", run.Service.Name)
	case s.UID != run.Service.UID:
		return ServiceGone, fmt.Sprintf("Service %q was deleted and created again", run.Service.Name)
	}
	for _, o := range []*v1alpha1.GateObject{&run.Canary, run.Baseline} {
		if o == nil {
			continue
		}
		if _, ok := s.Revision(o.UID); !ok {
			return RevisionGone, fmt.Sprintf("Revision %q no longer exists", o.Name)
		}
	}
	if !s.Effective {
		return "", "" // the Route may still return to the same split
	}
	if s.splits(SplitOf(run)) {
		return "", ""
	}
	return SplitChanged, fmt.Sprintf("the traffic went to %s when the run began, and now goes to %s",
		describeSplit(SplitOf(run)), describeSplit(s.Traffic))
}
