// SPDX-License-Identifier: Apache-2.0

package wal_test

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// endsUnseen are two processes. One has created and ended x, and the informer of the other has not delivered that yet. Both have seen y.
func endsUnseen(t *testing.T) (b *process, y *v1alpha1.CDEventSubject) {
	t.Helper()
	s := store.New()
	a := start(t, s, 4)
	a.slots()
	y = a.create("y")
	b = start(t, s, 4)
	a.end(a.create("x"))
	return b, y
}

// putBack creates a CDEventSubject with its first state, after another process has ended and deleted it.
func putBack(t *testing.T, s *store.Store, x *v1alpha1.CDEventSubject) {
	t.Helper()
	late := x.DeepCopy()
	late.UID, late.ResourceVersion = "", ""
	if _, err := s.Create(t.Context(), late, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// ended requires that a process, and one that starts now, know that x has ended, or that it is not there.
func (p *process) ended() {
	p.t.Helper()
	fresh := start(p.t, p.s, 4)
	if !p.s.Has("service-x") {
		return
	}
	p.want("x", "gone")
	fresh.want("x", "gone")
}

// A process reads of the end of a CDEventSubject before its informer delivers the creation. It keeps that state when it overwrites slots.
func TestEndReadBeforeTheCreation(t *testing.T) {
	t.Parallel()
	b, y := endsUnseen(t)
	b.updates(y, 6) // the first one conflicts, and reads on
	b.ended()
	b.follow()
	b.checkpoints()
	b.ended()
	for _, o := range b.told {
		if o.Spec.Name == "x" && !o.Status.Removed {
			t.Errorf("Tell was called with revision %d, which is not the end", o.Status.Revision)
		}
	}
}

// After a relist, the informer may deliver the slot that tells of the end before the CDEventSubject.
func TestEndSeenBeforeTheCreation(t *testing.T) {
	t.Parallel()
	b, y := endsUnseen(t)
	for _, name := range []string{"log-001", "service-x"} {
		b.Observe(t.Context(), b.s.Peek(name))
	}
	b.updates(y, 6)
	b.ended()
	b.follow()
	b.checkpoints()
	b.ended()
}

// The informer delivers states of a CDEventSubject that this process has read to be ended and deleted. It does not restore them.
func TestCreationSeenAfterTheDeletion(t *testing.T) {
	t.Parallel()
	s := store.New()
	a := start(t, s, 4)
	a.slots()
	y := a.create("y")
	b := start(t, s, 4)
	a.remove(a.create("x"))
	b.update(y, "0")
	told := len(b.told)
	b.follow()
	for _, o := range b.told[told:] {
		if o.Spec.Name == "x" && !o.Status.Removed {
			t.Errorf("Tell was called with revision %d: %q", o.Status.Revision, o.Status.LastEvent)
		}
	}
	b.checkpoints()
	if s.Has("service-x") {
		t.Error("restored")
	}
}

// A process that was suspended puts a CDEventSubject back that another has ended and deleted meanwhile. Who knows of the end ends it again.
func TestEndedIsPutBack(t *testing.T) {
	t.Parallel()
	s := store.New()
	a := start(t, s, 8)
	a.slots()
	x := a.create("x")
	b := start(t, s, 8)
	b.remove(x)
	putBack(t, s, x)
	b.follow()
	b.checkpoints()
	b.want("x", "gone")
	if o := s.Peek("service-x"); !o.Status.Removed {
		t.Errorf("revision %d: %q", o.Status.Revision, o.Status.LastEvent)
	}
}

// The same, after this process has read everything again: that list has nothing of the CDEventSubject, and no slot has.
func TestCreationSeenAfterALaterList(t *testing.T) {
	t.Parallel()
	s := store.New()
	a := start(t, s, 4)
	a.slots()
	y := a.create("y")
	b := start(t, s, 4)
	a.remove(a.create("x"))
	a.updates(y, 6)
	if _, err := b.Update(t.Context(), next(y, "stale"), metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Fatalf("%v, want a conflict", err)
	}
	b.follow()
	for _, o := range b.told {
		if o.Spec.Name == "x" && !o.Status.Removed {
			t.Errorf("Tell was called with revision %d: %q", o.Status.Revision, o.Status.LastEvent)
		}
	}
}

// A process has missed positions, and its informer shows the end of a CDEventSubject and its deletion. Then it reads positions from before the
// end, which do not count any more.
func TestPositionsReadAfterTheDeletion(t *testing.T) {
	t.Parallel()
	s := store.New()
	a := start(t, s, 4)
	a.slots()
	x, y := a.create("x"), a.create("y")
	b := start(t, s, 4)
	a.updates(y, 6)
	b.relist()
	a.remove(a.update(x, "1"))
	b.follow()
	told := len(b.told)
	b.checkpoints()
	b.TellAll()
	for _, o := range b.told[told:] {
		if o.Spec.Name == "x" {
			t.Errorf("Tell was called with revision %d: %q", o.Status.Revision, o.Status.LastEvent)
		}
	}
}

// A CDEventSubject has ended in positions that a process has missed, and was deleted. The process does not restore it, also if its ledger asks
// for that.
func TestEndWasMissed(t *testing.T) {
	t.Parallel()
	s := store.New()
	a := start(t, s, 4)
	a.slots()
	x, y := a.create("x"), a.create("y")
	b := start(t, s, 4)
	a.remove(x)
	a.updates(y, 6)
	if _, err := b.Update(t.Context(), next(x, "stale"), metav1.UpdateOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("updating: %v, want not found", err)
	}
	if _, err := b.Create(t.Context(), restoration(x, "restored"), metav1.CreateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("restoring: %v, want a conflict", err)
	}
	b.checkpoints()
	if s.Has("service-x") {
		t.Error("restored")
	}
}

// A CDEventSubject was deleted by hand, restored, ended and deleted, and the informer has seen nothing but the first object. When a list shows
// that this one is gone, the process forgets the other one too.
func TestSuccessorIsNeverSeen(t *testing.T) {
	t.Parallel()
	s := store.New()
	a := start(t, s, 8)
	a.slots()
	x := a.create("x")
	b := start(t, s, 8)
	first := s.Peek("service-x")
	s.Remove("service-x")
	a.follow()
	if _, err := a.Create(t.Context(), restoration(x, "restored"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Update(t.Context(), next(x, "stale"), metav1.UpdateOptions{}); !apierrors.IsConflict(err) { // and b reads on
		t.Fatalf("%v, want a conflict", err)
	}
	b.update(b.current("x"), "by b")
	b.checkpoints() // conflicts, and reads the second object
	a.follow()
	a.remove(a.current("x"))
	b.seen = len(s.Changes(0))
	b.Forget(first, false)
	b.checkpoints()
	if o, err := b.Get(t.Context(), "service-x", metav1.GetOptions{}); err == nil {
		t.Errorf("it is still known: revision %d, %q", o.Status.Revision, o.Status.LastEvent)
	}
	if s.Has("service-x") {
		t.Error("restored")
	}
}
