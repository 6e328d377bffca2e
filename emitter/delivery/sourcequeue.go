// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"context"
	"sync"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
)

const (
	// grace is how long an attempt under way may last after the queue has stopped.
	grace = 2 * time.Second
	// restAfter is how long a queue without anything to send keeps its clients. Their
	// connections are closed before that.
	restAfter = 2 * time.Minute
	// unresolved is how long an object waits for a sink that has no address. A change of
	// the source wakes it at once.
	unresolved = time.Minute
)

// sourceQueue delivers to one CDEventSource.
type sourceQueue struct {
	d       *Delivery
	queue   Queue
	ramp    *ramp
	breaker *breaker

	ctx    context.Context //nolint:containedctx // the life of the queue, not of one call
	cancel context.CancelFunc
	// sending outlives ctx by the grace.
	sending context.Context //nolint:containedctx // see ctx

	mu     sync.Mutex
	source *v1alpha1.CDEventSource
	// retries knows which events have failed, and when they may be tried again.
	retries retries
	// undecided says for each object whose filter cannot be applied why that is.
	undecided map[ledger.Key]string
	delivered time.Time
	problem   string
	// resting frees what is kept for the next event, if there is none for long.
	resting *time.Timer
}

var _ Work = (*sourceQueue)(nil)

// newSourceQueue starts a queue that works until the delivery's context ends.
func newSourceQueue(d *Delivery, s *v1alpha1.CDEventSource) *sourceQueue {
	q := &sourceQueue{d: d, source: s, ramp: newRamp(d.WorkersPerSource)}
	q.breaker = newBreaker(d.ProbeEvery, q.ramp.restart, q.recovered)
	q.ctx, q.cancel = context.WithCancel(d.ctx)
	var abort context.CancelFunc
	q.sending, abort = context.WithCancel(context.WithoutCancel(d.ctx))
	q.queue = d.NewQueue(s.UID, q)
	context.AfterFunc(q.ctx, func() {
		q.queue.Close()
		time.AfterFunc(grace, abort)
	})
	return q
}

// stop ends the queue, and returns when its workers have ended.
func (q *sourceQueue) stop() {
	q.cancel()
	q.queue.Close()
	q.queue.Wait()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.resting != nil {
		q.resting.Stop()
	}
}

// Rest implements Work. It frees the clients of the source later, when their connections are closed anyway.
func (q *sourceQueue) Rest() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.resting != nil {
		q.resting.Reset(restAfter)
		return
	}
	q.resting = time.AfterFunc(restAfter, func() {
		if q.queue.Idle() {
			q.d.Transport.Forget(q.current().UID)
		}
	})
}

// Deliver implements Work. It sends until something fails.
func (q *sourceQueue) Deliver(key ledger.Key) time.Duration {
	for {
		if !q.leads(key) {
			return 0 // the next leader reads from the ledger what is pending
		}
		pending := q.d.Ledger.Pending(key, q.current().UID)
		if len(pending) == 0 {
			q.forget(key)
			return 0
		}
		if d := q.deliverAll(key, pending); d.action == suspend {
			return d.wait
		}
	}
}

// deliverAll sends events in their order, until one of them has to stay pending.
func (q *sourceQueue) deliverAll(key ledger.Key, pending []ledger.Pending) decision {
	for _, p := range pending {
		if !q.leads(key) {
			return stopped
		}
		if d := q.try(key, p); d.action != finish {
			return d
		}
	}
	return finished
}

// leads says whether this queue still delivers for an object.
func (q *sourceQueue) leads(key ledger.Key) bool {
	return q.ctx.Err() == nil && q.d.Leader.IsLeaderFor(key.NamespacedName())
}

// recovered has everything sent that waits for a sink which accepts events again. Counted
// retries keep their time: one that came early could be the last.
func (q *sourceQueue) recovered() {
	q.mu.Lock()
	uid := q.source.UID
	if !countsRetries(q.source) {
		q.retries.release(func(retry) bool { return true })
	}
	q.mu.Unlock()
	q.d.enqueueAll(uid)
}
