// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// Pending is one event that is pending for one source.
type Pending struct {
	// Name is the name of the CDEventSubject.
	Name       string
	Subject    v1alpha1.CDEventSubjectSpec
	Profile    v1alpha1.Profile
	Transition lifecycle.Transition
	// Undecided says that the source's filters must be applied first.
	Undecided bool
	// at is the time of its journal entry. Another event may have its number later: see holds.
	at time.Time
	// Unreadable is set if the transition cannot be read. It then has only a sequence number,
	// time and type, and is dropped when the events before it are sent.
	Unreadable error
	// Attempt, if set, is what came of it in a process that keeps nothing in memory.
	Attempt *v1alpha1.Attempt
}

// Subjects returns the CDEventSubjects of a watched object, one for each UID that it has had.
// Those of deleted objects come first, each group in order of creation. The caller must
// not change them.
func (l *Ledger) Subjects(key Key) []*v1alpha1.CDEventSubject {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.subjectsLocked(key)
}

func (l *Ledger) subjectsLocked(key Key) []*v1alpha1.CDEventSubject {
	var out []*v1alpha1.CDEventSubject
	for _, sub := range l.byKey[key] {
		if sub.object != nil {
			out = append(out, sub.object)
		}
	}
	slices.SortFunc(out, func(a, b *v1alpha1.CDEventSubject) int {
		switch {
		case a.Status.Removed != b.Status.Removed && a.Status.Removed:
			return -1
		case a.Status.Removed != b.Status.Removed:
			return 1
		}
		return cmp.Or(
			created(a).Compare(created(b)), first(a).Compare(first(b)), strings.Compare(a.Name, b.Name),
		)
	})
	return out
}

// created returns when a CDEventSubject was first created, by the clock of the API server. The
// clocks of two leaders may differ.
func created(s *v1alpha1.CDEventSubject) time.Time {
	if s.Status.Created != nil {
		return s.Status.Created.Time
	}
	return s.CreationTimestamp.Time
}

// first returns the time of the oldest transition that a CDEventSubject still has. It orders
// CDEventSubjects that were created within one second.
func first(s *v1alpha1.CDEventSubject) time.Time {
	switch {
	case len(s.Status.Journal) > 0:
		return s.Status.Journal[0].Time.Time
	case s.Status.LastEventTime != nil:
		return s.Status.LastEventTime.Time
	}
	return time.Time{}
}

// Keys returns the keys of all CDEventSubjects.
func (l *Ledger) Keys() []Key {
	l.mu.RLock()
	defer l.mu.RUnlock()
	out := make([]Key, 0, len(l.byKey))
	for key := range l.byKey {
		out = append(out, key)
	}
	return out
}

// maxPending limits how many events Pending returns at once. Thousands are pending if an
// object is created and deleted again and again while a sink is down.
const maxPending = 64

// Pending returns the next events that are pending for a source about a watched object, in the
// order in which they must be sent. Events about a deleted object of the same name come before
// those about the present one.
func (l *Ledger) Pending(key Key, source types.UID) []Pending {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var out []Pending
	for _, s := range l.subjectsLocked(key) {
		acked := max(s.Status.Acknowledged[source], l.subjects[s.Name].acked[source])
		for _, j := range s.Status.Journal {
			if outOfRange(j, &s.Status) {
				l.acks.Add(s.Name) // the next write drops it
				continue
			}
			r, ok := recipient(j, source)
			if !ok || j.Sequence <= acked {
				continue
			}
			if out = append(out, pending(s, j, r)); len(out) == maxPending {
				return out
			}
		}
	}
	return out
}

// outOfRange reports whether an entry's number is above that of the last transition, as after a
// manual edit. Such an entry could never be acknowledged.
func outOfRange(j v1alpha1.JournalEntry, st *v1alpha1.CDEventSubjectStatus) bool {
	return j.Sequence <= 0 || j.Sequence > st.Sequence
}

// pending reads a journal entry. Another version of this program may have written it, or a user
// may have edited it.
func pending(s *v1alpha1.CDEventSubject, j v1alpha1.JournalEntry, r v1alpha1.Recipient) Pending {
	o := Pending{Name: s.Name, Subject: s.Spec, Undecided: r.Undecided, at: j.Time.Time}
	if i := slices.IndexFunc(s.Status.Attempts, func(a v1alpha1.Attempt) bool {
		return a.Source == r.Source && a.Sequence == j.Sequence
	}); i >= 0 {
		o.Attempt = &s.Status.Attempts[i]
	}
	profile, ok := s.Status.Profiles[r.Profile]
	err := json.Unmarshal(j.Transition.Raw, &o.Transition)
	switch {
	case err != nil:
		err = fmt.Errorf("reading transition %d of CDEventSubject %s: %w", j.Sequence, s.Name, err)
	case !ok:
		err = fmt.Errorf("transition %d of CDEventSubject %s refers to rendering profile %q, which does not exist",
			j.Sequence, s.Name, r.Profile)
	case o.Transition.Sequence != j.Sequence:
		err = fmt.Errorf("transition %d of CDEventSubject %s says that it is number %d", j.Sequence, s.Name,
			o.Transition.Sequence)
	}
	o.Profile = profile
	if err != nil {
		o.Unreadable = err
		o.Transition = lifecycle.Transition{Sequence: j.Sequence, Time: j.Time.Time, Type: lifecycle.Type(j.Type)}
	}
	return o
}

