// Package delivery sends what the ledger says is owed, and nothing else.
//
// Its invariants: each source has a source queue of its own, with its own queue, workers,
// connections and breaker, so that a dead or slow sink delays nobody else;
// within a source queue, what happened to one object is sent in the order in which it
// happened, one at a time; an event leaves the ledger only when its sink (or
// its dead letter sink) has taken it, or with a counted reason.
package delivery

import (
	"context"
	"sync"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/reconciler"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// Ledger is the part of the ledger that is needed here.
type Ledger interface {
	Owed(key ledger.Key, source types.UID) []ledger.Owed
	Standings() map[types.UID]ledger.Standing
	Acknowledge(line string, source types.UID, sequence int64)
	GiveUp(line string, source types.UID, sequence int64, reason string)
	Abandon(source types.UID, leads func(types.NamespacedName) bool)
}

// Renderer makes the event of a journaled transition: always the same bytes.
type Renderer func(v1alpha1.Profile, v1alpha1.CDEventSubjectSpec, lifecycle.Transition) (event.Event, error)

// Metrics is told of everything that is tried.
type Metrics interface {
	// Attempt is one send; class is 2xx, 4xx, …, or "none" without an answer.
	Attempt(source, class string)
	// Delivered is an acknowledged event and how long it took since it was observed.
	Delivered(source, eventType string, took time.Duration)
	// Incomplete is such an event that lacks something, and says so.
	Incomplete(source string)
	// DeadLetter is an event that went to the dead letter sink.
	DeadLetter(source string)
}

// Options are what the delivery is made from.
type Options struct {
	Ledger Ledger
	// Transports make the attempts.
	Transports Transports
	Render     Renderer
	// Passes applies a source's filters to an event for which that could not be
	// done when it was journaled.
	Passes func(*v1alpha1.CDEventSource, event.Event) (bool, error)
	// Incomplete says whether an event lacks something; nil for never.
	Incomplete func(event.Event) bool
	Metrics    Metrics
	// Leads says whether this process delivers for a watched object.
	Leads func(types.NamespacedName) bool
	// WorkersPerSource bounds how many attempts at one sink are under way.
	WorkersPerSource int
	// NewQueue makes the queue of a source; nil for one with WorkersPerSource workers.
	NewQueue func(Work) Queue
	// ProbeEvery is how long an open breaker waits before one send is tried.
	ProbeEvery time.Duration
}

// Delivery holds the queues.
type Delivery struct {
	Options

	mu     sync.Mutex
	queues map[types.UID]*sourceQueue
	ctx    context.Context //nolint:containedctx // the life of all queues, not of one call
	closed bool
	// leaving are the queues of sources that were deleted, until they have ended.
	leaving sync.WaitGroup

	standings cachedStandings
}

// defaultWorkers is how many sends to one sink are under way at most.
const defaultWorkers = 16

// New returns a delivery whose queues live until ctx ends.
func New(ctx context.Context, o Options) *Delivery {
	if o.WorkersPerSource == 0 {
		o.WorkersPerSource = defaultWorkers
	}
	if o.NewQueue == nil {
		o.NewQueue = func(w Work) Queue { return newWorkers(o.WorkersPerSource, w) }
	}
	if o.ProbeEvery == 0 {
		o.ProbeEvery = probeEvery
	}
	return &Delivery{Options: o, queues: map[types.UID]*sourceQueue{}, ctx: ctx}
}

// Source tells of a source that is new or was changed.
func (d *Delivery) Source(s *v1alpha1.CDEventSource) {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return
	}
	q, ok := d.queues[s.UID]
	if !ok {
		q = newSourceQueue(d, s)
		d.queues[s.UID] = q
	}
	d.mu.Unlock()
	if q.takeOver(s) || !ok {
		d.enqueueAll(s.UID)
	}
}

