// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	eventingduckv1 "knative.dev/eventing/pkg/apis/duck/v1"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// counted returns a source whose events go to a dead letter sink after some retries.
func counted(retry int32, delay string) *v1alpha1.CDEventSource {
	s := sourceTo("all", "sink")
	s.Spec.Delivery = &eventingduckv1.DeliverySpec{
		Retry: &retry, BackoffDelay: &delay, DeadLetterSink: &duckv1.Destination{URI: apis.HTTP("letters")},
	}
	s.Status.DeadLetterSinkURI = apis.HTTP("letters")
	return s
}

// log records when a sink received requests.
type log struct {
	mu    sync.Mutex
	times []time.Duration
	start time.Time
}

func (s *stage) record(host string, answer func() transport.Outcome) *log {
	l := &log{start: time.Now()}
	s.answer(host, func() transport.Outcome {
		l.mu.Lock()
		l.times = append(l.times, time.Since(l.start))
		l.mu.Unlock()
		return answer()
	})
	return l
}

func (s *stage) lettered() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.letters)
}

// within counts the requests in a period.
func (l *log) within(from, to time.Duration) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, at := range l.times {
		if from <= at && at < to {
			n++
		}
	}
	return n
}

// New events of the same object, such as five steps of a rollout, cause no early retry.
func TestNewEventsAreNotRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, counted(3, "PT5M"))
		sink := s.record("sink", refuse(503, transport.Retry))
		for range 5 {
			s.happens(t, "cart", lifecycle.Upgraded)
			time.Sleep(300 * time.Millisecond)
		}
		s.Resume()
		s.UpdateSource(counted(3, "PT5M")) // no relevant change
		time.Sleep(time.Minute)
		if n := sink.within(0, time.Hour); n != 1 || s.lettered() != 0 || s.pending("uid-all") != 5 {
			t.Errorf("%d requests, %d dead letters, %d pending", n, s.lettered(), s.pending("uid-all"))
		}
		// The delay doubles but is capped at 5 min, and varies by a fifth.
		time.Sleep(16 * time.Minute)
		if n := sink.within(0, time.Hour); n < 4 || s.lettered() == 0 {
			t.Errorf("%d requests, %d dead letters", n, s.lettered())
		}
		if early := sink.within(time.Nanosecond, 4*time.Minute); early != 0 {
			t.Errorf("%d early requests: %v", early, sink.times)
		}
	})
}

// A short outage does not use up the retries of waiting events, however many there are.
func TestShortOutageCausesNoDeadLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, counted(10, "PT10M"))
		s.ProbeEvery = 5 * time.Second
		sink := s.record("sink", refuse(503, transport.Retry))
		for i := range 20 {
			s.happens(t, fmt.Sprintf("cart-%d", i), lifecycle.Created)
		}
		time.Sleep(90 * time.Second)
		if n := sink.within(0, time.Hour); n != 20 || s.lettered() != 0 {
			t.Errorf("%d requests, %d dead letters", n, s.lettered())
		}
		again := s.record("sink", func() transport.Outcome { return accepted })
		s.happens(t, "another", lifecycle.Created)
		time.Sleep(time.Second)
		if again.within(0, time.Hour) != 1 {
			t.Errorf("requests at %v", again.times)
		}
		if s.Breakers()["shop/all"] {
			t.Error("the breaker is open, although the sink took an event")
		}
		time.Sleep(11 * time.Minute)
		if s.pending("uid-all") != 0 || s.lettered() != 0 || again.within(0, time.Hour) != 21 {
			t.Errorf("%d pending, %d dead letters, %d requests", s.pending("uid-all"), s.lettered(), again.within(0, time.Hour))
		}
		if early := again.within(time.Second, 6*time.Minute); early != 0 {
			t.Errorf("%d early requests", early)
		}
	})
}

// An event becomes a dead letter only after all attempts were made, with their delays.
func TestDeadLetterAfterAllRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, counted(2, "PT100S"))
		sink := s.record("sink", refuse(503, transport.Retry))
		for i := range 30 {
			s.happens(t, fmt.Sprintf("cart-%d", i), lifecycle.Created)
		}
		time.Sleep(time.Hour)
		if n := sink.within(0, 2*time.Hour); n != 90 || s.lettered() != 30 {
			t.Errorf("%d requests, %d dead letters", n, s.lettered())
		}
		if n := sink.within(0, 80*time.Second); n != 30 {
			t.Errorf("%d requests in the first 80 s", n)
		}
	})
}

// Rejected credentials keep the event, so they use up no retries.
func TestUnauthorizedUsesUpNoRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, counted(1, "PT1S"))
		s.answer("sink", refuse(401, transport.Unauthorized))
		s.happens(t, "cart", lifecycle.Created)
		time.Sleep(time.Hour)
		sink := s.record("sink", refuse(503, transport.Retry))
		time.Sleep(30 * time.Minute)
		if sink.within(0, time.Hour) != 2 || s.lettered() != 1 {
			t.Errorf("%d dead letters after requests at %v", s.lettered(), sink.times)
		}
	})
}

