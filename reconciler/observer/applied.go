// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"errors"
	"slices"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// errOvertaken says that an unsaved memory began with an old state of the ledger. The updates
// that led to it are folded again.
var errOvertaken = errors.New("another leader has written a state that this replica does not know")

// apply moves updates into the base. They are kept beside it, with the parts before them, until
// a write succeeds: if the ledger was stale, its present state decides what they mean.
func (t *track) apply(ids map[uint64]bool, keepFrom time.Time) {
	if t.applied == nil {
		t.applied = &track{base: slices.Clone(t.base), position: t.position}
	}
	for _, u := range t.updates {
		if ids[u.id] {
			t.applied.append(u)
		}
	}
	t.consume(ids)
	t.evictApplied(keepFrom)
}

// append keeps an update, within bounds.
func (t *track) append(u update) {
	if u.part.Volatile {
		return
	}
	t.updates = append(t.updates, u)
	for range excess(t.updates, len(t.base)) {
		t.rebase(t.updates[0].part)
		t.updates = t.updates[1:]
	}
}

// merge takes the first n updates into the base, as if they had been folded together with the
// next one. If others are applied, so are these: a rewind brings back all or none.
func (t *track) merge(n int) {
	for _, u := range t.updates[:n] {
		t.rebase(u.part)
		if t.applied != nil {
			t.applied.append(u)
		}
	}
	t.updates = slices.Delete(t.updates, 0, n)
}

// evictApplied forgets old updates. By now, the state of the ledger is known.
func (t *track) evictApplied(before time.Time) {
	if t.applied == nil {
		return
	}
	if t.applied.forget(before); len(t.applied.updates) == 0 {
		t.applied = nil
	}
}

// rewind makes applied updates pending again, and forgets what they led to. Volatile parts stay:
// they say themselves as of which state of the ledger they were observed.
func (t *track) rewind() {
	clear(t.unsaved)
	s := t.applied
	if t.applied = nil; s == nil || len(s.updates) == 0 {
		return
	}
	s.base.dropVolatile()
	for _, p := range t.base {
		if p.Volatile {
			s.base.set(p)
		}
	}
	t.base, t.position, t.updates = s.base, s.position, append(s.updates, t.updates...)
}

// overtaken says that the ledger has moved on since an unsaved memory began.
func (t *track) overtaken(entries []*v1alpha1.CDEventSubject) bool {
	return slices.ContainsFunc(entries, func(e *v1alpha1.CDEventSubject) bool {
		u, ok := t.unsaved[string(e.Spec.UID)]
		return ok && u.ahead != generation(e)
	})
}
