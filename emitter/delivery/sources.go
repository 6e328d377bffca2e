// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// UpdateSource takes over a source that is new or has changed.
func (d *Delivery) UpdateSource(s *v1alpha1.CDEventSource) {
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
	if q.update(s) || !ok {
		d.enqueueAll(s.UID)
	}
}

// DeleteSource ends the queue of a deleted source and gives up its pending events. It does
// not wait for that: the informer that calls it has other handlers to call.
func (d *Delivery) DeleteSource(uid types.UID) {
	d.mu.Lock()
	q, ok := d.queues[uid]
	delete(d.queues, uid)
	d.mu.Unlock()
	d.stopping.Go(func() {
		if ok {
			q.stop()
		}
		d.Transport.Forget(uid)
		d.Ledger.Abandon(uid, d.Leader.IsLeaderFor)
	})
}

// Sweep gives up the pending events of sources that do not exist, until ctx ends. A source
// must be missing twice in a row: the cache may lag behind the ledger.
func (d *Delivery) Sweep(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	suspects := map[types.UID]bool{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		missing := map[types.UID]bool{}
		for uid := range d.Ledger.Backlogs() {
			switch {
			case d.queueOf(uid) != nil:
			case suspects[uid]:
				d.Ledger.Abandon(uid, d.Leader.IsLeaderFor)
			default:
				missing[uid] = true
			}
		}
		suspects = missing
	}
}

// Wait returns when all queues have stopped, after the context has ended. An attempt that
// hangs is aborted after a short grace.
func (d *Delivery) Wait() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	for _, q := range d.all() {
		q.stop()
	}
	d.stopping.Wait()
}

// queueOf returns the queue of a source, nil if the source is not known.
func (d *Delivery) queueOf(source types.UID) *sourceQueue {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.queues[source]
}

// all returns the queues of all sources.
func (d *Delivery) all() []*sourceQueue {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]*sourceQueue, 0, len(d.queues))
	for _, q := range d.queues {
		out = append(out, q)
	}
	return out
}