// Gone tells of a source that was deleted: nothing is owed to it any more.
func (d *Delivery) Gone(uid types.UID) {
	d.mu.Lock()
	q, ok := d.queues[uid]
	delete(d.queues, uid)
	d.mu.Unlock()
	// Not here: the informer that tells of it has others to tell of.
	d.leaving.Go(func() {
		if ok {
			q.stop()
		}
		d.Transports.forget(uid)
		d.Ledger.Abandon(uid, d.Leads)
	})
}

// Sweep gives up what is owed to sources that do not exist, until ctx ends. A
// source must be missing twice in a row: the cache may lag behind the ledger.
func (d *Delivery) Sweep(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	suspect := map[types.UID]bool{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		missing := map[types.UID]bool{}
		for uid := range d.Ledger.Standings() {
			d.mu.Lock()
			_, known := d.queues[uid]
			d.mu.Unlock()
			switch {
			case known:
			case suspect[uid]:
				d.Ledger.Abandon(uid, d.Leads)
			default:
				missing[uid] = true
			}
		}
		suspect = missing
	}
}

// Owed is told by the ledger that something new is owed.
func (d *Delivery) Owed(key ledger.Key, source types.UID) {
	d.mu.Lock()
	q := d.queues[source]
	d.mu.Unlock()
	if q != nil {
		q.queue.Add(key)
	}
}

// Promoted is told that this process delivers for more objects than before.
func (d *Delivery) Promoted(reconciler.Bucket) { d.Resume() }

// Demoted is told that another process delivers for some objects from now on. What
// went wrong with them is not for this one to say any more.
func (d *Delivery) Demoted(b reconciler.Bucket) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, q := range d.queues {
		q.yield(b)
	}
}

// Resume puts everything that is owed into the queues.
func (d *Delivery) Resume() {
	for source, standing := range d.Ledger.Standings() {
		for _, key := range standing.Keys {
			d.Owed(key, source)
		}
	}
}

// Trusted is told that sinks are trusted which were not before.
func (d *Delivery) Trusted() {
	d.mu.Lock()
	for _, q := range d.queues {
		q.trusted()
	}
	d.mu.Unlock()
	d.Resume()
}

// enqueueAll puts what is owed to one source into its queue.
func (d *Delivery) enqueueAll(source types.UID) {
	for _, key := range d.Ledger.Standings()[source].Keys {
		d.Owed(key, source)
	}
}

// Wait returns when all queues have stopped, after the context has ended. A send
// that hangs is given up after a short grace.
func (d *Delivery) Wait() {
	d.mu.Lock()
	d.closed = true
	queues := make([]*sourceQueue, 0, len(d.queues))
	for _, q := range d.queues {
		queues = append(queues, q)
	}
	d.mu.Unlock()
	for _, q := range queues {
		q.stop()
	}
	d.leaving.Wait()
}

// OfSource sums up how a source stands: how much it is owed, since when, when it
// took something last, and what is wrong.
func (d *Delivery) OfSource(uid types.UID) (pending int64, oldest, last time.Time, trouble string) {
	s := d.standings.of(uid, d.Ledger)
	d.mu.Lock()
	q := d.queues[uid]
	d.mu.Unlock()
	if q != nil {
		last, trouble = q.report()
	}
	return s.Pending, s.Oldest, last, trouble
}

// Trouble notes what is wrong with a source, for its condition, until it takes
// something.
func (d *Delivery) Trouble(uid types.UID, trouble string) {
	d.mu.Lock()
	q := d.queues[uid]
	d.mu.Unlock()
	if q != nil {
		q.setTrouble(trouble)
	}
}

// Breakers says of each source by name whether its sink is only probed.
func (d *Delivery) Breakers() map[string]bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make(map[string]bool, len(d.queues))
	for _, q := range d.queues {
		out[q.label()] = q.breaker.open()
	}
	return out
}

// cachedStandings keeps a sum for a moment: it walks the whole ledger.
type cachedStandings struct {
	mu  sync.Mutex
	at  time.Time
	all map[types.UID]ledger.Standing
}

func (c *cachedStandings) of(uid types.UID, l Ledger) ledger.Standing {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.at) > time.Second {
		c.all, c.at = l.Standings(), time.Now()
	}
	return c.all[uid]
}
