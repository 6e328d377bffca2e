// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"context"
	"sync"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/cdevents"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// Ledger is the part of the ledger that delivery uses.
type Ledger interface {
	Pending(key ledger.Key, source types.UID) []ledger.Pending
	// Holds reports whether an event is still pending.
	Holds(p ledger.Pending, source types.UID) bool
	Backlogs() map[types.UID]ledger.Backlog
	// Admit waits until the acknowledgement of an event of the CDEventSubject can be held. It returns false if it
	// cannot be yet.
	Admit(ctx context.Context, name string) bool
	Acknowledge(p ledger.Pending, source types.UID)
	Drop(p ledger.Pending, source types.UID, reason string)
	Abandon(source types.UID, leads func(types.NamespacedName) bool)
}

// Metrics counts what is tried.
type Metrics interface {
	// Attempt counts an attempt; class is 2xx, 4xx, …, or "none" without an answer.
	Attempt(source, class string)
	// Delivered counts an acknowledged event, and the time since its transition was observed.
	Delivered(source, eventType string, took time.Duration)
	// Incomplete counts an acknowledged event that lacks something, and says so.
	Incomplete(source string)
	// DeadLetter counts an event that the dead letter sink has accepted.
	DeadLetter(source string)
}

// Filters are those of all sources. route.Filters implements it.
type Filters interface {
	// Passes applies a source's filters to an event to which they could not be applied
	// when it was journaled.
	Passes(source *v1alpha1.CDEventSource, ev event.Event) (bool, error)
}

// Tracer follows what is sent.
type Tracer interface {
	// Attempt begins the span of an attempt to send the event of a transition, and returns a function that ends it.
	Attempt(t lifecycle.Transition, event, source string) func(transport.Outcome)
}

// Leader says what this process delivers for.
type Leader interface {
	IsLeaderFor(object types.NamespacedName) bool
}

// Options configure a Delivery.
type Options struct {
	Ledger Ledger
	// Transport makes the attempts: a transport.Registry.
	Transport transport.Transport
	Render    cdevents.Renderer
	Filters   Filters
	Metrics   Metrics
	// Tracer is nil if nothing is traced.
	Tracer Tracer
	Leader Leader
	// Now is the clock of retries and pauses; nil for that of the machine.
	Now func() time.Time
	// Random spreads retries; nil for math/rand.
	Random func() float64
	// WorkersPerSource bounds how many attempts at one sink are under way; 0 for 16.
	WorkersPerSource int
	// NewQueue makes the queue of a source; nil for one with WorkersPerSource workers.
	NewQueue func(source types.UID, w Work) Queue
	// ProbeEvery is how long an open breaker waits before it lets one attempt through; 0
	// for 5 s.
	ProbeEvery time.Duration
}

// defaultWorkers is how many attempts at one sink are under way at most.
const defaultWorkers = 16

// Delivery holds the queues of all sources.
type Delivery struct {
	Options

	mu     sync.Mutex
	queues map[types.UID]*sourceQueue
	ctx    context.Context //nolint:containedctx // the life of all queues, not of one call
	closed bool
	// stopping counts the queues of deleted sources that have not ended yet.
	stopping sync.WaitGroup

	backlogs cachedBacklogs
}

// New returns a Delivery whose queues live until ctx ends.
func New(ctx context.Context, o Options) *Delivery {
	if o.WorkersPerSource == 0 {
		o.WorkersPerSource = defaultWorkers
	}
	if o.NewQueue == nil {
		o.NewQueue = func(_ types.UID, w Work) Queue { return &workers{most: o.WorkersPerSource, work: w} }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.ProbeEvery == 0 {
		o.ProbeEvery = probeEvery
	}
	return &Delivery{Options: o, queues: map[types.UID]*sourceQueue{}, ctx: ctx}
}
