// SPDX-License-Identifier: Apache-2.0

// Package sink is a sink for tests that need no HTTP, and metrics that nobody reads.
//
// Its invariant: an event that comes twice counts once, and with other bytes it is a fault.
package sink

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
)

// OtherBytes is what Got has for an event that came again with other bytes.
const OtherBytes = "the same id with other bytes"

var errDown = errors.New("503")

// Sink is a transport.Transport that leads to one sink. Its zero value accepts all events.
type Sink struct {
	mu   sync.Mutex
	down bool
	got  []string
	// bodies are those of the events by id.
	bodies map[string]string
}

var _ transport.Transport = (*Sink)(nil)

// SetDown has the sink refuse events for now, or accept them again.
func (s *Sink) SetDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// Send implements transport.Transport.
func (s *Sink) Send(_ context.Context, _ transport.Target, ev event.Event, _ transport.Policy) transport.Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return transport.Outcome{Class: transport.Retry, Status: 503, Err: errDown}
	}
	raw, err := ev.MarshalJSON()
	if err != nil {
		return transport.Outcome{Class: transport.Poison, Err: err}
	}
	switch had, ok := s.bodies[ev.ID()]; {
	case ok && had != string(raw):
		s.got = append(s.got, OtherBytes)
	case !ok:
		if s.bodies == nil {
			s.bodies = map[string]string{}
		}
		s.bodies[ev.ID()] = string(raw)
		s.got = append(s.got, strings.Split(ev.Type(), ".")[3])
	}
	return transport.Outcome{Class: transport.Acknowledged, Status: 202}
}

// Forget implements transport.Transport.
func (*Sink) Forget(types.UID) {}

// Got returns what has come since Take was called last: "created" for an event of type
// dev.cdeventsx.knative-service.created.
func (s *Sink) Got() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

// Take returns what Got does, and forgets it.
func (s *Sink) Take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	got := s.got
	s.got = nil
	return got
}

// Uncounted are the metrics of a ledger and of a delivery. Nobody reads them.
type Uncounted struct{}

// Conflict implements ledger.Metrics.
func (Uncounted) Conflict() {}

// Refused implements ledger.Metrics.
func (Uncounted) Refused() {}

// Dropped implements ledger.Metrics.
func (Uncounted) Dropped(string, int64) {}

// Attempt implements delivery.Metrics.
func (Uncounted) Attempt(string, string) {}

// Delivered implements delivery.Metrics.
func (Uncounted) Delivered(string, string, time.Duration) {}

// Incomplete implements delivery.Metrics.
func (Uncounted) Incomplete(string) {}

// DeadLetter implements delivery.Metrics.
func (Uncounted) DeadLetter(string) {}
