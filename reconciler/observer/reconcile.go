// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/logging"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// holdFor is how long a fold waits for a missing part before it asks the API server.
const holdFor = time.Second

// Reconcile folds the updates of one key.
func (o *Observer) Reconcile(ctx context.Context, name string) error {
	namespace, n, err := cache.SplitMetaNamespaceKey(name)
	if err != nil {
		logging.FromContext(ctx).Errorw("Invalid key in the work queue", "key", name, "error", err)
		return nil
	}
	key := types.NamespacedName{Namespace: namespace, Name: n}
	if !o.IsLeaderFor(key) {
		return controller.NewSkipKey(name)
	}
	again, err := o.Fold(ctx, key)
	switch {
	case err != nil:
		return o.later(ctx, name, err)
	case again > 0:
		// More updates came during the fold, or something is due later.
		return controller.NewRequeueAfter(again)
	}
	return nil
}

// Fold folds the updates of a key that this process leads for. It returns after how long to fold it again, 0 if only
// an update leads to something new.
func (o *Observer) Fold(ctx context.Context, key types.NamespacedName) (again time.Duration, err error) {
	select {
	case <-o.Stopping:
		return 0, nil // the next leader starts from the ledger
	default:
	}
	if !o.Active() && o.Kind.Served() {
		return 0, nil // all keys are reconciled again when the caches are complete
	}
	since, err := o.Since(ctx)
	if err != nil {
		return 0, err
	}
	f, merged := o.begin(ctx, key, since)
	o.merged(merged)
	err = f.recovering(func() error {
		if err := f.run(); err != nil || f.held {
			return err
		}
		return f.replay()
	})
	if unfinished := o.end(f); err != nil || !unfinished {
		return 0, err
	}
	return f.after(), nil
}

// retryAfter is when a failed write is retried. The queue's rate limiter is not used: it lets
// only ten keys a second through.
const retryAfter = 2 * time.Second

func (o *Observer) later(ctx context.Context, key string, err error) error {
	if ctx.Err() == nil {
		logging.FromContext(ctx).Warnw("Could not process an object; retrying", "key", key, "error", err)
	}
	return controller.NewRequeueAfter(retryAfter)
}

// begin takes the present history of a key. It returns how many updates it merged: during the last fold
// none could be, however many came.
func (o *Observer) begin(ctx context.Context, key types.NamespacedName, since time.Time) (f *fold, merged int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := o.trackLocked(key)
	now := o.Now()
	if t.overtaken(o.Ledger.Subjects(o.ledgerKey(key))) {
		t.rewind()
	}
	merged = excess(t.updates, len(t.base))
	t.merge(merged)
	f = &fold{
		ctx: ctx, o: o, track: t, key: key, since: since, now: now, confirmed: t.confirmed, behind: t.behind,
		steps: t.steps(now), past: slices.Clone(t.past), consumed: map[uint64]bool{},
		unsaved: t.unsaved, waiting: map[types.UID]map[lifecycle.Wait]time.Time{}, doubtful: t.filled,
		patient: !o.Once && (t.held.IsZero() || now.Sub(t.held) < holdFor),
	}
	maps.Copy(f.waiting, t.waiting)
	t.folding = true
	return f, merged
}

// end takes over the results of a fold. It returns whether the key must be reconciled again.
func (o *Observer) end(f *fold) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := o.tracks[f.key]
	if t != f.track {
		return false // the kind went away meanwhile, and a new history has begun
	}
	t.folding = false
	if t.confirmed = f.confirmed; f.consumed[f.confirmed.id] {
		t.confirmed = confirmation{}
	}
	t.apply(f.consumed, f.now.Add(-o.Keep))
	switch {
	case !f.held:
		t.held = time.Time{}
	case t.held.IsZero():
		t.held = f.now
	}
	t.behind = nil
	if o.IsLeaderFor(f.key) { // otherwise, only the ledger counts
		for uid, u := range f.memories {
			delete(t.unsaved, uid)
			if u.ahead == "" {
				continue
			}
			if t.unsaved == nil {
				t.unsaved = map[string]unsaved{}
			}
			t.unsaved[uid] = u
		}
		t.waiting = f.waiting
		if len(t.updates) > 0 {
			t.behind = f.behind
		}
		known := f.remembered()
		maps.DeleteFunc(t.waiting, func(uid types.UID,
			w map[lifecycle.Wait]time.Time,
		) bool {
			return len(w) == 0 || !known[uid]
		})
		maps.DeleteFunc(t.unsaved, func(uid string, _ unsaved) bool { return !known[types.UID(uid)] })
		if len(t.waiting) == 0 {
			t.waiting = nil
		}
		if len(t.unsaved) == 0 {
			t.unsaved, t.applied = nil, nil
		}
	} else {
		t.rewind()
	}
	t.prune()
	if len(t.updates) > 0 || f.held || f.lagging || !f.wake.IsZero() {
		return true
	}
	if t.empty() && len(f.entries()) == 0 {
		delete(o.tracks, f.key)
	}
	return false
}
