// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// forgetful is a process that keeps nothing in memory.
type forgetful struct {
	now      time.Time
	attempts []v1alpha1.Attempt
}

func (f *forgetful) ledger(s *store.Store, q *store.Acks) *ledger.Ledger {
	l := ledger.New(s, everyone{"a", "b"}, &counts{}, ledger.WithAcks(q), ledger.WithOwed(ledger.Owed{
		Attempts: func(string) []v1alpha1.Attempt { return f.attempts },
		Now:      func() time.Time { return f.now },
	}))
	for _, o := range s.All() {
		l.Observe(o)
	}
	return l
}

// In each state that is stored, the annotation says when something is to be done.
func TestWakeFollowsFromWhatIsOwed(t *testing.T) {
	s, q := store.New(), &store.Acks{}
	f := &forgetful{now: noon}
	l, name := f.ledger(s, q), ledger.Name(cart)
	wake := func(what string, want time.Time) {
		t.Helper()
		at := s.Peek(name).Annotations[v1alpha1.WakeAnnotation]
		if want.IsZero() && at != "" || !want.IsZero() && at != want.Format(time.RFC3339) {
			t.Errorf("%s: %s is %q, want %s", what, v1alpha1.WakeAnnotation, at, want)
		}
	}
	must(t, add(l, lifecycle.Deployed, ""))
	wake("journaled, and the process may end", noon.Add(time.Minute))

	f.attempts = []v1alpha1.Attempt{
		{Source: "a", Sequence: 1, Tries: 3, NotBefore: metav1.NewMicroTime(noon.Add(time.Hour))},
		{Source: "b", Sequence: 1, Tries: 1, NotBefore: metav1.NewMicroTime(noon.Add(2 * time.Hour))},
	}
	must(t, l.WriteAcks(t.Context(), name))
	wake("both sinks fail", noon.Add(time.Hour))
	if p := l.Pending(key, "b"); len(p) != 1 || p[0].Attempt == nil || p[0].Attempt.Tries != 1 {
		t.Errorf("pending with %+v", p)
	}
	writes := s.Writes()
	must(t, l.WriteAcks(t.Context(), name))
	if s.Writes() != writes {
		t.Error("the same was written again")
	}

	acknowledge(l, name, "a", 1)
	must(t, l.WriteAcks(t.Context(), name))
	wake("one sink accepts it", noon.Add(2*time.Hour))
	if got := s.Peek(name).Status.Attempts; len(got) != 1 || got[0].Source != "b" {
		t.Errorf("attempts %+v", got)
	}

	// The next process knows it from the ledger.
	f.attempts = nil
	l = f.ledger(s, q)
	acknowledge(l, name, "b", 1)
	must(t, l.WriteAcks(t.Context(), name))
	wake("nothing left to do", time.Time{})

	must(t, l.Journal(t.Context(), cart, func(*v1alpha1.CDEventSubject) (*ledger.Change, error) {
		return &ledger.Change{
			Memory: lifecycle.Memory{Sequence: 1}, Due: noon.Add(time.Minute),
			Waits: map[lifecycle.Wait]time.Time{"incident/outage": noon},
		}, nil
	}))
	wake("an outage lasts", noon.Add(time.Minute))

	must(t, add(l, lifecycle.Removed, ""))
	acknowledge(l, name, "a", 2)
	acknowledge(l, name, "b", 2)
	must(t, l.WriteAcks(t.Context(), name))
	wake("finished", noon.Add(10*time.Minute))
	if st := s.Peek(name).Status; st.Waits != nil || st.Due != nil {
		t.Errorf("waits of what is gone: %v until %v", st.Waits, st.Due)
	}
	must(t, l.Expire(t.Context(), name, noon.Add(9*time.Minute)))
	if !s.Has(name) {
		t.Error("deleted too early")
	}
	must(t, l.Expire(t.Context(), name, noon.Add(10*time.Minute)))
	if s.Has(name) {
		t.Error("not deleted")
	}
}

// A process that remembers takes over, and its writes keep what another one owes as long as that is pending.
func TestAttemptsEndWithTheirEvents(t *testing.T) {
	s := store.New()
	f := &forgetful{now: noon, attempts: []v1alpha1.Attempt{{Source: "a", Sequence: 1, Tries: 3}}}
	must(t, add(f.ledger(s, &store.Acks{}), lifecycle.Deployed, ""))
	q := &store.Acks{}
	l := ledger.New(s, everyone{"a", "b"}, &counts{}, ledger.WithAcks(q))
	l.Observe(s.Peek(ledger.Name(cart)).DeepCopy())
	must(t, add(l, lifecycle.Upgraded, ""))
	if got := s.Peek(ledger.Name(cart)).Status.Attempts; len(got) != 1 || got[0].Tries != 3 {
		t.Errorf("attempts %+v", got)
	}
	acknowledge(l, ledger.Name(cart), "a", 1)
	must(t, l.WriteAcks(t.Context(), ledger.Name(cart)))
	if got := s.Peek(ledger.Name(cart)).Status.Attempts; len(got) != 0 {
		t.Errorf("attempts %+v", got)
	}
}
