// SPDX-License-Identifier: Apache-2.0

package source

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// nowhere leads for no source.
type nowhere struct{}

func (nowhere) IsLeaderFor(types.NamespacedName) bool { return false }

// With several buckets, processes other than the one that writes a source's status send to its sink too.
func TestDeliveriesOfOtherProcessesAreReported(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	here, there := &standing{}, &standing{}
	h.deliveries = here
	other := &Reconciler{
		client: h.client, lister: h.lister, sinks: h.sinks, now: h.now, deliveries: there,
		leader: nowhere{},
	}
	reconcileThere := func() {
		t.Helper()
		h.clock = h.clock.Add(interval)
		if err := other.Reconcile(t.Context(), "shop/all"); requeue(err) == 0 {
			t.Fatal(err)
		}
	}
	s := h.settle(newSource())
	reconcileThere()
	if len(h.requests) != 1 {
		t.Errorf("nothing was new, but the status was written: %q", h.requests)
	}
	shows := func(when, status, says string) {
		t.Helper()
		h.clock = h.clock.Add(interval)
		s = h.again(s)
		c := s.Status.GetCondition(v1alpha1.SourceConditionDelivering)
		if string(c.Status) != status || !contains(c.Message, says) || s.Status.SinkURI == nil {
			t.Errorf("%s: %+v, sink %v", when, c, s.Status.SinkURI)
		}
	}
	shows("before the first event", "Unknown", "")

	failed := time.Now()
	here.pending, here.oldest, there.trouble = 1, failed, "the sink answered 503"
	reconcileThere()
	shows("after the other process failed", "False", "503")
	shows("while its event is pending", "False", "503")

	there.trouble, there.last = "", failed.Add(2*time.Second)
	reconcileThere()
	shows("after a successful delivery", "True", "")
	if s.Status.LastDelivery == nil || !s.Status.LastDelivery.Time.Equal(there.last.Truncate(time.Microsecond)) {
		t.Errorf("last delivery %v", s.Status.LastDelivery)
	}

	here.pending, here.oldest, there.last = 0, time.Time{}, time.Time{}
	reconcileThere()
	shows("after the last pending event", "True", "")
}
