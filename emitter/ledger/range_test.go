// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// A journal entry whose sequence number is above that of the last transition could be sent,
// but never acknowledged.
func TestFutureSequenceNumberIsDropped(t *testing.T) {
	for name, c := range map[string]struct {
		edit    func(*v1alpha1.CDEventSubjectStatus)
		pending string
		lost    int64
	}{
		"an entry's number is raised":  {func(st *v1alpha1.CDEventSubjectStatus) { st.Journal[2].Sequence = 99 }, "1 2", 1},
		"the last sequence is lowered": {func(st *v1alpha1.CDEventSubjectStatus) { st.Sequence = 1 }, "1", 2},
		"the last sequence is missing": {func(st *v1alpha1.CDEventSubjectStatus) { st.Sequence = 0 }, "", 3},
	} {
		t.Run(name, func(t *testing.T) {
			s, counted := store.New(), &counts{}
			l, q := queued(s, everyone{"a"}, counted)
			for range 3 {
				must(t, add(l, lifecycle.Upgraded, ""))
			}
			o := s.All()[0].DeepCopy()
			c.edit(&o.Status)
			o, err := s.Update(context.Background(), o, metav1.UpdateOptions{})
			must(t, err)
			l.Observe(o)
			if got := sequences(l.Pending(key, "a")); got != c.pending {
				t.Errorf("pending %q, want %q", got, c.pending)
			}
			must(t, q.write(l))
			st := s.All()[0].Status
			if st.Dropped[ledger.DroppedUnreadable] != c.lost || counted.dropped[ledger.DroppedUnreadable] != c.lost || len(st.Journal) != 3-int(c.lost) {
				t.Errorf("dropped %d in the status, %d in the metric, want %d; %d entries left", st.Dropped[ledger.DroppedUnreadable], counted.dropped[ledger.DroppedUnreadable], c.lost, len(st.Journal))
			}
		})
	}
}

// If the memory alone exceeds the limit and no event is pending, there is nothing to drop.
func TestMemoryAboveTheLimitIsWritten(t *testing.T) {
	s := store.New()
	l := ledger.New(s, everyone{"a"}, &counts{})
	for range 2 {
		must(t, l.Journal(context.Background(), cart, func(*v1alpha1.CDEventSubject) (*ledger.Change, error) {
			return &ledger.Change{Memory: lifecycle.Memory{URLs: []string{strings.Repeat("u", 1100<<10)}}}, nil
		}))
	}
	if s.Writes() != 2 {
		t.Errorf("%d writes", s.Writes())
	}
}

// If thousands of events are pending for a name, they are returned a part at a time.
func TestPendingEventsComeInParts(t *testing.T) {
	s := store.New()
	l := ledger.New(s, everyone{"a"}, &counts{})
	const all = 150
	for range all {
		must(t, add(l, lifecycle.Upgraded, ""))
	}
	next, rounds := int64(1), 0
	for pending := l.Pending(key, "a"); len(pending) > 0; pending = l.Pending(key, "a") {
		for _, o := range pending {
			if o.Transition.Sequence != next {
				t.Fatalf("got event %d, want %d", o.Transition.Sequence, next)
			}
			acknowledge(l, o.Name, "a", next)
			next++
		}
		rounds++
	}
	if next != all+1 || rounds < 2 {
		t.Errorf("%d events in %d parts", next-1, rounds)
	}
}

// The next transition may get the same number as an invalid entry. It must still be sent.
func TestExtraEntryWithTheNextNumberCostsNoEvent(t *testing.T) {
	for name, edit := range map[string]func(*v1alpha1.JournalEntry){
		"a copy with another number": func(j *v1alpha1.JournalEntry) { j.Sequence = 4 },
		"a copy with a matching transition": func(j *v1alpha1.JournalEntry) {
			j.Sequence, j.Transition.Raw = 4, []byte(`{"sequence":4,"type":"ServiceRolledBack"}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, counted := store.New(), &counts{}
			l, q := queued(s, everyone{"a"}, counted)
			for range 3 {
				must(t, add(l, lifecycle.Upgraded, ""))
			}
			o := s.All()[0].DeepCopy()
			extra := *o.Status.Journal[1].DeepCopy()
			edit(&extra)
			o.Status.Journal = append(o.Status.Journal, extra)
			o, err := s.Update(context.Background(), o, metav1.UpdateOptions{})
			must(t, err)
			l.Observe(o)
			must(t, add(l, lifecycle.Upgraded, ""))
			pending := l.Pending(key, "a")
			if got := sequences(pending); got != "1 2 3 4" {
				t.Fatalf("pending %q", got)
			}
			if last := pending[3]; last.Unreadable != nil || last.Transition.Type != lifecycle.Upgraded {
				t.Errorf("%+v", last)
			}
			must(t, q.write(l))
			if n := s.All()[0].Status.Dropped[ledger.DroppedUnreadable]; n != 1 || counted.dropped[ledger.DroppedUnreadable] != 1 {
				t.Errorf("dropped %d in the status, %d in the metric", n, counted.dropped[ledger.DroppedUnreadable])
			}
		})
	}
}

// Invalid journal entries are dropped, so they do not keep the CDEventSubject of a deleted object.
func TestInvalidEntriesDoNotKeepARemovedObject(t *testing.T) {
	s := store.New()
	l, q := queued(s, everyone{"a"}, &counts{})
	must(t, add(l, lifecycle.Upgraded, ""))
	o := s.All()[0].DeepCopy()
	o.Status.Removed, o.Status.Journal[0].Sequence = true, -1
	o, err := s.Update(context.Background(), o, metav1.UpdateOptions{})
	must(t, err)
	l.Observe(o)
	l.Pending(key, "a")
	must(t, q.write(l))
	if st := s.All()[0].Status; len(st.Journal) > 0 || st.Pending > 0 || st.Dropped[ledger.DroppedUnreadable] != 1 {
		t.Errorf("%+v", st)
	}
}

// Somebody has edited what a source has acknowledged to a number that no transition has yet. The source receives what
// happens from then on.
func TestAcknowledgementOfWhatHasNotHappened(t *testing.T) {
	s := store.New()
	l, _ := queued(s, everyone{"a"}, &counts{})
	must(t, add(l, lifecycle.Created, ""))
	o := s.All()[0]
	o.Status.Acknowledged = map[types.UID]int64{"a": 1000}
	_, err := s.Update(t.Context(), o, updateOptions)
	must(t, err)
	l.Observe(s.All()[0])
	must(t, add(l, lifecycle.Deployed, ""))
	if got := sequences(l.Pending(key, "a")); got != "2" {
		t.Errorf("pending %q, want 2", got)
	}
}
