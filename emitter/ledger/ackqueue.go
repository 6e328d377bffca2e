package ledger

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	"knative.dev/pkg/logging"
)

// ackQueue holds the names of lines with acknowledgements that are not written.
// A line that is being written waits, and what piles up meanwhile is written
// together.
type ackQueue struct {
	queue workqueue.TypedRateLimitingInterface[string]
}

func newAckQueue() *ackQueue {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](50*time.Millisecond, 30*time.Second)
	return &ackQueue{queue: workqueue.NewTypedRateLimitingQueue(limiter)}
}

func (q *ackQueue) add(name string) { q.queue.Add(name) }

// keepRemoved is how long the entry of an object that is gone is kept. A replica that
// stands by has a history of five minutes (observer.Options.Keep), by which it would
// announce the object anew: this must be longer, by as much as its watch can lag behind.
const keepRemoved = 10 * time.Minute

// Run writes acknowledgements, and collects what is finished, until the context ends. What is acknowledged by
// then is still written, if that takes no longer than flushFor; the rest leads to the same event being sent again,
// byte by byte.
func (l *Ledger) Run(ctx context.Context, workers int) {
	// The end must not tear a write: the next leader would send again what was acknowledged.
	writing, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for l.next(writing) {
			}
		})
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
	l.acks.queue.ShutDown() // what is in it is still handed out
	wg.Wait()
	if n := l.acks.queue.Len(); n > 0 {
		logging.FromContext(ctx).Warnw("Some acknowledgements are not written; the same events will be sent again", "lines", n)
	}
}

// flushFor bounds the last writes when the process ends.
const flushFor = 2 * time.Second

// Flush writes what is acknowledged now, without waiting for more. It returns
// the first error; what could not be written stays to be written.
func (l *Ledger) Flush(ctx context.Context) error {
	for range l.acks.queue.Len() {
		name, shutdown := l.acks.queue.Get()
		if shutdown {
			return nil
		}
		err := l.flush(ctx, name)
		l.acks.queue.Done(name)
		if err != nil {
			l.acks.queue.Add(name) // who flushes decides when to try again
			return err
		}
	}
	return nil
}

func (l *Ledger) next(ctx context.Context) bool {
	name, shutdown := l.acks.queue.Get()
	if shutdown {
		return false
	}
	defer l.acks.queue.Done(name)
	if ctx.Err() != nil {
		return false
	}
	if err := l.flush(ctx, name); err != nil {
		if ctx.Err() == nil {
			logging.FromContext(ctx).Warnw("Acknowledgements are not written yet", "line", name, "error", err)
		}
		l.acks.queue.AddRateLimited(name)
		return true
	}
	l.acks.queue.Forget(name)
	return true
}