func recipient(j v1alpha1.JournalEntry, source types.UID) (v1alpha1.Recipient, bool) {
	i := slices.IndexFunc(j.Recipients, func(r v1alpha1.Recipient) bool { return r.Source == source })
	if i < 0 {
		return v1alpha1.Recipient{}, false
	}
	return j.Recipients[i], true
}

// Backlog sums up what is pending for one source.
type Backlog struct {
	Pending int64
	// Oldest is the time of the oldest pending transition.
	Oldest time.Time
	// Keys are the objects with pending events.
	Keys []Key
}

// Backlogs sums up what is pending, by source.
func (l *Ledger) Backlogs() map[types.UID]Backlog {
	l.mu.RLock()
	defer l.mu.RUnlock()
	out := map[types.UID]Backlog{}
	for key, subs := range l.byKey {
		counted := map[types.UID]bool{}
		for _, sub := range subs {
			if sub.object == nil {
				continue
			}
			st := &sub.object.Status
			for _, j := range st.Journal {
				for _, r := range j.Recipients {
					if j.Sequence <= max(st.Acknowledged[r.Source], sub.acked[r.Source]) {
						continue
					}
					s := out[r.Source]
					s.Pending++
					if s.Oldest.IsZero() || j.Time.Time.Before(s.Oldest) {
						s.Oldest = j.Time.Time
					}
					if !counted[r.Source] {
						counted[r.Source] = true
						s.Keys = append(s.Keys, key)
					}
					out[r.Source] = s
				}
			}
		}
	}
	return out
}

// Acknowledge notes that a source has an event, and all events of its CDEventSubject before it.
// This is written with the object's next transition, or about a second later.
func (l *Ledger) Acknowledge(p Pending, source types.UID) {
	wait := ackAfter
	if l.note(p, source, func(sub *subject) {
		sub.acknowledgeLocked(source, p.Transition.Sequence)
		l.holdLocked(sub)
		switch {
		case !l.leads(sub.key.NamespacedName()): // whoever does sends again what it does not know
			wait, sub.heldSince = 0, overdue
		case l.scarceLocked():
			wait = 0
		}
	}) {
		l.acks.AddAfter(p.Name, wait)
	}
}

// Drop drops an event for a reason. It counts as acknowledged from then on.
func (l *Ledger) Drop(p Pending, source types.UID, reason string) {
	l.drop(p, source, reason, ackAfter)
}

// drop has a drop written with the object's next transition, or later.
func (l *Ledger) drop(p Pending, source types.UID, reason string, wait time.Duration) {
	if l.note(p, source, func(sub *subject) { sub.dropLocked(drop{source, p.Transition.Sequence, reason}) }) {
		l.metrics.Dropped(reason, 1)
		l.acks.AddAfter(p.Name, wait)
	}
}

// note notes something of an event, unless the journal does not have it any more. It returns whether it has.
func (l *Ledger) note(p Pending, source types.UID, f func(*subject)) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	sub, ok := l.subjects[p.Name]
	if !ok || l.discarded || sub.object == nil || !holds(sub.object, p, source) {
		return false // another leader has sent it, too, or it is from before a backup was restored
	}
	f(sub)
	return true
}

// Holds reports whether an event is still pending for a source. Between Pending and its turn, it may have been dropped,
// or sent by another leader.
func (l *Ledger) Holds(p Pending, source types.UID) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	sub, ok := l.subjects[p.Name]
	return ok && sub.object != nil && holds(sub.object, p, source) &&
		p.Transition.Sequence > max(sub.object.Status.Acknowledged[source], sub.acked[source])
}

// holds reports whether a journal still has an event. After its object was forgotten, or a backup restored, another one
// may have its number.
func holds(s *v1alpha1.CDEventSubject, p Pending, source types.UID) bool {
	return slices.ContainsFunc(s.Status.Journal, func(j v1alpha1.JournalEntry) bool {
		_, ok := recipient(j, source)
		return ok && j.Sequence == p.Transition.Sequence && j.Time.Time.Equal(p.at)
	})
}

// Abandon drops all events that are pending for a deleted source about objects that this
// process leads for. Each event is counted once.
func (l *Ledger) Abandon(source types.UID, leads func(types.NamespacedName) bool) {
	var all []Pending
	l.mu.RLock()
	for _, sub := range l.subjects {
		if sub.object == nil || !leads(KeyOf(sub.object.Spec).NamespacedName()) {
			continue
		}
		for _, j := range sub.object.Status.Journal {
			acked := max(sub.object.Status.Acknowledged[source], sub.acked[source])
			if _, ok := recipient(j, source); ok && j.Sequence > acked {
				all = append(all, Pending{
					Name: sub.name, Transition: lifecycle.Transition{Sequence: j.Sequence}, at: j.Time.Time,
				})
			}
		}
	}
	l.mu.RUnlock()
	for i, p := range all {
		// These are not urgent, so they come after the acknowledgements of other sources.
		l.drop(p, source, DroppedSourceRemoved, ackAfter+time.Duration(i)*abandonEvery)
	}
}

// WriteAcks writes what was acknowledged of one CDEventSubject, or forgets it if a user asks for that.
func (l *Ledger) WriteAcks(ctx context.Context, name string) error {
	l.mu.RLock()
	sub, ok := l.subjects[name]
	var object *v1alpha1.CDEventSubject
	if ok {
		object = sub.object
	}
	l.mu.RUnlock()
	switch {
	case object == nil || object.Spec.UID == "":
		return nil
	case l.mayForget(object):
		return l.forget(ctx, sub)
	}
	if err := l.write(ctx, sub, object.Spec, nil); err != nil {
		return fmt.Errorf("writing acknowledgements: %w", err)
	}
	return nil
}
