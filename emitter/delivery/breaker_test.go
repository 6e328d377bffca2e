// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"errors"
	"fmt"
	"testing"
	"time"

	eventingduckv1 "knative.dev/eventing/pkg/apis/duck/v1"

	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

func TestBreakerProbesAndRecovers(t *testing.T) {
	src := sourceTo("all", "sink")
	src.Spec.Delivery = &eventingduckv1.DeliverySpec{BackoffDelay: ptr("PT0.1S")}
	s := newStage(t, src)
	down, tries := true, 0
	s.answer("sink", func() transport.Outcome {
		s.mu.Lock()
		defer s.mu.Unlock()
		tries++
		if down {
			return refuse(503, transport.Retry)()
		}
		return accepted
	})
	for i := range 30 {
		s.happens(t, fmt.Sprintf("cart-%d", i), lifecycle.Created)
	}
	time.Sleep(500 * time.Millisecond)
	s.mu.Lock()
	during := tries
	down = false
	s.mu.Unlock()
	if during > 40 {
		t.Errorf("%d attempts for 30 events while the sink is down, want at most 40", during)
	}
	s.eventually(t, "all events are delivered", func() bool { return s.pending("uid-all") == 0 })
}

func TestRecoveredSinkReceivesEverythingAtOnce(t *testing.T) {
	src := sourceTo("all", "sink")
	src.Spec.Delivery = &eventingduckv1.DeliverySpec{BackoffDelay: ptr("PT60S")}
	s := newStage(t, src)
	s.answer("sink", refuse(503, transport.Retry))
	for i := range 8 {
		s.happens(t, fmt.Sprintf("cart-%d", i), lifecycle.Created)
	}
	s.eventually(t, "the breaker opens", func() bool { return s.Breakers()["shop/all"] })
	s.answer("sink", nil)
	s.eventually(t, "all events are delivered, without waiting for the backoff of a minute", func() bool { return s.pending("uid-all") == 0 })
}

var errAny = errors.New("any")

func TestHealth(t *testing.T) {
	for class, healthy := range map[transport.Class]bool{
		transport.Acknowledged: true, transport.Poison: true, transport.Retry: false, transport.Unauthorized: false, transport.Redirected: false,
	} {
		if got := health(transport.Outcome{Class: class, Status: 401, Err: errAny}) == nil; got != healthy {
			t.Errorf("%v: healthy %v", class, got)
		}
	}
	if health(transport.Outcome{Class: transport.Unauthorized, Err: errAny}) != nil {
		t.Error("a sink counts as unhealthy although no credentials were sent to it")
	}
}
