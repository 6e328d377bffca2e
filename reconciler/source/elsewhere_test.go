package source

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// With several buckets, the process that keeps a source's status is not the only one that sends to its sink.
func TestDeliveriesElsewhereAreShown(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	here, there := &standing{}, &standing{}
	h.deliveries = here
	other := &Reconciler{
		client: h.client, lister: h.lister, sinks: h.sinks, now: h.now, deliveries: there,
		leads: func(types.NamespacedName) bool { return false },
	}
	tell := func() {
		t.Helper()
		h.clock = h.clock.Add(interval)
		if err := other.Reconcile(t.Context(), "shop/all"); requeue(err) == 0 {
			t.Fatal(err)
		}
	}
	s := h.settle(newSource())
	tell()
	if len(h.requests) != 1 {
		t.Errorf("there was nothing to tell: %q", h.requests)
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
	shows("nothing was sent", "Unknown", "")

	failed := time.Now()
	here.pending, here.oldest, there.trouble = 1, failed, "the sink answered 503"
	tell()
	shows("the sink failed there", "False", "503")
	shows("and still does", "False", "503")

	there.trouble, there.last = "", failed.Add(2*time.Second)
	tell()
	shows("it took something", "True", "")
	if s.Status.LastDelivery == nil || !s.Status.LastDelivery.Time.Equal(there.last.Truncate(time.Microsecond)) {
		t.Errorf("last delivery %v", s.Status.LastDelivery)
	}

	here.pending, here.oldest, there.last = 0, time.Time{}, time.Time{}
	tell()
	shows("nothing is owed any more", "True", "")
}
