// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	"knative.dev/pkg/logging"
)

const (
	// ackAfter is how long an acknowledgement is held, so that the next transition of its object, or further
	// acknowledgements, take no write more.
	ackAfter = time.Second
	// ackRetry is how long it is held once more while transitions are being written, and maxAckAge how long in all.
	ackRetry, maxAckAge = 100 * time.Millisecond, 5 * time.Second
	// maxHeld is how many CDEventSubjects may have acknowledgements that are not written, before no event about another
	// one is admitted. Attempts that are under way then may add theirs. As many are written when the process ends, before
	// its leases do, and the events of as many are sent again after a crash.
	maxHeld = 500
	// abandonEvery is the time between two writes of what is pending for a source that was deleted.
	abandonEvery = 5 * time.Millisecond
	// flushFor bounds the last writes when the process ends, and flushWorkers do them with those of Run.
	flushFor, flushWorkers = 2 * time.Second, 12
	// keepRemoved is how long a CDEventSubject is kept after its object is gone. A standby has a
	// history of five minutes (observer.Options.Keep), from which it would announce the object
	// again. This must be longer, by as much as its watch can lag.
	keepRemoved = 10 * time.Minute
)

// overdue is the time since which an acknowledgement is held that must not wait any longer.
var overdue = time.Unix(0, 0)

// Acks is a queue of the names of CDEventSubjects with acknowledgements to write. It holds each name once. What arrives
// during a write is written afterwards.
type Acks interface {
	Add(name string)
	AddAfter(name string, wait time.Duration)
}

type ackQueue = workqueue.TypedRateLimitingInterface[string]

func newAckQueue() ackQueue {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](50*time.Millisecond, 5*time.Second)
	return workqueue.NewTypedRateLimitingQueue(limiter)
}

// Admit waits until there is room to hold the acknowledgement of an event of a CDEventSubject. It returns false
// if ctx ends before. It reserves nothing: a sink that does not answer would keep room from all others. So the attempts
// under way may add one CDEventSubject each to those that are held, and delivery bounds them for each source.
func (l *Ledger) Admit(ctx context.Context, name string) bool {
	for {
		room, released := l.room(name)
		if room {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-released:
		}
	}
}

// HasRoom is Admit for those who cannot wait.
func (l *Ledger) HasRoom(name string) bool {
	room, _ := l.room(name)
	return room
}

func (l *Ledger) room(name string) (room bool, released <-chan struct{}) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	sub, ok := l.subjects[name]
	return l.held < l.maxHeld || ok && !sub.heldSince.IsZero(), l.released
}

// scarceLocked reports whether half of the room for acknowledgements is taken. They do not wait then.
func (l *Ledger) scarceLocked() bool { return l.held > l.maxHeld/2 }

// Held is how many CDEventSubjects have acknowledgements that are not written.
func (l *Ledger) Held() int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.held
}

// holdLocked notes that a subject has an acknowledgement that is not written.
func (l *Ledger) holdLocked(sub *subject) {
	if sub.heldSince.IsZero() {
		sub.heldSince = time.Now()
		l.held++
	}
}

// writtenLocked forgets the acknowledgements that the CDEventSubject has.
func (l *Ledger) writtenLocked(sub *subject) {
	if sub.object != nil {
		for source, sequence := range sub.acked {
			if sequence <= sub.object.Status.Acknowledged[source] {
				delete(sub.acked, source)
			}
		}
	}
	if len(sub.acked) > 0 || sub.heldSince.IsZero() {
		return
	}
	sub.heldSince = time.Time{}
	l.held--
	close(l.released)
	l.released = make(chan struct{})
}

// HandOver has the acknowledgements about some objects written at once: another process leads for them, and sends again
// what it does not know.
func (l *Ledger) HandOver(these func(types.NamespacedName) bool) {
	var names []string
	l.mu.Lock()
	for name, sub := range l.subjects {
		if len(sub.acked)+len(sub.dropped) > 0 && these(sub.key.NamespacedName()) {
			names = append(names, name)
			if !sub.heldSince.IsZero() {
				sub.heldSince = overdue
			}
		}
	}
	l.mu.Unlock()
	for _, name := range names {
		l.acks.Add(name)
	}
}

// Run writes acknowledgements, and deletes finished CDEventSubjects, until the context ends.
// It then writes the remaining acknowledgements for at most flushFor. Events whose
// acknowledgement is not written are sent again, byte by byte.
func (l *Ledger) Run(ctx context.Context, workers int) {
	// Do not interrupt a write: the next leader would send acknowledged events again.
	writing, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var wg sync.WaitGroup
	work := func() {
		for l.queue != nil && l.next(writing) {
		}
	}
	for range workers {
		wg.Go(work)
	}
	wg.Go(func() {
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			if err := l.Collect(ctx, time.Now(), keepRemoved); err != nil && ctx.Err() == nil {
				logging.FromContext(ctx).Warnw("Finished entries are not deleted yet", "error", err)
			}
		}, keepRemoved/10)
	})
	<-ctx.Done()
	defer time.AfterFunc(flushFor, stop).Stop()
	l.HandOver(func(types.NamespacedName) bool { return true })
	if l.queue != nil {
		l.queue.ShutDown() // it still hands out what it contains
	}
	for range flushWorkers {
		wg.Go(work)
	}
	wg.Wait()
	if n := l.Held(); n > 0 {
		logging.FromContext(ctx).Warnw("Some acknowledgements are not written; the same events will be sent again",
			"subjects", n)
	}
}

// next writes the acknowledgements of the next CDEventSubject in the queue. It returns false if the queue has ended.
func (l *Ledger) next(ctx context.Context) bool {
	name, shutdown := l.queue.Get()
	if shutdown {
		return false
	}
	defer l.queue.Done(name)
	switch {
	case ctx.Err() != nil:
		return false
	case l.yields(name):
		l.queue.AddAfter(name, ackRetry)
		return true
	}
	for {
		err := l.WriteAcks(ctx, name)
		if err == nil {
			l.queue.Forget(name)
			return true
		}
		if ctx.Err() == nil {
			logging.FromContext(ctx).Warnw("Acknowledgements are not written yet", "subject", name, "error", err)
		}
		if !l.queue.ShuttingDown() {
			l.queue.AddRateLimited(name)
			return true
		}
		select { // the queue takes nothing back
		case <-ctx.Done():
			return false
		case <-time.After(ackRetry):
		}
	}
}

// yields reports whether the acknowledgements of a CDEventSubject wait for the transitions that are being
// written. They do not if they are old, or if room is scarce.
func (l *Ledger) yields(name string) bool {
	if l.journaling.Load() == 0 {
		return false
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	sub, ok := l.subjects[name]
	return ok && !sub.heldSince.IsZero() && time.Since(sub.heldSince) < maxAckAge && !l.scarceLocked()
}
