// SPDX-License-Identifier: Apache-2.0

package gaterun_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/canary/attribution"
	"github.com/knative-cdevents/knative-cdevents/canary/gaterun"
	"github.com/knative-cdevents/knative-cdevents/test/stage"
)

// late provides counts that were read some time ago.
type late struct {
	gaterun.Counts
	ago time.Duration
}

func (l *late) Figure(service types.NamespacedName) (attribution.Figures, bool) {
	f, ok := l.Counts.Figure(service)
	for i := range f.Revisions {
		f.Revisions[i].ScrapeAge = &l.ago
	}
	return f, ok
}

// The last counts from before the run must not be its start, because the run would include everything
// since then.
func TestEvidenceBeginsWithAReadingOfTheRun(t *testing.T) {
	t.Parallel()
	now := time.Unix(1.8e9, 0)
	s := stage.New(cart, true, func() time.Time { return now })
	counts := &late{Counts: s, ago: 14 * time.Second}
	run, err := gaterun.Open(t.Context(), gaterun.Opening{Namespace: cart.Namespace, ID: "run-1", Spec: &v1alpha1.CanaryGateSpec{Service: cart.Name}, Start: now})
	if err != nil {
		t.Fatal(err)
	}
	step := func(after, ago time.Duration) bool {
		now, counts.ago = now.Add(after), ago
		m := gaterun.Moment{Now: now, Counts: counts, Analyze: stage.Analyze}
		m.Service, m.Known = s.Service(cart)
		if err := run.Step(m); err != nil {
			t.Fatal(err)
		}
		return run.Gathering()
	}
	if step(0, 14*time.Second) || step(2*time.Second, 16*time.Second) {
		t.Error("it began with what was read before it")
	}
	if !step(2*time.Second, time.Second) {
		t.Errorf("it still waits: %s", run.GateRun.Message)
	}
}

// The run does not wait forever for a pod that cannot be scraped.
func TestUnreadablePodOnlyDelaysTheRun(t *testing.T) {
	t.Parallel()
	now := time.Unix(1.8e9, 0)
	s := stage.New(cart, true, func() time.Time { return now })
	counts := &late{Counts: s, ago: time.Hour}
	run, err := gaterun.Open(t.Context(), gaterun.Opening{Namespace: cart.Namespace, ID: "run-1", Spec: &v1alpha1.CanaryGateSpec{Service: cart.Name}, Start: now})
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		m := gaterun.Moment{Now: now, Counts: counts, Analyze: stage.Analyze}
		m.Service, m.Known = s.Service(cart)
		if err := run.Step(m); err != nil {
			t.Fatal(err)
		}
		now = now.Add(2 * time.Second)
	}
	if !run.Gathering() {
		t.Errorf("it waits for ever: %s", run.GateRun.Message)
	}
}

// shards returns the Misplacement of so many shards.
func shards(n int) gaterun.Misplacement {
	if n == 0 {
		return gaterun.Misplacement{}
	}
	return gaterun.Misplacement{Reason: gaterun.ShardsMisplaced, Shards: n}
}

// Until the shards are where the plan wants them, the canary cannot handle its share.
func TestARunWaitsForThePlacement(t *testing.T) {
	t.Parallel()
	const misplaced = "5 shards are not where the plan wants them"
	for _, c := range []struct{ timeout, placed, gathers time.Duration }{
		{timeout: 0, placed: time.Minute, gathers: time.Minute},
		{timeout: 0, placed: time.Hour, gathers: 5 * time.Minute},
		{timeout: 8 * time.Minute, placed: time.Hour, gathers: 225 * time.Second}, // half of the time until the deadline
		{timeout: 4 * time.Minute, placed: time.Hour, gathers: 55 * time.Second},  // 156 s are left, which a run needs to pass
		{timeout: 2 * time.Minute, placed: time.Hour, gathers: 0},                 // it cannot pass, but it can fail
	} {
		began := time.Unix(1.8e9, 0)
		now := began
		s := stage.New(cart, true, func() time.Time { return now })
		run, err := gaterun.Open(t.Context(), gaterun.Opening{Namespace: cart.Namespace, ID: "run-1", Spec: &v1alpha1.CanaryGateSpec{Service: cart.Name}, Start: now, Limit: c.timeout})
		if err != nil {
			t.Fatal(err)
		}
		for ; !run.Gathering() && !run.Done(); now = now.Add(5 * time.Second) {
			s.Read()
			m := gaterun.Moment{Now: now, Counts: s, Analyze: stage.Analyze}
			m.Service, m.Known = s.Service(cart)
			if m.Service.Misplaced = shards(5); now.Sub(began) >= c.placed {
				m.Service.Misplaced = shards(0)
			}
			if err := run.Step(m); err != nil {
				t.Fatal(err)
			}
			if !run.Gathering() && !strings.Contains(run.GateRun.Message, misplaced) {
				t.Fatalf("message %q", run.GateRun.Message)
			}
		}
		if got := now.Add(-5 * time.Second).Sub(began); got != c.gathers {
			t.Errorf("%+v: the evidence begins after %s", c, got)
		}
	}
}

