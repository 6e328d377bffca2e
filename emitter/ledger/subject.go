// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"bytes"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// subject is what this process knows of one CDEventSubject.
type subject struct {
	name string
	key  Key
	// writing is held during a write. Otherwise, writes of one process would conflict.
	writing sync.Mutex

	// The rest is guarded by Ledger.mu.

	// writers counts the calls of Journal that write it, or wait for that. Until they end, it is the one of its name.
	writers int
	// object is the newest known state, nil if there is none. It is never changed in
	// place.
	object *v1alpha1.CDEventSubject
	// gone is the UID of the last object of which the informer has shown the end. An answer that still has this object is
	// older.
	gone types.UID
	// shown is the UID of the last object that the informer has shown, and unseenSince is since when it is known that it
	// will never show the present one.
	shown       types.UID
	unseenSince time.Time
	// deleted is the UID of an object that this process has deleted, until the informer
	// has seen it go. Updates of this object are stale.
	deleted types.UID
	// unanswered is a write that gave events up and may have been done, although it failed.
	unanswered *edit
	// finished is since when it has been idle.
	finished time.Time
	// acked is what each source has acknowledged, as far as it is not written yet.
	acked map[types.UID]int64
	// heldSince is when the oldest of acked came, zero if there is none.
	heldSince time.Time
	// dropped are the events that were dropped, as far as that is not written yet.
	dropped map[drop]bool
}

// drop is an event that was dropped for a source.
type drop struct {
	source   types.UID
	sequence int64
	reason   string
}

// acknowledgeLocked notes what a source has acknowledged, or need not be sent.
func (sub *subject) acknowledgeLocked(source types.UID, sequence int64) {
	if sub.acked == nil {
		sub.acked = map[types.UID]int64{}
	}
	sub.acked[source] = max(sub.acked[source], sequence)
}

// dropLocked notes that an event was dropped.
func (sub *subject) dropLocked(d drop) {
	sub.acknowledgeLocked(d.source, d.sequence)
	if sub.dropped == nil {
		sub.dropped = map[drop]bool{}
	}
	sub.dropped[d] = true
}

// discardStaleAcksLocked forgets acknowledgements of events that the object does not have, as after
// restoring a backup. Other events get the same numbers, or have them already: what was
// acknowledged are events that the object had before.
func (sub *subject) discardStaleAcksLocked(before *v1alpha1.CDEventSubject) {
	if sub.object == nil || len(sub.acked) == 0 {
		return
	}
	was := map[int64]v1alpha1.JournalEntry{}
	if before != nil {
		for _, j := range before.Status.Journal {
			was[j.Sequence] = j
		}
	}
	st := &sub.object.Status
	maps.DeleteFunc(sub.acked, func(source types.UID, seq int64) bool {
		return seq > st.Sequence || slices.ContainsFunc(st.Journal, func(j v1alpha1.JournalEntry) bool {
			if _, ok := recipient(j, source); !ok || j.Sequence > seq || j.Sequence <= st.Acknowledged[source] {
				return false
			}
			return !bytes.Equal(was[j.Sequence].Transition.Raw, j.Transition.Raw)
		})
	})
	maps.DeleteFunc(sub.dropped, func(d drop, _ bool) bool { return d.sequence > sub.acked[d.source] })
}

// hasEnded reports whether the informer has shown the end of an object.
func (sub *subject) hasEnded(o *v1alpha1.CDEventSubject) bool {
	return o != nil && o.UID == sub.gone && sub.gone != ""
}

// missing reports whether the object was deleted although it is still needed. The next write recreates it.
func (sub *subject) missing() bool { return sub.hasEnded(sub.object) }

// idle reports whether nothing is left to do: the object is gone and no event about it is pending, or all that is left
// is a failed write.
func (sub *subject) idle() bool {
	if sub.object == nil {
		return sub.unanswered != nil
	}
	return Finished(sub.object)
}

// subject returns the subject of that name. It adds one if there is none.
func (l *Ledger) subject(name string, key Key) *subject {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.subjectLocked(name, key)
}

func (l *Ledger) subjectLocked(name string, key Key) *subject {
	if sub, ok := l.subjects[name]; ok {
		return sub
	}
	sub := &subject{name: name, key: key}
	l.keepLocked(sub)
	return sub
}

// writer returns the subject of this name, which is not evicted before done is called.
func (l *Ledger) writer(name string, key Key) (sub *subject, done func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	sub = l.subjectLocked(name, key)
	sub.writers++
	return sub, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		sub.writers--
		l.evictLocked(sub)
	}
}

func (l *Ledger) keepLocked(sub *subject) {
	l.subjects[sub.name] = sub
	all := slices.DeleteFunc(l.byKey[sub.key], func(other *subject) bool { return other.name == sub.name })
	l.byKey[sub.key] = append(all, sub)
}

// evictLocked removes a subject that holds nothing.
func (l *Ledger) evictLocked(sub *subject) {
	if sub.writers > 0 || sub.object != nil || sub.unanswered != nil || sub.deleted != "" ||
		len(sub.acked)+len(sub.dropped) > 0 || l.subjects[sub.name] != sub {
		return // it holds something, or was removed, and another one has its name
	}
	delete(l.subjects, sub.name)
	l.byKey[sub.key] = slices.DeleteFunc(l.byKey[sub.key], func(other *subject) bool { return other.name == sub.name })
	if len(l.byKey[sub.key]) == 0 {
		delete(l.byKey, sub.key)
	}
}

// clearAcksLocked forgets what was acknowledged, as of a subject whose object is gone.
func (l *Ledger) clearAcksLocked(sub *subject) {
	clear(sub.acked)
	clear(sub.dropped)
	l.writtenLocked(sub)
}
