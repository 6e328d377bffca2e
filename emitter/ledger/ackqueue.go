package ledger

import (
	"context"
	"sync"
	"time"

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

// Run writes acknowledgements until the context ends. What is not written then
// leads to the same event being sent again, byte by byte.
func (l *Ledger) Run(ctx context.Context, workers int) {
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for l.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	l.acks.queue.ShutDown()
	wg.Wait()
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
