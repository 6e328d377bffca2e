// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// lease is how long a process that keeps nothing in memory has to send what it has journaled. After that, another one
// sends the event.
const lease = time.Minute

// Owed is for a process that keeps nothing in memory: what is still to be done about an object, and when, is part of
// each write. With every state that is written comes a WakeAnnotation, unless nothing is left to do. So whoever keeps
// the time by these annotations loses nothing, even if the process ends between two writes.
type Owed struct {
	// Attempts returns what came of the events of a CDEventSubject that this process tried to send.
	Attempts func(name string) []v1alpha1.Attempt
	Now      func() time.Time
}

// WithOwed sets what this process owes.
func WithOwed(o Owed) Option { return func(l *Ledger) { l.owed = &o } }

// complete adds what is still to be done to a state that is about to be written.
func (o *Owed) complete(e *edit) {
	e.next.Status.Attempts = o.attempts(e.next)
	wake := o.wake(e, e.next.Status.Attempts)
	switch {
	case wake.IsZero():
		delete(e.next.Annotations, v1alpha1.WakeAnnotation)
	default:
		metav1.SetMetaDataAnnotation(&e.next.ObjectMeta, v1alpha1.WakeAnnotation, stamp(wake))
	}
}

// differs reports whether the present state is wrong about what is still to be done.
func (o *Owed) differs(e *edit) bool {
	if e.current == nil {
		return false
	}
	attempts := o.attempts(e.next)
	wake := o.wake(e, attempts)
	return !slices.EqualFunc(attempts, e.current.Status.Attempts, sameAttempt) ||
		wake.IsZero() != Woken(e.current).IsZero() || !wake.IsZero() && stamp(wake) != stamp(Woken(e.current))
}

func sameAttempt(a, b v1alpha1.Attempt) bool {
	at, bt := a.NotBefore, b.NotBefore
	a.NotBefore, b.NotBefore = metav1.MicroTime{}, metav1.MicroTime{}
	return a == b && at.Time.Equal(bt.Time)
}

// attempts are those of the present state, with those of this process instead where there are any. Others are over.
func (o *Owed) attempts(s *v1alpha1.CDEventSubject) []v1alpha1.Attempt {
	ours, st := o.Attempts(s.Name), &s.Status
	out := slices.DeleteFunc(slices.Clone(st.Attempts), func(a v1alpha1.Attempt) bool {
		return slices.ContainsFunc(ours, func(b v1alpha1.Attempt) bool { return a.Source == b.Source })
	})
	out = slices.DeleteFunc(append(out, ours...), func(a v1alpha1.Attempt) bool { return !awaits(st, a) })
	slices.SortFunc(out, func(a, b v1alpha1.Attempt) int { return cmp.Compare(a.Source, b.Source) })
	if len(out) == 0 {
		return nil
	}
	return out
}

// awaits reports whether the event of an attempt is still pending.
func awaits(st *v1alpha1.CDEventSubjectStatus, a v1alpha1.Attempt) bool {
	return slices.ContainsFunc(st.Journal, func(j v1alpha1.JournalEntry) bool {
		r, ok := recipient(j, a.Source)
		return ok && j.Sequence == a.Sequence && isPending(st, j, r)
	})
}

// wake is when something is to be done about an object, zero for never.
func (o *Owed) wake(e *edit, attempts []v1alpha1.Attempt) time.Time {
	st, at := &e.next.Status, time.Time{}
	by := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	if st.Due != nil {
		by(st.Due.Time)
	}
	waiting := pendingSources(st)
	for _, source := range waiting {
		i := slices.IndexFunc(attempts, func(a v1alpha1.Attempt) bool { return a.Source == source })
		if i < 0 {
			by(o.Now().Add(lease))
			continue
		}
		by(attempts[i].NotBefore.Time)
	}
	if st.Removed && len(waiting) == 0 {
		// Until then, another process whose view is old may still see the object.
		if e.current != nil && Finished(e.current) && !Woken(e.current).IsZero() {
			return Woken(e.current)
		}
		return o.Now().Add(keepRemoved)
	}
	return at
}

// pendingSources are the sources that have a pending event, each once.
func pendingSources(st *v1alpha1.CDEventSubjectStatus) []types.UID {
	var out []types.UID
	for _, j := range st.Journal {
		for _, r := range j.Recipients {
			if isPending(st, j, r) && !slices.Contains(out, r.Source) {
				out = append(out, r.Source)
			}
		}
	}
	return out
}

// stamp is a time as the WakeAnnotation has it: whole seconds, so it may be a little early, and is never late.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Woken returns the time of the WakeAnnotation, zero if there is none that can be read.
func Woken(s *v1alpha1.CDEventSubject) time.Time {
	at, err := time.Parse(time.RFC3339, s.Annotations[v1alpha1.WakeAnnotation])
	if err != nil {
		return time.Time{}
	}
	return at
}

// Waits are waits as the ledger stores them.
func Waits(waits map[lifecycle.Wait]time.Time) map[string]metav1.MicroTime {
	if len(waits) == 0 {
		return nil
	}
	out := make(map[string]metav1.MicroTime, len(waits))
	for w, since := range waits {
		out[string(w)] = *v1alpha1.Micro(since)
	}
	return out
}
