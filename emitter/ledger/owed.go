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

// Owed is one event that is owed to one source.
type Owed struct {
	// Line is the name of the CDEventSubject.
	Line       string
	Subject    v1alpha1.CDEventSubjectSpec
	Profile    v1alpha1.Profile
	Transition lifecycle.Transition
	// Undecided says that the source's filters are to be applied first.
	Undecided bool
	// Unreadable says why the transition cannot be read; it has no more than its
	// sequence number, time and type then, and is to be given up in its turn.
	Unreadable error
}

// Subjects returns the entries of a watched object, one for each UID that it
// had: those that are gone first, then in the order in which they were made. They must not be changed.
func (l *Ledger) Subjects(key Key) []*v1alpha1.CDEventSubject {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.subjectsLocked(key)
}

func (l *Ledger) subjectsLocked(key Key) []*v1alpha1.CDEventSubject {
	var out []*v1alpha1.CDEventSubject
	for _, ln := range l.byKey[key] {
		if ln.object != nil {
			out = append(out, ln.object)
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

// created is when an entry was first made, by the clock of the API server: those of two
// leaders may differ.
func created(s *v1alpha1.CDEventSubject) time.Time {
	if s.Status.Created != nil {
		return s.Status.Created.Time
	}
	return s.CreationTimestamp.Time
}

// first is the time of the first transition that an entry still knows. Of objects
// that were created within one second it tells which came first.
func first(s *v1alpha1.CDEventSubject) time.Time {
	switch {
	case len(s.Status.Journal) > 0:
		return s.Status.Journal[0].Time.Time
	case s.Status.LastEventTime != nil:
		return s.Status.LastEventTime.Time
	}
	return time.Time{}
}

// Keys returns the key of every entry.
func (l *Ledger) Keys() []Key {
	l.mu.RLock()
	defer l.mu.RUnlock()
	out := make([]Key, 0, len(l.byKey))
	for key := range l.byKey {
		out = append(out, key)
	}
	return out
}

// maxOwed is how many events Owed returns at once. A name that is made and removed again
// and again, while a sink is down, is owed thousands.
const maxOwed = 64

// Owed returns the next events that are owed to a source about a watched object, in the
// order in which they must be sent: what happened to an object of the same name that is
// gone comes before what happened to the present one.
func (l *Ledger) Owed(key Key, source types.UID) []Owed {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var out []Owed
	for _, s := range l.subjectsLocked(key) {
		acked := max(s.Status.Acknowledged[source], l.lines[s.Name].acked[source])
		for _, j := range s.Status.Journal {
			if outOfRange(j, &s.Status) {
				l.acks.add(s.Name) // the next write gives it up
				continue
			}
			r, ok := recipient(j, source)
			if !ok || j.Sequence <= acked {
				continue
			}
			if out = append(out, owed(s, j, r)); len(out) == maxOwed {
				return out
			}
		}
	}
	return out
}

// outOfRange says that an entry has a number that was not given to any transition yet, as
// after an edit by hand. It could never be acknowledged.
func outOfRange(j v1alpha1.JournalEntry, st *v1alpha1.CDEventSubjectStatus) bool {
	return j.Sequence > st.Sequence
}

// owed reads a journal entry. Another version of this program may have written it,
// or somebody by hand.
func owed(s *v1alpha1.CDEventSubject, j v1alpha1.JournalEntry, r v1alpha1.Recipient) Owed {
	o := Owed{Line: s.Name, Subject: s.Spec, Undecided: r.Undecided}
	profile, ok := s.Status.Profiles[r.Profile]
	err := json.Unmarshal(j.Transition.Raw, &o.Transition)
	switch {
	case err != nil:
		err = fmt.Errorf("reading transition %d of CDEventSubject %s: %w", j.Sequence, s.Name, err)
	case !ok:
		err = fmt.Errorf("transition %d of CDEventSubject %s refers to rendering profile %q, which does not exist", j.Sequence, s.Name, r.Profile)
	case o.Transition.Sequence != j.Sequence:
		err = fmt.Errorf("transition %d of CDEventSubject %s says that it is number %d", j.Sequence, s.Name, o.Transition.Sequence)
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

// Standing is what is owed to one source altogether.
type Standing struct {
	Pending int64
	// Oldest is the time of the oldest transition that is owed.
	Oldest time.Time
	// Keys are the objects that something is owed about.
	Keys []Key
}

// Standings sums up what is owed, by source.
func (l *Ledger) Standings() map[types.UID]Standing {
	l.mu.RLock()
	defer l.mu.RUnlock()
	out := map[types.UID]Standing{}
	for key, lines := range l.byKey {
		counted := map[types.UID]bool{}
		for _, ln := range lines {
			if ln.object == nil {
				continue
			}
			st := &ln.object.Status
			for _, j := range st.Journal {
				for _, r := range j.Recipients {
					if j.Sequence <= max(st.Acknowledged[r.Source], ln.acked[r.Source]) {
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

// Acknowledge notes that a source has everything of a line up to a sequence
// number. It is written soon, together with others of the same line.
func (l *Ledger) Acknowledge(name string, source types.UID, sequence int64) {
	l.note(name, sequence, func(ln *line) { ln.acked[source] = max(ln.acked[source], sequence) })
}

// GiveUp notes that an event will not be sent, and why. It counts as
// acknowledged from then on.
func (l *Ledger) GiveUp(name string, source types.UID, sequence int64, reason string) {
	l.metrics.Dropped(reason, 1)
	l.note(name, sequence, func(ln *line) {
		ln.acked[source] = max(ln.acked[source], sequence)
		ln.given[reason]++
	})
}

// note passes over what the entry does not know: it is of before a backup was restored.
func (l *Ledger) note(name string, sequence int64, f func(*line)) {
	l.mu.Lock()
	ln, ok := l.lines[name]
	ok = ok && !l.discarded
	if ok && ln.object != nil && sequence <= ln.object.Status.Sequence {
		f(ln)
	}
	l.mu.Unlock()
	if ok {
		l.acks.add(name)
	}
}

// Abandon gives up everything that is owed to a source that was deleted, about
// the objects that this process leads: each event is counted once.
func (l *Ledger) Abandon(source types.UID, leads func(types.NamespacedName) bool) {
	type due struct {
		line string
		seq  int64
	}
	var all []due
	l.mu.RLock()
	for _, ln := range l.lines {
		if ln.object == nil || !leads(KeyOf(ln.object.Spec).NamespacedName()) {
			continue
		}
		for _, j := range ln.object.Status.Journal {
			acked := max(ln.object.Status.Acknowledged[source], ln.acked[source])
			if _, ok := recipient(j, source); ok && j.Sequence > acked {
				all = append(all, due{ln.name, j.Sequence})
			}
		}
	}
	l.mu.RUnlock()
	for _, d := range all {
		l.GiveUp(d.line, source, d.seq, DroppedSourceRemoved)
	}
}

// flush writes what was acknowledged of one line.
func (l *Ledger) flush(ctx context.Context, name string) error {
	l.mu.RLock()
	ln, ok := l.lines[name]
	var spec v1alpha1.CDEventSubjectSpec
	if ok && ln.object != nil {
		spec = ln.object.Spec
	}
	l.mu.RUnlock()
	if !ok || spec.UID == "" {
		return nil
	}
	if err := l.write(ctx, ln, spec, nil); err != nil {
		return fmt.Errorf("writing acknowledgements: %w", err)
	}
	return nil
}
