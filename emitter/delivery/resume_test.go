// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/apis"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// once is one short life of a process: it tries what is pending, and returns what came of that.
func once(t *testing.T, s *stage, source *v1alpha1.CDEventSource, now time.Time) (again time.Duration, a v1alpha1.Attempt) {
	t.Helper()
	var work Work
	d := New(t.Context(), Options{
		Ledger: s.ledger, Transport: s, Render: s.Render, Filters: s.Filters, Metrics: s, Leader: s,
		Now: func() time.Time { return now },
		NewQueue: func(_ types.UID, w Work) Queue {
			work = w
			return noQueue{}
		},
	})
	d.UpdateSource(source)
	key := ledger.KeyOf(s.store.All()[0].Spec)
	again = work.Deliver(key)
	return again, d.Attempts(key, s.store.All()[0].Name)[source.UID]
}

// stored has the ledger know what came of an event, as another process would have written it.
func (s *stage) stored(a v1alpha1.Attempt) {
	o := s.store.All()[0]
	o.Status.Attempts = []v1alpha1.Attempt{a}
	o.ResourceVersion = "9" + o.ResourceVersion
	s.ledger.Observe(o)
}

// Processes that keep nothing in memory count the attempts together, and reach the dead letter sink.
func TestAttemptsOutliveProcesses(t *testing.T) {
	source := counted(2, "PT10S")
	s := newStage(t, source)
	s.ledger.UseDelivery(unsent{})
	s.answer("sink", refuse(503, transport.Retry))
	s.happens(t, "cart", lifecycle.Created)
	now := time.Now()
	for tries := int64(1); tries <= 2; tries++ {
		again, a := once(t, s, source, now)
		if a.Tries != tries || a.Failures != tries || a.Sequence != 1 || !a.NotBefore.Time.Equal(now.Add(again)) {
			t.Fatalf("attempt %d: %+v, again after %s", tries, a, again)
		}
		s.stored(a)
		if early, b := once(t, s, source, now.Add(again/2)); b.Tries != tries || early != again-again/2 {
			t.Fatalf("it was not left alone: %+v, again after %s", b, early)
		}
		now = now.Add(again)
	}
	if again, _ := once(t, s, source, now); again != 0 || s.lettered() != 1 {
		t.Errorf("after all retries: again after %s, %d dead letters", again, s.lettered())
	}
}

// What is known of the former sink says nothing about the next one.
func TestAttemptsBelongToSink(t *testing.T) {
	source := counted(2, "PT10S")
	s := newStage(t, source)
	s.ledger.UseDelivery(unsent{})
	s.answer("sink", refuse(503, transport.Retry))
	s.happens(t, "cart", lifecycle.Created)
	now := time.Now()
	_, a := once(t, s, source, now)
	s.stored(a)
	moved := source.DeepCopy()
	moved.Status.SinkURI = apis.HTTP("up")
	if again, _ := once(t, s, moved, now); again != 0 || len(s.received()) != 1 {
		t.Errorf("again after %s, received %q", again, s.received())
	}
}

// A time that a process with a wrong clock has noted, years ahead, does not hold an event back for years: the wait is at
// most the longest that the source has between two attempts.
func TestAttemptsOfAWrongClock(t *testing.T) {
	for name, source := range map[string]*v1alpha1.CDEventSource{"default": counted(9, "PT1S"), "a day": counted(9, "P1D")} {
		s := newStage(t, source)
		s.ledger.UseDelivery(unsent{})
		s.answer("sink", refuse(503, transport.Retry))
		s.happens(t, "cart", lifecycle.Created)
		now := time.Now()
		_, a := once(t, s, source, now.AddDate(10, 0, 0))
		s.stored(a)
		most := map[string]time.Duration{"default": 5 * time.Minute, "a day": 24 * time.Hour}[name]
		again, b := once(t, s, source, now)
		if again <= 0 || again > most || b.Tries != 1 || b.NotBefore.Sub(now) != again {
			t.Errorf("%s: left alone for %s, %+v", name, again, b)
		}
		s.stored(b)
		s.answer("sink", nil)
		if again, _ := once(t, s, source, now.Add(again)); again != 0 {
			t.Errorf("%s: later, left alone for %s", name, again)
		}
	}
}

// noQueue leaves all work to the test.
type noQueue struct{}

func (noQueue) Add(ledger.Key) {}
func (noQueue) Idle() bool     { return true }
func (noQueue) Close()         {}
func (noQueue) Wait()          {}

type unsent struct{}

func (unsent) Enqueue(ledger.Key, types.UID)                 {}
func (unsent) LeftOut(ledger.Key, []types.UID)               {}
func (unsent) Refused(ledger.Key, types.UID, ledger.Refusal) {}
