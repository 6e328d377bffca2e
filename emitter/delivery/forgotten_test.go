// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"sync/atomic"
	"testing"

	eventingduckv1 "knative.dev/eventing/pkg/apis/duck/v1"
	"knative.dev/pkg/apis"

	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// An object is forgotten, and announced anew. Its new event has as many retries as any other.
func TestEventInheritsNoFailuresOfAForgottenOne(t *testing.T) {
	src := sourceTo("all", "sink")
	src.Spec.Delivery = &eventingduckv1.DeliverySpec{Retry: ptr(int32(3)), BackoffDelay: ptr("PT0.2S"), BackoffPolicy: ptr(eventingduckv1.BackoffPolicyLinear)}
	src.Status.DeadLetterSinkURI = apis.HTTP("letters")
	s := newStage(t, src)
	var attempts atomic.Int64
	s.answer("sink", func() transport.Outcome { attempts.Add(1); return refuse(503, transport.Retry)() })
	s.happens(t, "cart", lifecycle.Created)
	s.eventually(t, "three attempts", func() bool { return attempts.Load() == 3 })
	s.forget(t)
	s.happens(t, "cart", lifecycle.Deployed)
	s.eventually(t, "a dead letter", func() bool { return len(s.received()) > 0 })
	if n := attempts.Load() - 3; n != 4 {
		t.Errorf("the new event went to the dead letter sink after %d attempts, want 4", n)
	}
}

// An object is forgotten while the first of its pending events is under way. The others, which are counted as dropped,
// are not sent.
func TestForgottenEventsAreNotSent(t *testing.T) {
	src := sourceTo("all", "sink")
	s := newStage(t, src)
	under, forgotten := make(chan struct{}, 1), make(chan struct{})
	s.answer("sink", func() transport.Outcome {
		select {
		case under <- struct{}{}:
			<-forgotten
		default:
		}
		return accepted
	})
	s.leads = false
	s.happens(t, "cart", lifecycle.Created, lifecycle.Deployed, lifecycle.Published)
	s.lead()
	<-under
	s.forget(t)
	close(forgotten)
	s.eventually(t, "nothing is under way", func() bool { return s.queueOf(src.UID).queue.Idle() })
	if got := s.received(); len(got) != 1 {
		t.Errorf("got %q, want the event that was under way", got)
	}
}
