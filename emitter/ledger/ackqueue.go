// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	"knative.dev/pkg/logging"
)

// Acks is a queue of the names of CDEventSubjects that are to take over acknowledgements now.
// It holds each name once. What arrives during a write is written together afterwards.
type Acks interface {
	Add(name string)
}

type ackQueue = workqueue.TypedRateLimitingInterface[string]

func newAckQueue() ackQueue {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](50*time.Millisecond, 30*time.Second)
	return workqueue.NewTypedRateLimitingQueue(limiter)
}

// keepRemoved is how long a CDEventSubject is kept after its object is gone. A standby has a
// history of five minutes (observer.Options.Keep), from which it would announce the object
// again. This must be longer, by as much as its watch can lag.
const keepRemoved = 10 * time.Minute

// Run writes acknowledgements, and deletes finished CDEventSubjects, until the context ends.
// It then writes the remaining acknowledgements for at most flushFor. Events whose
// acknowledgement is not written are sent again, byte by byte.
func (l *Ledger) Run(ctx context.Context, workers int) {
	// Do not interrupt a write: the next leader would send acknowledged events again.
	writing, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var wg, gathering sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for l.next(writing) {
			}
		})
	}
	if l.acks == Acks(l.queue) {
		gathering.Go(func() { l.gather(ctx, writing) })
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
	gathering.Wait()   // it adds to the queue what no slot has room for
	l.queue.ShutDown() // it still hands out what it contains
	wg.Wait()
	if n := l.queue.Len(); n > 0 {
		logging.FromContext(ctx).Warnw("Some acknowledgements are not written; the same events will be sent again", "subjects", n)
	}
}

// flushFor bounds the last writes when the process ends.
const flushFor = 2 * time.Second

func (l *Ledger) next(ctx context.Context) bool {
	name, shutdown := l.queue.Get()
	if shutdown {
		return false
	}
	defer l.queue.Done(name)
	if ctx.Err() != nil {
		return false
	}
	if err := l.WriteAcks(ctx, name); err != nil {
		if ctx.Err() == nil {
			logging.FromContext(ctx).Warnw("Acknowledgements are not written yet", "subject", name, "error", err)
		}
		l.queue.AddRateLimited(name)
		return true
	}
	l.queue.Forget(name)
	return true
}
