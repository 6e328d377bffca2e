// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"fmt"
	"strings"
	"testing"
	"time"

	eventingduckv1 "knative.dev/eventing/pkg/apis/duck/v1"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"

	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

func TestPoison(t *testing.T) {
	t.Run("without a dead letter sink it is dropped and counted", func(t *testing.T) {
		s := newStage(t, sourceTo("all", "sink"))
		first := true
		s.answer("sink", func() transport.Outcome {
			if first {
				first = false
				return refuse(400, transport.Poison)()
			}
			return accepted
		})
		s.happens(t, "cart", lifecycle.Created, lifecycle.Deployed)
		s.eventually(t, "the second event is delivered", func() bool { return s.pending("uid-all") == 0 })
		if got := s.received(); len(got) != 1 || !strings.HasSuffix(got[0], "deployed") || s.dropped[ledger.DroppedRejected] != 1 {
			t.Errorf("got %q, dropped %v", got, s.dropped)
		}
	})
	t.Run("with a dead letter sink it goes there with the reason", func(t *testing.T) {
		src := sourceTo("all", "sink")
		src.Spec.Delivery = &eventingduckv1.DeliverySpec{DeadLetterSink: &duckv1.Destination{URI: apis.HTTP("letters")}}
		src.Status.DeadLetterSinkURI = apis.HTTP("letters")
		s := newStage(t, src)
		s.answer("sink", refuse(400, transport.Poison))
		s.happens(t, "cart", lifecycle.Created)
		s.eventually(t, "the dead letter is delivered", func() bool { return s.pending("uid-all") == 0 })
		if len(s.letters) != 1 || s.letters[0].Extensions()["knativeerrorcode"] != int32(400) || len(s.dropped) > 0 {
			t.Errorf("letters %v, dropped %v", s.letters, s.dropped)
		}
	})
	t.Run("with a dead letter sink that has no address yet it waits", func(t *testing.T) {
		src := sourceTo("all", "sink")
		src.Spec.Delivery = &eventingduckv1.DeliverySpec{DeadLetterSink: &duckv1.Destination{URI: apis.HTTP("letters")}}
		s := newStage(t, src)
		s.answer("sink", refuse(400, transport.Poison))
		s.happens(t, "cart", lifecycle.Created)
		time.Sleep(50 * time.Millisecond)
		if s.pending("uid-all") != 1 || len(s.dropped) > 0 {
			t.Errorf("%d pending, dropped %v", s.pending("uid-all"), s.dropped)
		}
	})
}

func TestRetriesThenDeadLetter(t *testing.T) {
	src := sourceTo("all", "sink")
	src.Spec.Delivery = &eventingduckv1.DeliverySpec{
		Retry: ptr(int32(2)), BackoffDelay: ptr("PT0.1S"), DeadLetterSink: &duckv1.Destination{URI: apis.HTTP("letters")},
	}
	src.Status.DeadLetterSinkURI = apis.HTTP("letters")
	s := newStage(t, src)
	tries := 0
	s.answer("sink", func() transport.Outcome { tries++; return refuse(500, transport.Retry)() })
	s.happens(t, "cart", lifecycle.Created)
	s.eventually(t, "the dead letter is delivered", func() bool { return s.pending("uid-all") == 0 })
	if tries != 3 || len(s.letters) != 1 {
		t.Errorf("%d tries, %d dead letters", tries, len(s.letters))
	}
}

func TestDeadLettersPassAnOpenBreaker(t *testing.T) {
	src := sourceTo("all", "sink")
	src.Spec.Delivery = &eventingduckv1.DeliverySpec{
		Retry: ptr(int32(1)), BackoffDelay: ptr("PT0.1S"), DeadLetterSink: &duckv1.Destination{URI: apis.HTTP("letters")},
	}
	src.Status.DeadLetterSinkURI = apis.HTTP("letters")
	s := newStage(t, src)
	s.ProbeEvery = time.Hour
	s.answer("sink", refuse(503, transport.Retry))
	for i := range 40 {
		s.happens(t, fmt.Sprintf("cart-%d", i), lifecycle.Created)
	}
	s.eventually(t, "40 dead letters are delivered", func() bool { return s.pending("uid-all") == 0 })
	if len(s.letters) != 40 {
		t.Errorf("%d dead letters", len(s.letters))
	}
}

// An event is kept if the credentials are rejected or the sink redirects. It never goes to the
// dead letter sink.
func TestKeptEventsNeverBecomeDeadLetters(t *testing.T) {
	for _, class := range []transport.Class{transport.Unauthorized, transport.Redirected} {
		src := sourceTo("all", "sink")
		src.Spec.Delivery = &eventingduckv1.DeliverySpec{
			Retry: ptr(int32(0)), BackoffDelay: ptr("PT0.1S"), DeadLetterSink: &duckv1.Destination{URI: apis.HTTP("letters")},
		}
		src.Status.DeadLetterSinkURI = apis.HTTP("letters")
		s := newStage(t, src)
		s.answer("sink", refuse(401, class))
		for i := range 20 {
			s.happens(t, fmt.Sprintf("cart-%d", i), lifecycle.Created)
		}
		s.eventually(t, "the breaker opens", func() bool { return s.Breakers()["shop/all"] })
		time.Sleep(200 * time.Millisecond)
		if n := s.pending("uid-all"); n != 20 {
			t.Errorf("%v: %d of 20 are pending", class, n)
		}
		s.answer("sink", nil)
		s.eventually(t, "all events are delivered", func() bool { return s.pending("uid-all") == 0 })
		if len(s.letters) > 0 {
			t.Errorf("%v: %d dead letters", class, len(s.letters))
		}
	}
}
