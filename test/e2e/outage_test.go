// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"testing"
	"time"
)

// TestWhileTheControllerIsDown creates, changes, deletes and recreates Services without a controller. When it is back,
// it reports what can still be observed.
func TestWhileTheControllerIsDown(t *testing.T) {
	s := newStorm(t)
	s.deployAll("goes", "changes", "returns")
	s.blow(3, time.Second)()

	start := s.stopController()
	s.remove("goes")
	s.remove("returns")
	s.deployAll("returns", "comes")
	s.blow(8, time.Second)()
	s.deploy("passes")
	s.must(suite.Services.Delete(t.Context(), s.ns, "passes"))
	start()
	v := s.judge(s.sink, time.Minute)
	if v.Lives != 6 || len(v.Missed) == 0 {
		t.Errorf("%d Services and %d unobserved steps, so this test shows little", v.Lives, len(v.Missed))
	}
	s.sink.exactly(t, nil, about("passes"))
	s.account(v)
}

// stopController scales the controller to zero, and returns a function that scales it back.
func (s *storm) stopController() (start func()) {
	s.Helper()
	d, err := suite.Controller.Deployment(s.Context())
	s.must(err)
	back := func(ctx context.Context) error { return suite.Controller.Scale(ctx, int(*d.Spec.Replicas)) }
	s.Cleanup(func() {
		// The next test needs a controller, whatever happened to this one.
		if s.Failed() {
			if err := back(context.WithoutCancel(s.Context())); err != nil {
				s.Error(err)
			}
		}
	})
	s.must(suite.Controller.Scale(s.Context(), 0))
	return func() { s.Helper(); s.must(back(s.Context())) }
}

// TestSinkOutage rejects the first events. They are repeated unchanged and stay in order.
func TestSinkOutage(t *testing.T) {
	s := newScene(t)
	meter := s.newMeter()
	s.source("source", service("sink"))
	s.must(s.sink.fault(t.Context(), `{"status":503,"count":3}`))
	s.deploy("shop")

	s.sink.exactly(t, birth, accepted)
	all, err := s.sink.events(t.Context())
	s.must(err)
	bodies := map[string]string{}
	refused := 0
	for _, e := range all {
		if !accepted(e) {
			refused++
		}
		if body, again := bodies[e.cd.Context.ID]; again && body != string(e.Body) {
			t.Errorf("the second attempt at %s has another body:\n%s\nthe first was\n%s", e.cd.Context.ID, e.Body, body)
		}
		bodies[e.cd.Context.ID] = string(e.Body)
	}
	if refused != 3 || len(bodies) != len(birth) {
		t.Errorf("%d attempts were refused and %d different events arrived, want 3 and %d", refused, len(bodies), len(birth))
	}
	meter.read("one Service")
}