func later(after time.Duration) func() transport.Outcome {
	return func() transport.Outcome {
		out := refuse(429, transport.Retry)()
		out.RetryAfter = after
		return out
	}
}

// Retry-After applies to all events for the sink.
func TestRetryAfterHoldsForTheSink(t *testing.T) {
	for name, source := range map[string]*v1alpha1.CDEventSource{"kept": sourceTo("all", "sink"), "counted": counted(10, "PT1S")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, source, sourceTo("other", "other"))
				s.ProbeEvery = 5 * time.Second
				answer := later(5 * time.Minute)
				sink := s.record("sink", func() transport.Outcome { time.Sleep(10 * time.Millisecond); return answer() })
				for i := range 40 {
					s.happens(t, fmt.Sprintf("cart-%d", i), lifecycle.Created)
				}
				for i := range 28 {
					time.Sleep(10 * time.Second)
					s.happens(t, fmt.Sprintf("cart-%d", i), lifecycle.Upgraded)
				}
				time.Sleep(time.Second)
				// Only the requests that were in flight when the first response came.
				if n := sink.within(0, 5*time.Minute); n < 1 || n > s.WorkersPerSource {
					t.Errorf("%d requests despite Retry-After: %v", n, sink.times)
				}
				if s.pending("uid-other") != 0 {
					t.Errorf("%d pending for another sink", s.pending("uid-other"))
				}
				time.Sleep(5 * time.Minute)
				if n := sink.within(5*time.Minute, 10*time.Minute); n != 1 {
					t.Errorf("%d requests after the first pause: %v", n, sink.times)
				}
				s.answer("sink", nil)
				time.Sleep(11 * time.Minute)
				if n := s.pending("uid-all"); n != 0 || s.lettered() > 0 {
					t.Errorf("%d pending, %d dead letters", n, s.lettered())
				}
			})
		})
	}
}

// A dead letter sink may send Retry-After too.
func TestRetryAfterOfTheDeadLetterSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, counted(0, "PT1S"))
		s.answer("sink", refuse(400, transport.Poison))
		letters := s.record("letters", later(5*time.Minute))
		for i := range 20 {
			s.happens(t, fmt.Sprintf("cart-%d", i), lifecycle.Created)
		}
		time.Sleep(4 * time.Minute)
		if n := letters.within(0, time.Hour); n < 1 || n > s.WorkersPerSource {
			t.Errorf("%d requests", n)
		}
		s.answer("letters", nil)
		time.Sleep(10 * time.Minute)
		if s.pending("uid-all") != 0 || s.lettered() != 20 {
			t.Errorf("%d pending, %d dead letters", s.pending("uid-all"), s.lettered())
		}
	})
}

// After the sink of a source changes, its events are sent at once and have all their retries.
func TestNewSinkStartsWithAllRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, counted(1, "PT10M"))
		s.answer("sink", later(5*time.Minute))
		s.happens(t, "cart", lifecycle.Created)
		time.Sleep(time.Second)
		moved := counted(1, "PT10M")
		moved.Generation, moved.Status.ObservedGeneration, moved.Status.SinkURI = 2, 2, apis.HTTP("moved")
		asked := s.record("moved", refuse(503, transport.Retry))
		s.UpdateSource(moved)
		time.Sleep(time.Second)
		if asked.within(0, time.Second) != 1 || s.lettered() > 0 {
			t.Errorf("requests at %v, %d dead letters", asked.times, s.lettered())
		}
		// Other changes of the source cause no early retry.
		relabelled := moved.DeepCopy()
		relabelled.Generation, relabelled.Status.ObservedGeneration, relabelled.Spec.Replay = 3, 3, v1alpha1.ReplayCurrent
		s.UpdateSource(relabelled)
		time.Sleep(time.Minute)
		if n := asked.within(0, time.Hour); n != 1 {
			t.Errorf("requests at %v", asked.times)
		}
	})
}

// When the trusted certificates change, all sinks are retried at once.
func TestChangedTrustRetriesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, counted(1, "PT10M"))
		s.answer("sink", refuse(0, transport.Retry))
		s.happens(t, "cart", lifecycle.Created)
		time.Sleep(time.Second)
		s.answer("sink", nil)
		s.Resume()
		time.Sleep(time.Second)
		if s.pending("uid-all") != 1 {
			t.Error("the event was sent before its retry was due")
		}
		s.TrustChanged()
		time.Sleep(time.Second)
		if s.pending("uid-all") != 0 || s.lettered() != 0 {
			t.Errorf("%d pending, %d dead letters", s.pending("uid-all"), s.lettered())
		}
	})
}

func TestRetriesAreForgotten(t *testing.T) {
	var a retries
	for i := range 100 {
		a.failed(ledger.Key{Name: fmt.Sprint(i)}, ledger.Pending{Name: "x"}, transport.Outcome{})
	}
	a.pause("sink", time.Now())
	a.forget(func(ledger.Key, retry) bool { return true })
	time.Sleep(time.Millisecond)
	if a.pausedFor("sink", time.Now()) != 0 || len(a.paused) != 0 || a.byObject != nil {
		t.Errorf("%+v", a)
	}
}
