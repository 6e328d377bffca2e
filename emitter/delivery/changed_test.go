package delivery

import (
	"testing"
	"time"

	eventingv1 "knative.dev/eventing/pkg/apis/eventing/v1"
	"knative.dev/pkg/apis"

	"github.com/knative-cdevents/knative-cdevents/api/tolerant"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// The status shows the address of the former sink until the source was looked at.
func TestAnEventWaitsForTheAddressOfTheNewSink(t *testing.T) {
	src := sourceTo("all", "former")
	s := newStage(t, src)
	changed := src.DeepCopy()
	changed.Generation = 2
	changed.Spec.Sink.URI = apis.HTTP("new")
	s.UpdateSource(changed)
	s.happens(t, "cart", lifecycle.Created)
	time.Sleep(50 * time.Millisecond)
	if got := s.received(); len(got) > 0 || s.pending("uid-all") != 1 {
		t.Fatalf("sent to the former sink: %q, %d pending", got, s.pending("uid-all"))
	}
	resolved := changed.DeepCopy()
	resolved.Status.SinkURI, resolved.Status.ObservedGeneration = apis.HTTP("new"), 2
	s.UpdateSource(resolved)
	s.eventually(t, "the event", func() bool { return s.pending("uid-all") == 0 })
	if got := s.received(); len(got) != 1 || got[0][:4] != "new " {
		t.Errorf("got %q", got)
	}
}

// What is left of filters that cannot be read may let everything through.
func TestNothingIsSentToASourceThatCannotBeRead(t *testing.T) {
	good, bad := sourceTo("good", "sink"), sourceTo("bad", "elsewhere")
	bad.Unread = []tolerant.FieldError{{Path: "spec.filters[1].exact", Message: "must be an object, not this number"}}
	bad.Spec.Filters = []eventingv1.SubscriptionsAPIFilter{{Prefix: map[string]string{"type": "dev."}}}
	s := newStage(t, good, bad)
	s.happens(t, "cart", lifecycle.Created, lifecycle.Deployed)
	s.eventually(t, "what the other one is owed", func() bool { return s.pending("uid-good") == 0 })
	s.eventually(t, "the problem", func() bool { _, _, _, problem := s.SourceStatus("uid-bad"); return problem == bad.Unread[0].Error() })
	if got := s.received(); len(got) != 2 || s.pending("uid-bad") != 2 {
		t.Fatalf("got %q, %d pending", got, s.pending("uid-bad"))
	}
	mended := sourceTo("bad", "elsewhere")
	mended.Generation, mended.Status.ObservedGeneration = 2, 2
	mended.Spec.Filters = []eventingv1.SubscriptionsAPIFilter{{Prefix: map[string]string{"type": "dev.cdevents.service"}}}
	s.UpdateSource(mended)
	s.eventually(t, "what passes", func() bool { return s.pending("uid-bad") == 0 })
	if got := s.received(); len(got) != 3 {
		t.Errorf("got %q", got)
	}
}
