// SPDX-License-Identifier: Apache-2.0

package wal_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// inHours is when the checkpoint of any state is due.
func inHours(n int) time.Time { return time.Now().Add(time.Duration(n) * time.Hour) }

// A process that is behind does not write the checkpoint of what another has ended and deleted for good.
func TestDeletedIsNotWrittenAgainByAnother(t *testing.T) {
	t.Parallel()
	s := store.New()
	a := start(t, s, 8)
	x := a.update(a.create("x"), "1") // a has it behind
	b := start(t, s, 8)
	b.remove(x) // another leader finishes it, writes its checkpoint, and deletes it for good
	if s.Has("service-x") {
		t.Fatal("setup")
	}
	for i := range 3 { // a resumes: its informer has delivered nothing yet
		_ = a.Checkpoint(t.Context(), inHours(i+1))
	}
	if o := s.Peek("service-x"); o != nil {
		t.Errorf("deleted for good, and there again: revision %d says %q", o.Status.Revision, o.Status.LastEvent)
		b.follow()
		b.want("x", "1")
	}
}

// Nor does it restore, when it has read the log, what was deleted by hand and has ended since.
func TestRestoredTooLate(t *testing.T) {
	t.Parallel()
	s := store.New()
	a := start(t, s, 16)
	x := a.update(a.create("x"), "1")
	a.checkpoints()
	b := start(t, s, 16)
	s.Remove("service-x")
	a.follow() // a's ledger will restore x, and is suspended
	b.follow()
	if _, err := b.Create(t.Context(), restoration(b.current("x"), "restored by b"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.follow()
	b.remove(b.current("x"))
	if o, err := a.Create(t.Context(), restoration(x, "restored by a"), metav1.CreateOptions{}); err == nil {
		t.Errorf("created again as revision %d with %q, based on revision %d", o.Status.Revision, o.Status.LastEvent, x.Status.Revision)
	}
}

// What the log restores keeps its place in the order of events: the time at which it was first created.
func TestRestoredKeepsItsPlace(t *testing.T) {
	t.Parallel()
	s := store.New()
	s.Now = func() time.Time { return time.Unix(1_700_000_000, 0) }
	a := start(t, s, 8)
	a.update(a.create("x"), "1")
	s.Now = func() time.Time { return time.Unix(1_700_009_000, 0) }
	s.Remove("service-x")
	_ = a.Checkpoint(t.Context(), inHours(1)) // the checkpoint notices before the informer does
	_ = a.Checkpoint(t.Context(), inHours(2))
	o := s.Peek("service-x")
	if o == nil {
		t.Fatal("not restored")
	}
	a.follow()
	o = a.current("x")
	if o.Status.Created == nil && o.CreationTimestamp.Unix() != 1_700_000_000 {
		t.Errorf("it was created at %v, restored with %v", 1_700_000_000, o.CreationTimestamp.Unix())
	}
}

// When a slot is deleted by hand, what only it had is written first, also if events are pending.
func TestSlotDeletedWithPendingEvents(t *testing.T) {
	t.Parallel()
	s := store.New()
	a := start(t, s, 8)
	a.Checkpoints.Patience, a.Checkpoints.Age, a.Checkpoints.Rate = time.Minute, 2*time.Second, 2
	x := next(a.create("x"), "sent")
	x.Status.Journal = []v1alpha1.JournalEntry{{Sequence: 1}}
	if _, err := a.Update(t.Context(), x, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Remove("log-001")
	a.follow()
	now := time.Now()
	for i := range 50 { // almost a minute
		_ = a.Checkpoint(t.Context(), now.Add(time.Duration(i)*time.Second))
	}
	start(t, s, 8).want("x", "sent")
}

// A state that cannot be encoded does not fail those that are written together with it.
func TestUnencodableStateFailsAlone(t *testing.T) {
	t.Parallel()
	s := store.New()
	a := start(t, s, 8)
	x, y := next(a.create("x"), "1"), next(a.create("y"), "1")
	x.Status.Journal = []v1alpha1.JournalEntry{{Sequence: 1, Transition: runtime.RawExtension{Raw: []byte("{")}}}
	errs := a.CommitTogether(t.Context(), []*v1alpha1.CDEventSubject{x, y})
	if errs[1] != nil {
		t.Errorf("y: %v", errs[1])
	}
}

// Somebody edits the position of a slot to one that cannot be. The log goes on, and the states in the slot are kept.
func TestPositionEditedByHand(t *testing.T) {
	for _, slots := range []int{3, 256} {
		t.Run(fmt.Sprint(slots), func(t *testing.T) {
			t.Parallel()
			s := store.New()
			a := start(t, s, slots)
			a.update(a.create("x"), "1")
			a.create("y")
			o := s.Peek("log-001").DeepCopy()
			o.Status.Sequence = math.MaxInt64
			if _, err := s.Update(t.Context(), o, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			b := start(t, s, slots)
			for i := range 5 {
				if _, err := b.Update(t.Context(), next(b.current("y"), fmt.Sprint(i)), metav1.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			b.checkpoints()
			c := start(t, s, slots)
			c.want("y", "4")
			c.want("x", "1")
		})
	}
}
