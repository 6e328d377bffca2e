// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"testing"
	"time"

	"knative.dev/pkg/apis"

	"github.com/knative-cdevents/knative-cdevents/api/tolerant"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// The status holds the address of the former sink until the source is reconciled.
func TestEventWaitsForTheNewSinksAddress(t *testing.T) {
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
	s.eventually(t, "the event is delivered", func() bool { return s.pending("uid-all") == 0 })
	if got := s.received(); len(got) != 1 || got[0][:4] != "new " {
		t.Errorf("got %q", got)
	}
}

// The remaining filters of a source that cannot be read might pass every event.
func TestNothingIsSentForAnInvalidSource(t *testing.T) {
	good, bad := sourceTo("good", "sink"), sourceTo("bad", "elsewhere")
	bad.Unread = []tolerant.FieldError{{Path: "spec.filters[1].exact", Message: "must be an object, not this number"}}
	bad.Spec.Filters = []v1alpha1.Filter{{Prefix: map[string]string{"type": "dev."}}}
	s := newStage(t, good, bad)
	s.happens(t, "cart", lifecycle.Created, lifecycle.Deployed)
	s.eventually(t, "the valid source receives its events", func() bool { return s.pending("uid-good") == 0 })
	s.eventually(t, "the problem is reported", func() bool { _, _, _, problem := s.SourceStatus("uid-bad"); return problem == bad.Unread[0].Error() })
	if got := s.received(); len(got) != 2 || s.pending("uid-bad") != 2 {
		t.Fatalf("got %q, %d pending", got, s.pending("uid-bad"))
	}
	corrected := sourceTo("bad", "elsewhere")
	corrected.Generation, corrected.Status.ObservedGeneration = 2, 2
	corrected.Spec.Filters = []v1alpha1.Filter{{Prefix: map[string]string{"type": "dev.cdevents.service"}}}
	s.UpdateSource(corrected)
	s.eventually(t, "the events are delivered after the correction", func() bool { return s.pending("uid-bad") == 0 })
	if got := s.received(); len(got) != 3 {
		t.Errorf("got %q", got)
	}
}
