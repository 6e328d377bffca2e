// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/canary/gaterun"
	"github.com/knative-cdevents/knative-cdevents/canary/judge"
)

// outcome is how one run of a world ended.
type outcome struct {
	verdict  verdict.Verdict
	reasons  []string
	message  string
	requests float64
	minutes  float64
	// others are the verdicts of other tools, in their order.
	others []verdict.Verdict
}

// once plays a world once. With whole, every reading passes through text, and the run is stored and resumed at every
// step.
func (p player) once(ctx context.Context, w world, number uint64) (outcome, error) {
	w = w.withDefaults()
	s := newScene(w, rand.New(rand.NewPCG(p.seed, number)), p.whole) //nolint:gosec // a simulation
	if err := s.until(0); err != nil {
		return outcome{}, err
	}
	spec := v1alpha1.CanaryGateSpec{Service: service.Name}
	if w.gate != nil {
		w.gate(&spec)
	}
	run, err := gaterun.Open(ctx, gaterun.Opening{Namespace: service.Namespace, ID: "run", Spec: &spec, Start: s.now()})
	if err != nil {
		return outcome{}, fmt.Errorf("opening the run: %w", err)
	}
	for !run.Done() {
		if err := s.until(s.at + 1); err != nil {
			return outcome{}, err
		}
		if s.now().Before(run.Due()) {
			continue
		}
		if p.whole {
			if run, err = stored(ctx, run); err != nil {
				return outcome{}, err
			}
		}
		moment := gaterun.Moment{Now: s.now(), Known: true, Service: s.state(), Counts: s.counts, Analyze: (*judge.Run).Analyze}
		if err := run.Step(moment); err != nil {
			return outcome{}, err
		}
	}
	out := outcome{
		verdict: run.GateRun.Verdict, reasons: run.GateRun.Reasons, message: run.GateRun.Message,
		requests: float64(run.Last().Canary.Requests), minutes: s.at / 60,
	}
	if !p.rivals {
		return out, nil
	}
	s.judged = true
	if err := s.until(longestRival.Seconds()); err != nil {
		return outcome{}, err
	}
	out.others = s.rivals()
	return out, nil
}

// until plays until a time since the split.
func (s *scene) until(at float64) error {
	for s.at < at {
		if err := s.second(); err != nil {
			return err
		}
	}
	return nil
}

// stored writes the run and reads it, as if another process continued it.
func stored(ctx context.Context, run *gaterun.Run) (*gaterun.Run, error) {
	content, err := json.Marshal(run.GateRun)
	if err != nil {
		return nil, fmt.Errorf("storing the run: %w", err)
	}
	again := &v1alpha1.GateRun{}
	if err := json.Unmarshal(content, again); err != nil {
		return nil, fmt.Errorf("reading the run: %w", err)
	}
	next, err := gaterun.Resume(ctx, service.Namespace, again)
	if err != nil {
		return nil, fmt.Errorf("resuming the run: %w", err)
	}
	return next, nil
}

// lasts returns a change of the gate's spec: its runs end after this time.
func lasts(long time.Duration) func(*v1alpha1.CanaryGateSpec) {
	return func(spec *v1alpha1.CanaryGateSpec) {
		spec.Schedule = &v1alpha1.GateSchedule{Timeout: &v1alpha1.Duration{Duration: long}}
	}
}