// What was read before the last shard moved must not be the start: the baseline handled the canary's part until then.
func TestEvidenceBeginsWithAReadingAfterTheShardsMoved(t *testing.T) {
	t.Parallel()
	now := time.Unix(1.8e9, 0)
	s := stage.New(cart, true, func() time.Time { return now })
	counts := &late{Counts: s}
	run, err := gaterun.Open(t.Context(), gaterun.Opening{Namespace: cart.Namespace, ID: "run-1", Spec: &v1alpha1.CanaryGateSpec{Service: cart.Name}, Start: now})
	if err != nil {
		t.Fatal(err)
	}
	step := func(after, ago time.Duration, misplaced int) bool {
		now, counts.ago = now.Add(after), ago
		m := gaterun.Moment{Now: now, Counts: counts, Analyze: stage.Analyze}
		m.Service, m.Known = s.Service(cart)
		m.Service.Misplaced = shards(misplaced)
		stored, err := json.Marshal(run.GateRun) // each step may be another process
		if err != nil {
			t.Fatal(err)
		}
		read := &v1alpha1.GateRun{}
		if err := json.Unmarshal(stored, read); err != nil {
			t.Fatal(err)
		}
		if run, err = gaterun.Resume(t.Context(), cart.Namespace, read); err != nil {
			t.Fatal(err)
		}
		if err := run.Step(m); err != nil {
			t.Fatal(err)
		}
		return run.Gathering()
	}
	if step(0, 0, 2) || step(10*time.Second, 4*time.Second, 0) || step(5*time.Second, 9*time.Second, 0) {
		t.Error("it began with what was read before the shards were in place")
	}
	if step(time.Second, 10*time.Second, 1) || step(time.Second, 2*time.Second, 0) {
		t.Error("it began with what was read before another shard was in place")
	}
	if !step(3*time.Second, time.Second, 0) || run.GateRun.PlacedSince != nil {
		t.Errorf("it still waits: %s", run.GateRun.Message)
	}
}

// A pod that cannot be scraped delays a run that waited for the shards only for a while.
func TestAnUnreadablePodOnlyDelaysARunThatWaitedForTheShards(t *testing.T) {
	t.Parallel()
	p := begin(t, true, v1alpha1.CanaryGateSpec{}, 0)
	p.Unread()
	p.Process()
	p.Change(func(s *gaterun.Service) { s.Misplaced = shards(1) })
	p.step().want(verdict.Running, "", "1 shard is not where the plan wants it")
	p.Change(func(s *gaterun.Service) { s.Misplaced = shards(0) })
	p.pass(10*time.Second).step().want(verdict.Running, "", "scraped again, because shards have moved")
	p.pass(25*time.Second).step().want(verdict.Running, "", "scraped again, because shards have moved")
	p.pass(10*time.Second).step().want(verdict.Running, "", "no requests have been counted yet")
}

// A run waits for the shards as long if it waited for something else before, such as a first reading of the pods, and
// if another process continues it.
func TestTheWaitForThePlacementBeginsWhenTheRunWaitsForIt(t *testing.T) {
	t.Parallel()
	p := begin(t, true, v1alpha1.CanaryGateSpec{}, 0)
	p.Unread()
	p.pass(4*time.Minute).step().want(verdict.Running, "", "until the pods of Service")
	p.Process()
	p.Change(func(s *gaterun.Service) { s.Misplaced = shards(5) })
	for range 59 { // each step is another process
		p.step().want(verdict.Running, "", "5 shards are not where the plan wants them (at most 5m0s)")
		p.pass(5 * time.Second)
	}
	if p.run.WaitingSince == nil || p.run.Public().WaitingSince != nil {
		t.Errorf("it waits since %v, and shows %v", p.run.WaitingSince, p.run.Public().WaitingSince)
	}
	p.pass(5*time.Second).step().want(verdict.Running, "", "no requests have been counted yet")
	if p.run.WaitingSince != nil {
		t.Errorf("it is still stored since when it waited: %v", p.run.WaitingSince)
	}
}

// What is left until the deadline is divided anew for a run that waits late.
func TestALateWaitForThePlacementLeavesTimeToJudge(t *testing.T) {
	t.Parallel()
	p := begin(t, true, v1alpha1.CanaryGateSpec{}, 0)
	p.Unread()
	p.pass(24*time.Minute).step().want(verdict.Running, "", "until the pods of Service")
	p.Process()
	p.Change(func(s *gaterun.Service) { s.Misplaced.Reason = gaterun.PlacementUnknown })
	p.step().want(verdict.Running, "", "where the shards are is not known yet (at most 45s)")
	p.pass(45*time.Second).step().want(verdict.Running, "", "no requests have been counted yet")
}

// A run waits for a plan as for the shards.
func TestARunWaitsForThePlan(t *testing.T) {
	t.Parallel()
	p := begin(t, true, v1alpha1.CanaryGateSpec{}, 0)
	p.Change(func(s *gaterun.Service) { s.Misplaced.Reason = gaterun.PlacementPlanMissing })
	p.step().want(verdict.Running, "", "Waiting until the canary can handle its share: there is no plan for this split yet (at most 5m0s)")
	p.Change(func(s *gaterun.Service) { s.Misplaced.Reason = "Another" })
	p.pass(time.Second).step().want(verdict.Running, "", "its share: Another (at most 5m0s)")
}
