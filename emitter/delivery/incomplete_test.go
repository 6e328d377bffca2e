package delivery

import (
	"testing"

	duckv1 "knative.dev/pkg/apis/duck/v1"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// A source that wants to override what cannot be overridden gets its events
// without it. Each says so, and is counted.
func TestWhatLacksSomethingIsSentAndCounted(t *testing.T) {
	wrong := sourceTo("wrong", "wrong")
	wrong.Spec.CloudEventOverrides = &duckv1.CloudEventOverrides{Extensions: map[string]string{"id": "mine"}}
	s := newStage(t, wrong, sourceTo("right", "right"))
	s.happens(t, "cart", lifecycle.Created, lifecycle.Deployed, lifecycle.Removed)
	s.eventually(t, "all of it", func() bool { return s.pending("uid-wrong")+s.pending("uid-right") == 0 })
	if n := s.incomplete.Load(); n != 3 || len(s.received()) != 6 {
		t.Errorf("%d of %q lack something, want the three of one source", n, s.received())
	}
}
