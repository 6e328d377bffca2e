// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"testing"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/cdevents"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// Rendering one event panics. It is dropped and counted, and all others are sent.
func TestEventWhoseRenderingPanicsStopsNoOther(t *testing.T) {
	src := sourceTo("all", "sink")
	s := newStage(t, src)
	s.Render = func(p v1alpha1.Profile, of v1alpha1.CDEventSubjectSpec, tr lifecycle.Transition) (cdevents.Rendered, error) {
		if tr.Type == lifecycle.Deployed {
			panic("a bug")
		}
		return cdevents.Render(p, of, tr)
	}
	s.happens(t, "cart", lifecycle.Created, lifecycle.Deployed, lifecycle.Published)
	s.eventually(t, "nothing is pending", func() bool { return s.pending(src.UID) == 0 })
	if got := s.received(); len(got) != 2 || got[0] != "sink service/shop/cart created" || got[1] != "sink service/shop/cart published" {
		t.Errorf("got %q", got)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dropped[ledger.DroppedUnreadable] != 1 {
		t.Errorf("dropped in the metric: %v", s.dropped)
	}
}
