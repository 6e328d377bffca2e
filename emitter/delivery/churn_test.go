// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"k8s.io/apimachinery/pkg/types"
	eventingduckv1 "knative.dev/eventing/pkg/apis/duck/v1"
	"knative.dev/pkg/apis"
	"knative.dev/pkg/reconciler"

	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// moody is a sink that accepts some events, some of them without an answer.
type moody struct {
	mu   sync.Mutex
	calm bool
	// got are the events by subject, in the order in which they first arrived.
	got  map[string][]string
	seen map[string]bool
}

func (m *moody) Forget(types.UID) {}

func (m *moody) Send(ctx context.Context, _ transport.Target, ev event.Event, _ transport.Policy) transport.Outcome {
	m.mu.Lock()
	calm := m.calm
	m.mu.Unlock()
	out, accepts := accepted, true
	if !calm {
		time.Sleep(time.Duration(rand.IntN(3)) * time.Millisecond)
		switch rand.IntN(12) {
		case 0:
			out, accepts = transport.Outcome{Class: transport.Retry, Status: 503, Err: errors.New("503")}, false
		case 1:
			out, accepts = transport.Outcome{Class: transport.Retry, Status: 429, RetryAfter: 20 * time.Millisecond, Err: errors.New("429")}, false
		case 2:
			out, accepts = transport.Outcome{Class: transport.Unauthorized, Status: 401, Err: errors.New("401")}, false
		case 3:
			out = transport.Outcome{Class: transport.Retry, Err: errors.New("no answer in time")}
		}
	}
	if ctx.Err() != nil {
		return transport.Outcome{Class: transport.Retry, Err: ctx.Err()}
	}
	if accepts {
		m.mu.Lock()
		defer m.mu.Unlock()
		if !m.seen[ev.ID()] {
			m.seen[ev.ID()] = true
			m.got[ev.Subject()] = append(m.got[ev.Subject()], ev.Time().Format("15:04:05.000000"))
		}
	}
	return out
}

// The source changes, and the lead goes and comes, while events happen and the sink has its moods. Each event arrives,
// and first after those before it.
func TestNothingIsLostInChurn(t *testing.T) {
	t.Parallel()
	src := sourceTo("all", "sink")
	src.Spec.Delivery = &eventingduckv1.DeliverySpec{BackoffDelay: ptr("PT0.1S"), BackoffPolicy: ptr(eventingduckv1.BackoffPolicyLinear)}
	s := newStage(t, src)
	sink := &moody{got: map[string][]string{}, seen: map[string]bool{}}
	s.Transport = sink
	var wg sync.WaitGroup
	const objects, each = 8, 40
	done := make(chan struct{})
	for i := range objects {
		wg.Go(func() {
			for range each {
				s.happens(t, fmt.Sprintf("cart-%d", i), lifecycle.Deployed)
				time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
			}
		})
	}
	var churn sync.WaitGroup
	latest := src
	churn.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			case <-time.After(time.Duration(rand.IntN(30)) * time.Millisecond):
			}
			changed := latest.DeepCopy()
			switch rand.IntN(5) {
			case 0:
				changed.Generation++
				changed.Spec.Delivery.Timeout = ptr(fmt.Sprintf("PT%dS", 1+n%50))
			case 1:
				changed.Status.SinkURI = apis.HTTP(fmt.Sprintf("sink-%d", n%3))
			case 2:
				changed.Status.SinkURI = nil
			default:
				changed.Status.ObservedGeneration = changed.Generation
				if changed.Status.SinkURI == nil {
					changed.Status.SinkURI = apis.HTTP("sink")
				}
			}
			latest = changed
			s.UpdateSource(changed)
		}
	})
	churn.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(time.Duration(rand.IntN(60)) * time.Millisecond):
			}
			s.mu.Lock()
			s.leads = !s.leads
			leads := s.leads
			s.mu.Unlock()
			if leads {
				s.Promoted(reconciler.UniversalBucket())
			} else {
				s.ledger.HandOver(reconciler.UniversalBucket().Has)
				s.Demoted(reconciler.UniversalBucket())
			}
		}
	})
	wg.Wait()
	close(done)
	churn.Wait()
	sink.mu.Lock()
	sink.calm = true
	sink.mu.Unlock()
	s.lead()
	latest = latest.DeepCopy()
	latest.Status.ObservedGeneration, latest.Status.SinkURI = latest.Generation, apis.HTTP("sink")
	s.UpdateSource(latest)
	s.eventually(t, "nothing is pending", func() bool { return s.pending(src.UID) == 0 })
	sink.mu.Lock()
	defer sink.mu.Unlock()
	for subject, all := range sink.got {
		for i, at := range all {
			if i > 0 && at < all[i-1] {
				t.Errorf("%s: %s arrives after %s", subject, at, all[i-1])
			}
		}
		if len(all) != each {
			t.Errorf("%s: %d events, want %d", subject, len(all), each)
		}
	}
	if len(sink.got) != objects {
		t.Errorf("events about %d objects", len(sink.got))
	}
}
