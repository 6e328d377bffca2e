// SPDX-License-Identifier: Apache-2.0

// Package observer turns the updates that informers see of a watched object into transitions
// in the ledger.
//
// Its invariants: it only reads users' objects, and it never sends. It folds every state that
// the leader's watch has seen, in order, however slow a write is. A transition is journaled
// before any event about it is sent. Only the leader of a key folds. Standbys keep the
// history of a key for a while. If a leader dies, its successor has seen what the leader did
// not journal, and skips what it did, because the ledger has a newer version.
package observer

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/reconciler"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
)

// Journal is the part of the ledger that the observer needs.
type Journal interface {
	Subjects(key ledger.Key) []*v1alpha1.CDEventSubject
	Keys() []ledger.Key
	Journal(ctx context.Context, spec v1alpha1.CDEventSubjectSpec, decide ledger.Decide) error
	// MayHaveForgotten says whether the ledger may have had an entry of an object that is gone, since a time of the API
	// server.
	MayHaveForgotten(ctx context.Context, spec v1alpha1.CDEventSubjectSpec, since time.Time) (bool, error)
	// Time returns the time of the API server, zero if an object has an entry.
	Time(ctx context.Context, spec v1alpha1.CDEventSubjectSpec) (time.Time, error)
	Replays(current *v1alpha1.CDEventSubject, labels func() ledger.Labels) []types.UID
}

// Metrics counts what an observer gives up.
type Metrics interface {
	// Merged counts updates that were merged because a history was full.
	Merged(updates int)
}

// Restarter is notified when the API server went back in time, as after restoring a backup. What this process
// remembers may then never have happened.
type Restarter interface {
	Reverted()
}

// Options configure an observer.
type Options struct {
	Kind   Kind
	Ledger Journal
	// Since returns since when objects of this kind are announced.
	Since func(ctx context.Context) (time.Time, error)
	// Keep is how long a standby keeps updates: longer than it takes until another
	// replica leads. Zero means the default.
	Keep time.Duration
	Now  func() time.Time
	// Once says that the process reads the caches for one fold, and forgets everything after it. No part arrives later,
	// and what lasts is kept in the ledger.
	Once bool
	// Metrics may be nil.
	Metrics Metrics
	// Restarter may be nil.
	Restarter Restarter
	// Stopping is closed when the process ends. Otherwise, the work queue would first be
	// drained, key by key, with a context that never ends.
	Stopping <-chan struct{}
}

// Observer is the reconciler of one watched kind.
type Observer struct {
	reconciler.LeaderAwareFuncs
	Options
	queue Queue

	mu     sync.Mutex
	tracks map[types.NamespacedName]*track
	// active is false until the caches of the kind are complete.
	active bool
	// position is that of the caches when they were complete. Later changes of floating
	// parts arrive as updates.
	position string
}

var (
	_ controller.Reconciler  = (*Observer)(nil)
	_ reconciler.LeaderAware = (*Observer)(nil)
)

// Queue is the part of a controller's work queue that the observer needs.
type Queue interface {
	EnqueueKey(key types.NamespacedName)
	// EnqueueSlowKey is for thousands of keys that are not urgent.
	EnqueueSlowKey(key types.NamespacedName)
}

// New returns an observer. Call Bind before you use it.
func New(o Options) *Observer {
	if o.Keep == 0 {
		o.Keep = keep
	}
	ob := &Observer{Options: o, tracks: map[types.NamespacedName]*track{}}
	ob.PromoteFunc = func(b reconciler.Bucket, _ func(reconciler.Bucket, types.NamespacedName)) error {
		ob.lead(b)
		return nil
	}
	ob.DemoteFunc = ob.demote
	return ob
}

// Bind sets the queue that keys are added to.
func (o *Observer) Bind(q Queue) { o.queue = q }

// keep is many times longer than a crashed leader's lease and the next election take
// (config-leader-election), because several leaders may die before one journals anything.
const keep = 5 * time.Minute

// Start is called when the caches of the kind are complete, and again after the kind was
// uninstalled and came back. From then on, the observer keeps every update.
func (o *Observer) Start() {
	o.mu.Lock()
	o.active = true
	o.tracks = map[types.NamespacedName]*track{}
	o.position = o.kindPosition() // before the caches are read
	// All keys at once: a cache that is read later may be ahead of updates that are still
	// on their way.
	for _, key := range o.Kind.Keys() {
		o.trackLocked(key).fill(o.Kind.Cached(key))
	}
	o.mu.Unlock()
	o.enqueue(reconciler.UniversalBucket().Has, o.queue.EnqueueSlowKey)
}

// Active says whether the caches of the kind are complete.
func (o *Observer) Active() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.active
}

// Stop is called when the kind is no longer served. All keys of the ledger are reconciled,
// because the objects are gone with their kind.
func (o *Observer) Stop() {
	o.mu.Lock()
	o.active = false
	o.tracks = map[types.NamespacedName]*track{}
	o.mu.Unlock()
	o.enqueue(reconciler.UniversalBucket().Has, o.queue.EnqueueSlowKey)
}

// lead reconciles all keys of a bucket. A key that only the ledger has belongs to an object
// that was deleted while no process watched.
func (o *Observer) lead(b reconciler.Bucket) {
	o.enqueue(b.Has, o.queue.EnqueueSlowKey)
}

