// SPDX-License-Identifier: Apache-2.0

package wal_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// checkpoints writes all checkpoints.
func (p *process) checkpoints() {
	p.t.Helper()
	for i := range 20 {
		if err := p.Checkpoint(p.t.Context(), time.Now().Add(time.Duration(i+1)*time.Hour)); err != nil {
			p.t.Fatal(err)
		}
	}
	if n := p.Behind(); n != 0 {
		p.t.Fatalf("%d CDEventSubjects are behind", n)
	}
}

// current is the newest state that a process knows.
func (p *process) current(name string) *v1alpha1.CDEventSubject {
	p.t.Helper()
	o, err := p.Get(p.t.Context(), "service-"+name, metav1.GetOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	return o
}

// remove commits the last state of a CDEventSubject, and deletes it.
func (p *process) remove(o *v1alpha1.CDEventSubject) {
	p.t.Helper()
	p.end(o)
	if err := p.Delete(p.t.Context(), o.Name, metav1.DeleteOptions{}); err != nil {
		p.t.Fatal(err)
	}
}

// refuse makes the API server refuse updates of CDEventSubjects that are no slots.
func refuse(s *store.Store, which func(name string) bool) {
	s.Before = func(verb, name string) error {
		if verb == "update" && name[:4] != "log-" && which(name) {
			return apierrors.NewForbidden(v1alpha1.SubjectResource.GroupResource(), name, errors.New("policy"))
		}
		return nil
	}
}

// An older state that somebody puts in the place of a checkpoint is replaced.
func TestCheckpointPutBackByHand(t *testing.T) {
	t.Parallel()
	s := store.New()
	a := start(t, s, 2)
	x, y := a.update(a.create("x"), "1"), a.create("y")
	a.checkpoints()
	old := s.Peek("service-x").DeepCopy()
	a.update(x, "2")
	a.checkpoints()
	for i := range 4 { // the ring forgets x
		y = a.update(y, fmt.Sprint(i))
	}
	old.ResourceVersion = s.Peek("service-x").ResourceVersion
	if _, err := s.Update(t.Context(), old, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	a.follow()
	a.want("x", "2")
	a.checkpoints()
	start(t, s, 2).want("x", "2")
}

// An earlier build writes no revision. What it wrote is newer than what slots still have from before.
func TestDowngradeAndUpgrade(t *testing.T) {
	t.Parallel()
	s := store.New()
	a := start(t, s, 256)
	x := a.create("x")
	for i := range 4 {
		x = a.update(x, fmt.Sprint("before ", i))
	}
	a.checkpoints()
	o := s.Peek("service-x").DeepCopy()
	o.Status.Revision, o.Status.LastEvent = 0, "by the earlier build"
	if _, err := s.Update(t.Context(), o, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	b := start(t, s, 256)
	b.want("x", "by the earlier build")
	b.update(b.current("x"), "afterwards")
	start(t, s, 256).want("x", "afterwards")
	b.checkpoints()
	start(t, s, 256).want("x", "afterwards")
	if got := view(s)["x"]; got != "afterwards" {
		t.Errorf("users see %q", got)
	}
}

// Somebody deletes the slot that a process that is behind would write next. Its end of the log is not the end.
func TestSlotDeletedWhileAProcessIsBehind(t *testing.T) {
	t.Parallel()
	s := store.New()
	a := start(t, s, 8)
	x := a.create("x")
	a.create("y")
	b := start(t, s, 8)
	a.update(a.update(x, "1"), "2")
	s.Remove("log-001")
	if _, err := b.Update(t.Context(), next(b.current("x"), "stale"), metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("%v, want a conflict", err)
	}
	b.update(b.current("y"), "by b")
	a.follow()
	a.want("y", "by b")
	a.update(a.current("y"), "by a")
	fresh := start(t, s, 8)
	fresh.want("x", "2")
	fresh.want("y", "by a")
}

// A standby whose informer missed more positions than the ring has reads everything again, though it never writes.
func TestStandbyMissesPositions(t *testing.T) {
	t.Parallel()
	s := store.New()
	a := start(t, s, 4)
	x := a.create("x")
	b := start(t, s, 4)
	x = a.updates(x, 10)
	b.relist()
	for i := range 1000 {
		x = a.update(x, fmt.Sprint("later ", i))
		b.follow()
	}
	if n := b.Ahead(); n > 4 {
		t.Errorf("it keeps %d slots", n)
	}
	for i := range 3 {
		if err := b.Checkpoint(t.Context(), time.Now().Add(time.Duration(i)*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	b.want("x", "later 999")
}

// The checkpoint of a state may be written after the next state was committed. Whoever reads both must end with the newer one, although its
// resourceVersion is lower.
func TestOlderStateIsWrittenLater(t *testing.T) {
	t.Parallel()
	s := store.New()
	a := start(t, s, 4)
	x, y := a.create("x"), a.create("y")
	b := start(t, s, 4)
	a.updates(y, 6)
	x = a.update(x, "1")
	s.Before = func(verb, name string) error {
		if verb == "update" && name == "service-x" {
			s.Before = nil
			a.update(x, "2")
		}
		return nil
	}
	for i := range 9 {
		_ = a.Checkpoint(t.Context(), time.Now().Add(time.Duration(i)*time.Hour)) // some may conflict
	}
	_, _ = b.Update(t.Context(), next(b.current("y"), "too late"), metav1.UpdateOptions{}) // b is behind, and reads everything again
	b.TellAll()
	var last *v1alpha1.CDEventSubject
	for _, o := range b.told {
		if o.Name == "service-x" && (last == nil || len(o.ResourceVersion) > len(last.ResourceVersion) || o.ResourceVersion > last.ResourceVersion) {
			last = o // as the ledger does
		}
	}
	if last == nil || last.Status.LastEvent != "2" {
		t.Errorf("the ledger has %+v", last)
	}
}

// Two processes create a CDEventSubject again, one because it was deleted by hand, the other because it has never known it.
func TestTwoCreateAgain(t *testing.T) {
	t.Parallel()
	s := store.New()
	a := start(t, s, 4)
	x := a.update(a.create("x"), "1")
	a.checkpoints()
	b := start(t, s, 4)
	deleted := s.Peek("service-x").DeepCopy()
	s.Remove("service-x")
	b.seen = len(s.Changes(0))
	b.Forget(deleted, false)
	a.follow()
	s.Before = func(verb, name string) error {
		if verb == "create" && name == "service-x" {
			s.Before = nil
			if _, err := b.Create(t.Context(), subject("x"), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
				t.Errorf("%v, want that it exists already", err)
			}
		}
		return nil
	}
	restored := restoration(x, "restored")
	if _, err := a.Create(t.Context(), restored, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	start(t, s, 4).want("x", "restored")
}

// A process that is behind creates what is in the log, or was.
func TestCreateWhatTheLogHas(t *testing.T) {
	t.Parallel()
	t.Run("deleted by hand", func(t *testing.T) {
		t.Parallel()
		s := store.New()
		a, behind := start(t, s, 4), start(t, s, 4)
		a.update(a.create("x"), "1")
		s.Remove("service-x")
		if _, err := behind.Create(t.Context(), subject("x"), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
			t.Errorf("%v, want that it exists already", err)
		}
	})
	t.Run("deleted because it was finished", func(t *testing.T) {
		t.Parallel()
		s := store.New()
		a, behind := start(t, s, 8), start(t, s, 8)
		a.remove(a.update(a.create("x"), "1"))
		behind.create("x")
		a.follow()
		a.update(a.current("x"), "another life")
		start(t, s, 8).want("x", "another life")
	})
}

// The states of a CDEventSubject that was deleted stay in the ring for a while, and mean nothing.
func TestDeletedStaysDeleted(t *testing.T) {
	t.Parallel()
	s := store.New()
	a := start(t, s, 8)
	a.remove(a.update(a.create("x"), "1"))
	fresh := start(t, s, 8)
	fresh.checkpoints()
	if s.Has("service-x") {
		t.Error("it is there again")
	}
}

// Checkpoints that the API server refuses keep no others from being written.
func TestRefusedCheckpoints(t *testing.T) {
	t.Parallel()
	s := store.New()
	p := start(t, s, 8)
	refuse(s, func(name string) bool { return name != "service-good" })
	for i := range 40 {
		p.update(p.create(fmt.Sprint("bad", i)), "1")
	}
	p.update(p.create("good"), "1")
	now := time.Now()
	for range 200 {
		now = now.Add(time.Second)
		_ = p.Checkpoint(t.Context(), now)
	}
	if got := s.Peek("service-good").Status.LastEvent; got != "1" {
		t.Errorf("its checkpoint says %q", got)
	}
}

// Nor do they stop the log, which carries their states on.
func TestRefusedCheckpointsAreCarried(t *testing.T) {
	t.Parallel()
	s := store.New()
	p := start(t, s, 1)
	refuse(s, func(name string) bool { return name < "service-n200" })
	for i := range 220 {
		p.update(p.create(fmt.Sprintf("n%03d", i)), fmt.Sprint(i))
	}
	fresh := start(t, s, 1)
	for i := range 220 {
		fresh.want(fmt.Sprintf("n%03d", i), fmt.Sprint(i))
	}
}

// A state with pending events is followed by another one when they are acknowledged, so its checkpoint can wait.
func TestCheckpointWaitsForAcknowledgements(t *testing.T) {
	t.Parallel()
	s := store.New()
	p := start(t, s, 8)
	p.Checkpoints.Patience = time.Minute
	pending := next(p.create("pending"), "1")
	pending.Status.Journal = []v1alpha1.JournalEntry{{Sequence: 1}}
	if _, err := p.Update(t.Context(), pending, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	p.update(p.create("settled"), "1")
	now := time.Now()
	at := func(after time.Duration) (string, string) {
		for range 2 {
			if err := p.Checkpoint(t.Context(), now.Add(after)); err != nil {
				t.Fatal(err)
			}
		}
		return s.Peek("service-pending").Status.LastEvent, s.Peek("service-settled").Status.LastEvent
	}
	at(0)
	if a, b := at(30 * time.Second); a != "" || b != "1" {
		t.Errorf("after 30 s, the checkpoints say %q and %q", a, b)
	}
	if a, _ := at(70 * time.Second); a != "1" {
		t.Errorf("after a minute, the checkpoint says %q", a)
	}
}
