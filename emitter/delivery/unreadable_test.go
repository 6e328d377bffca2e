// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// An unreadable event between two readable ones must not be skipped: the acknowledgement of the
// next one would remove it from the journal uncounted.
func TestUnreadableEventIsDroppedInOrder(t *testing.T) {
	s := newStage(t, sourceTo("all", "sink"))
	// The journal changes during an attempt, so the events that were read before are outdated.
	asked, changed := make(chan struct{}, 1), make(chan struct{})
	s.answer("sink", func() transport.Outcome {
		select {
		case asked <- struct{}{}:
		default:
		}
		<-changed
		return refuse(503, transport.Retry)()
	})
	s.happens(t, "cart", lifecycle.Created, lifecycle.Deployed, lifecycle.Published)
	<-asked
	o := s.store.All()[0]
	o.Status.Journal[1].Transition.Raw = []byte(`{"sequence":"two"}`)
	o, err := s.store.Update(context.Background(), o, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.ledger.Observe(o)
	s.answer("sink", nil)
	close(changed)
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		o := s.store.All()[0]
		if len(o.Status.Journal) == 0 && o.Status.Dropped[ledger.DroppedUnreadable] == 1 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("got %q; left %+v, dropped %v", s.received(), o.Status.Journal, o.Status.Dropped)
		}
	}
	if got := s.received(); len(got) != 2 || got[0] != "sink service/shop/cart created" || got[1] != "sink service/shop/cart published" {
		t.Errorf("got %q", got)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dropped[ledger.DroppedUnreadable] != 1 {
		t.Errorf("dropped in the metric: %v", s.dropped)
	}
}