func (o *Observer) enqueue(these func(types.NamespacedName) bool, add func(types.NamespacedName)) {
	seen := map[types.NamespacedName]bool{}
	for _, key := range o.Kind.Keys() {
		seen[key] = true
	}
	for _, key := range o.Ledger.Keys() {
		if o.watches(key) {
			seen[key.NamespacedName()] = true
		}
	}
	// A standby may have seen an object come and go that neither of them has.
	o.mu.Lock()
	for key := range o.tracks {
		seen[key] = true
	}
	o.mu.Unlock()
	for key := range seen {
		if these(key) {
			add(key)
		}
	}
}

// demote forgets decisions for a bucket that are not written. The next leader decides for
// itself.
func (o *Observer) demote(b reconciler.Bucket) {
	o.mu.Lock()
	for key, t := range o.tracks {
		if b.Has(key) {
			t.unsaved, t.held, t.behind = nil, time.Time{}, nil
			if t.dropVolatile(); !t.folding {
				t.rewind()
			}
			clear(t.waiting)
		}
	}
	o.mu.Unlock()
}

// Update takes an update. The informers' handlers call it.
func (o *Observer) Update(key types.NamespacedName, p Part) {
	at := o.Now()
	o.mu.Lock()
	if !o.active || p.Volatile && !o.IsLeaderFor(key) {
		o.mu.Unlock()
		return
	}
	t := o.trackLocked(key)
	fresh, merged := t.add(p, at)
	// Ask only now: a replica that takes the lead after this finds the update.
	if !o.IsLeaderFor(key) {
		// The replica that leads for the key folds it.
		if !o.awaits(key, t) {
			t.forget(at.Add(-o.Keep))
		}
		o.mu.Unlock()
		return
	}
	o.mu.Unlock()
	o.merged(merged)
	if fresh {
		o.queue.EnqueueKey(key)
	}
}

// Sequence is the number of the newest known transition of an object. Watchers of volatile
// parts ask for it before they look at them.
func (o *Observer) Sequence(key types.NamespacedName, uid types.UID) int64 {
	for _, s := range o.Ledger.Subjects(o.ledgerKey(key)) {
		if s.Spec.UID == uid {
			return s.Status.Sequence
		}
	}
	return 0
}

// Replace takes an update together with the version that the object had before. The informers'
// handlers call it.
func (o *Observer) Replace(before string, key types.NamespacedName, p Part) {
	if WentBack(before, p.Version) && o.Restarter != nil {
		o.Restarter.Reverted()
	}
	o.Update(key, p)
}

// Tidy forgets old updates of keys that other replicas lead for, and keys of objects that are
// gone. Call it now and then.
func (o *Observer) Tidy() {
	before := o.Now().Add(-o.Keep)
	o.mu.Lock()
	defer o.mu.Unlock()
	for key, t := range o.tracks {
		if t.folding || t.tidy() {
			continue // asking who leads takes longer than all else here
		}
		if o.IsLeaderFor(key) {
			t.evictApplied(before)
			continue
		}
		if o.awaits(key, t) {
			continue
		}
		if t.forget(before); t.empty() {
			delete(o.tracks, key)
		}
	}
}

// awaits reports whether what is in the history waits for the end of another object of this name, which is not
// journaled yet. That may take longer than a standby keeps updates.
func (o *Observer) awaits(key types.NamespacedName, t *track) bool {
	return slices.ContainsFunc(o.Ledger.Subjects(o.ledgerKey(key)), func(e *v1alpha1.CDEventSubject) bool {
		after := t.updates
		for i, u := range t.updates {
			if u.part.Root && u.part.Owner == e.Spec.UID {
				after = t.updates[i+1:]
			}
		}
		return !e.Status.Removed && slices.ContainsFunc(after, func(u update) bool {
			return u.part.Root && u.part.Value != nil
		})
	})
}

// Requeue reconciles these keys again, at low priority.
func (o *Observer) Requeue(these func(types.NamespacedName) bool) {
	o.enqueue(these, o.queue.EnqueueSlowKey)
}

// Notify is called when another process has written to the ledger.
func (o *Observer) Notify(key ledger.Key) {
	if o.watches(key) && o.IsLeaderFor(key.NamespacedName()) {
		o.queue.EnqueueKey(key.NamespacedName())
	}
}

func (o *Observer) trackLocked(key types.NamespacedName) *track {
	t, ok := o.tracks[key]
	if !ok {
		t = newTrack(o.position)
		o.tracks[key] = t
	}
	return t
}

func (o *Observer) ledgerKey(key types.NamespacedName) ledger.Key {
	return ledger.KeyOf(o.spec(key, ""))
}

// watches reports whether the object is of the observer's kind. Another kind may have the same name
// in another API group.
func (o *Observer) watches(key ledger.Key) bool { return key == o.ledgerKey(key.NamespacedName()) }

func (o *Observer) spec(key types.NamespacedName, uid types.UID) v1alpha1.CDEventSubjectSpec {
	return v1alpha1.CDEventSubjectSpec{
		APIVersion: o.Kind.APIVersion(), Kind: o.Kind.Name(), Namespace: key.Namespace, Name: key.Name, UID: uid,
	}
}

// merged counts merged updates.
func (o *Observer) merged(n int) {
	if n > 0 && o.Metrics != nil {
		o.Metrics.Merged(n)
	}
}

// kindPosition is the version as of which the caches hold floating parts, empty if the kind has none.
func (o *Observer) kindPosition() string {
	if k, ok := o.Kind.(Positioned); ok {
		return k.Position()
	}
	return ""
}
