// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"fmt"
	"maps"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/apis"

	"github.com/knative-cdevents/knative-cdevents/api/tolerant"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// moved returns the source with another sink that is already resolved.
func moved(s *v1alpha1.CDEventSource) *v1alpha1.CDEventSource {
	out := s.DeepCopy()
	out.Generation, out.Status.ObservedGeneration = 2, 2
	out.Spec.Sink.URI, out.Status.SinkURI = apis.HTTP("new"), apis.HTTP("new")
	return out
}

// Events that wait for a free slot must use the sink's present address.
func TestNoAttemptStartsAtTheFormerSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := sourceTo("all", "former")
		s := newStage(t, src)
		s.answer("former", func() transport.Outcome {
			out := refuse(503, transport.Retry)()
			out.RetryAfter = time.Second
			return out
		})
		s.happens(t, "cart", lifecycle.Created)
		synctest.Wait() // the sink sent Retry-After, so only one event may be sent at a time
		s.answer("former", func() transport.Outcome { time.Sleep(time.Minute); return accepted })
		time.Sleep(20 * time.Second) // one is being sent
		for i := range 3 {
			s.happens(t, fmt.Sprintf("more-%d", i), lifecycle.Created)
		}
		synctest.Wait() // they wait for a free slot
		former := s.record("former", func() transport.Outcome { return accepted })
		s.UpdateSource(moved(src))
		time.Sleep(10 * time.Minute)
		if former.within(0, time.Hour) > 0 || s.pending("uid-all") > 0 {
			t.Errorf("requests to the former sink after %v; got %q, %d pending", former.times, s.received(), s.pending("uid-all"))
		}
	})
}

// A response of the former sink that arrives after the source was changed does not matter.
func TestResponseOfTheFormerSinkIsIgnored(t *testing.T) {
	for name, c := range map[string]struct {
		source *v1alpha1.CDEventSource
		answer func() transport.Outcome
	}{
		"permanent rejection":   {sourceTo("all", "sink"), refuse(400, transport.Poison)},
		"failure with backoff":  {counted(3, "PT10M"), refuse(503, transport.Retry)},
		"failure of last retry": {counted(0, "PT1S"), refuse(503, transport.Retry)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, c.source)
				s.answer("sink", func() transport.Outcome { time.Sleep(20 * time.Second); return c.answer() })
				s.happens(t, "cart", lifecycle.Created)
				time.Sleep(5 * time.Second)
				asked := s.record("new", func() transport.Outcome { return accepted })
				s.UpdateSource(moved(c.source))
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				s.mu.Lock()
				lost := maps.Clone(s.dropped)
				s.mu.Unlock()
				if asked.within(0, 16*time.Second) != 1 || asked.within(0, time.Hour) != 1 || s.lettered() > 0 || len(lost) > 0 {
					t.Errorf("requests to the new sink after %v; %d dead letters, %d pending, dropped %v", asked.times, s.lettered(), s.pending("uid-all"), lost)
				}
			})
		})
	}
}

func TestNewSinkStartsWithAClosedBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := sourceTo("all", "sink")
		s := newStage(t, src)
		b := s.queues["uid-all"].breaker
		b.probeEvery = time.Hour
		b.reset()
		s.answer("sink", refuse(503, transport.Retry))
		for i := range 8 {
			s.happens(t, fmt.Sprintf("cart-%d", i), lifecycle.Created)
		}
		time.Sleep(time.Minute)
		if !s.Breakers()["shop/all"] {
			t.Fatal("the breaker is not open")
		}
		s.UpdateSource(moved(src))
		time.Sleep(time.Second)
		if s.pending("uid-all") > 0 || s.Breakers()["shop/all"] {
			t.Errorf("%d pending, breakers %v", s.pending("uid-all"), s.Breakers())
		}
	})
}

// wavering is a leader that has lost the lead the next time that it is asked.
type wavering struct{ lost atomic.Bool }

func (w *wavering) IsLeaderFor(types.NamespacedName) bool { return !w.lost.Swap(false) }

// If the lead is lost only for a moment after a failed attempt, the event must not be skipped:
// the acknowledgement of the next one would remove it from the journal uncounted.
func TestNoEventIsSkippedWhenTheLeadIsLostBriefly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, sourceTo("all", "sink"))
		lead := &wavering{}
		s.Leader = lead
		first := true
		s.answer("sink", func() transport.Outcome {
			if first {
				first = false
				lead.lost.Store(true)
				return refuse(503, transport.Retry)()
			}
			return accepted
		})
		spec := v1alpha1.CDEventSubjectSpec{APIVersion: "serving.knative.dev/v1", Kind: "Service", Namespace: "shop", Name: "cart", UID: "uid-cart"}
		err := s.ledger.Journal(t.Context(), spec, func(*v1alpha1.CDEventSubject) (*ledger.Change, error) {
			c := &ledger.Change{Memory: lifecycle.Memory{Sequence: 2}}
			for i, typ := range []lifecycle.Type{lifecycle.Created, lifecycle.Removed} {
				c.Transitions = append(c.Transitions, lifecycle.Transition{Sequence: int64(i + 1), Time: time.Now(), Type: typ})
			}
			return c, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		s.Promoted(nil)
		time.Sleep(time.Hour)
		if got := s.received(); len(got) != 2 {
			t.Errorf("got %q, %d pending", got, s.pending("uid-all"))
		}
	})
}

// The corrected filter excludes the waiting event.
func TestProblemEndsWhenTheSpecIsCorrected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := sourceTo("bad", "sink")
		bad.Unread = []tolerant.FieldError{{Path: "spec.filters[0].exact", Message: "must be an object, not this number"}}
		s := newStage(t, bad)
		s.happens(t, "cart", lifecycle.Created)
		time.Sleep(time.Second)
		corrected := sourceTo("bad", "sink")
		corrected.Generation, corrected.Status.ObservedGeneration = 2, 2
		corrected.Spec.Filters = []v1alpha1.Filter{{Prefix: map[string]string{"type": "dev.cdevents.service.deployed"}}}
		s.UpdateSource(corrected)
		time.Sleep(time.Hour)
		if _, _, _, problem := s.SourceStatus("uid-bad"); problem != "" || s.pending("uid-bad") > 0 {
			t.Errorf("%d pending, problem %q", s.pending("uid-bad"), problem)
		}
	})
}
