//go:build e2e

package e2e

import (
	"context"
	"slices"
	"testing"
)

// TestWhileTheControllerIsDown lets one Service go and another come while nobody watches. Both are told when
// the controller is back.
func TestWhileTheControllerIsDown(t *testing.T) {
	s := newScene(t)
	s.source("source", service("sink"))
	s.deploy("goes")
	s.sink.exactly(t, birth, about("goes"))

	s.must(suite.Scale(t.Context(), 0))
	t.Cleanup(func() {
		// The next test wants a controller, whatever became of this one.
		ctx := context.WithoutCancel(t.Context())
		if d, err := suite.Controller(ctx); err == nil && *d.Spec.Replicas == 0 {
			if err := suite.Scale(ctx, 1); err != nil {
				t.Error(err)
			}
		}
	})
	s.must(suite.DeleteService(t.Context(), s.ns, "goes"))
	s.deploy("comes")
	s.must(suite.Scale(t.Context(), 1))

	s.sink.exactly(t, slices.Concat(birth, []string{removed}), about("goes"))
	for _, e := range s.sink.exactly(t, birth, about("comes")) {
		conforms(t, e, "0.5.1")
	}
}

// TestSinkOutage refuses the first events. They come again, the same ones, and none overtakes another.
func TestSinkOutage(t *testing.T) {
	s := newScene(t)
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
			t.Errorf("the second attempt at %s has another body:\n%s\nwas\n%s", e.cd.Context.ID, e.Body, body)
		}
		bodies[e.cd.Context.ID] = string(e.Body)
	}
	if refused != 3 || len(bodies) != len(birth) {
		t.Errorf("%d attempts were refused and %d different events arrived, want 3 and %d", refused, len(bodies), len(birth))
	}
}
