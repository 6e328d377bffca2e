package delivery

import (
	"testing"
	"time"

	"knative.dev/pkg/apis"

	"github.com/knative-cdevents/knative-cdevents/reconciler/lifecycle"
)

// The status shows the address of the former sink until the source was looked at.
func TestAnEventWaitsForTheAddressOfTheNewSink(t *testing.T) {
	src := sourceTo("all", "former")
	s := newStage(t, src)
	changed := src.DeepCopy()
	changed.Generation = 2
	changed.Spec.Sink.URI = apis.HTTP("new")
	s.Source(changed)
	s.happens(t, "cart", lifecycle.Created)
	time.Sleep(50 * time.Millisecond)
	if got := s.received(); len(got) > 0 || s.pending("uid-all") != 1 {
		t.Fatalf("sent to the former sink: %q, %d pending", got, s.pending("uid-all"))
	}
	resolved := changed.DeepCopy()
	resolved.Status.SinkURI, resolved.Status.ObservedGeneration = apis.HTTP("new"), 2
	s.Source(resolved)
	s.eventually(t, "the event", func() bool { return s.pending("uid-all") == 0 })
	if got := s.received(); len(got) != 1 || got[0][:4] != "new " {
		t.Errorf("got %q", got)
	}
}
