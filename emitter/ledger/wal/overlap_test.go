// SPDX-License-Identifier: Apache-2.0

package wal_test

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// These tests play two goroutines of one process: what one learns during a request of the other.

// wantGone fails the test if a process knows x, or if x exists again.
func (p *process) wantGone() {
	p.t.Helper()
	for range 2 {
		if o, err := p.Get(p.t.Context(), "service-x", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			p.t.Fatalf("%+v (%v), want not found", o, err)
		}
		p.follow()
		p.checkpoints()
	}
	if p.s.Has("service-x") {
		p.t.Error("it is there again")
	}
}

// The checkpoint of x conflicts, so x is read. It ends and is deleted before that answer is taken over, and the process reads everything
// again, because it has missed positions.
func TestAnswerIsOlderThanTheDrop(t *testing.T) {
	t.Parallel()
	s := store.New()
	a := start(t, s, 4)
	a.slots()
	x, y := a.create("x"), a.create("y")
	b, h := startHooked(t, s, 4)
	b.update(x, "1")
	a.follow()
	a.checkpoints()
	h.got = func(name string) {
		if name != "service-x" {
			return
		}
		h.got = nil
		a.remove(a.current("x"))
		a.updates(y, 6)
		if _, err := b.Update(t.Context(), next(y, "too late"), metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			t.Fatalf("setup: %v", err)
		}
	}
	for i := range 2 {
		if err := b.Checkpoint(t.Context(), inHours(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	b.wantGone()
}

// The same, when the process has never known x, and its informer never shows it.
func TestAnswerIsOlderThanAList(t *testing.T) {
	t.Parallel()
	s := store.New()
	a := start(t, s, 4)
	a.slots()
	y := a.create("y")
	b, h := startHooked(t, s, 4)
	x := a.create("x")
	h.got = func(string) {
		h.got = nil
		a.remove(x)
		a.updates(y, 6)
		if _, err := b.Update(t.Context(), next(y, "too late"), metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			t.Fatalf("setup: %v", err)
		}
		b.relist()
	}
	b.wantGone()
}

// The same without a list. A slot has the end of an earlier x, so that it is read, too. Meanwhile, the process reads of the end of this one.
func TestAnswerIsOlderThanTheLog(t *testing.T) {
	t.Parallel()
	s := store.New()
	a := start(t, s, 16)
	a.slots()
	y := a.create("y")
	b, h := startHooked(t, s, 16)
	a.remove(a.create("x"))
	b.follow()
	b.checkpoints()
	x := a.create("x")
	h.got = func(name string) {
		if !strings.HasPrefix(name, "log-") {
			return
		}
		h.got = nil
		a.remove(x)
		b.update(y, "reads on")
		if err := b.Checkpoint(t.Context(), inHours(1)); err != nil {
			t.Fatal(err)
		}
	}
	b.wantGone()
	if h.got != nil {
		t.Error("setup: no slot was read")
	}
}

// The informer delivers the deletion of x, and a new x, before the answer to the deletion is there.
func TestCreatedAnewBeforeTheDeletionIsAnswered(t *testing.T) {
	t.Parallel()
	s := store.New()
	a := start(t, s, 4)
	a.slots()
	x, y := a.create("x"), a.create("y")
	b := start(t, s, 4)
	b.end(x)
	b.checkpoints()
	a.follow()
	b.follow()
	s.After = func(verb, _ string) error {
		if verb == "delete" {
			s.After = nil
			a.follow()
			a.update(a.create("x"), "anew") // a ends before it has written the checkpoint
			b.follow()
		}
		return nil
	}
	if err := b.Delete(t.Context(), "service-x", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.updates(y, 6)
	b.follow()
	b.checkpoints()
	b.want("x", "anew")
	start(t, s, 4).want("x", "anew")
}

// x is created and removed several times while little else happens. A process that starts when the ring came round creates it once more.
func TestManyLivesInARow(t *testing.T) {
	t.Parallel()
	s := store.New()
	a := start(t, s, 4)
	a.slots()
	y := a.create("y")
	last := int64(0)
	for range 5 {
		x := a.create("x")
		last = x.Status.Revision + 1
		a.remove(x)
	}
	y = a.updates(y, 4)
	a.checkpoints()
	a.follow()
	b := start(t, s, 4)
	x := b.create("x")
	if x.Status.Revision <= last {
		t.Errorf("it is created with revision %d, and had revision %d before", x.Status.Revision, last)
	}
	b.update(x, "by b") // in the log only, and b ends
	if _, err := a.Update(t.Context(), next(y, "0"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	a.updates(a.current("y"), 5) // over the slot
	a.follow()
	a.checkpoints()
	a.want("x", "by b")
	start(t, s, 4).want("x", "by b")
}
