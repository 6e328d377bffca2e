package wal_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// end commits the last state of a CDEventSubject, without a checkpoint.
func (p *process) end(o *v1alpha1.CDEventSubject) {
	p.t.Helper()
	last := next(o, "gone")
	last.Status.Removed = true
	if _, err := p.Update(p.t.Context(), last, metav1.UpdateOptions{}); err != nil {
		p.t.Fatal(err)
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
	s := store.New()
	a := start(t, s, 4)
	y := a.create("y")
	b := start(t, s, 4)
	a.end(a.create("x"))
	y = b.update(y, "0") // conflicts, and reads on
	for _, says := range []string{"1", "2", "3", "4", "5"} {
		y = b.update(y, says)
	}
	b.ended()
	b.follow()
	b.checkpoints()
	b.ended()
	for _, o := range b.told {
		if o.Spec.Name == "x" && !o.Status.Removed {
			t.Errorf("told of revision %d after the end", o.Status.Revision)
		}
	}
}

// After a relist, the informer may deliver the slot that tells of the end before the CDEventSubject.
func TestEndSeenBeforeTheCreation(t *testing.T) {
	t.Parallel()
	s := store.New()
	a := start(t, s, 4)
	y := a.create("y")
	b := start(t, s, 4)
	a.end(a.create("x"))
	for _, name := range []string{"log-001", "service-x"} {
		b.Observe(t.Context(), s.Peek(name))
	}
	for _, says := range []string{"0", "1", "2", "3", "4", "5"} {
		y = b.update(y, says)
	}
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
	y := a.create("y")
	b := start(t, s, 4)
	a.remove(a.create("x"))
	b.update(y, "0")
	told := len(b.told)
	b.follow()
	for _, o := range b.told[told:] {
		if o.Spec.Name == "x" && !o.Status.Removed {
			t.Errorf("told of revision %d: %q", o.Status.Revision, o.Status.LastEvent)
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
	x := a.create("x")
	b := start(t, s, 8)
	b.remove(x)
	late := x.DeepCopy()
	late.UID, late.ResourceVersion = "", ""
	if _, err := s.Create(t.Context(), late, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.follow()
	b.checkpoints()
	b.want("x", "gone")
	if o := s.Peek("service-x"); !o.Status.Removed {
		t.Errorf("revision %d: %q", o.Status.Revision, o.Status.LastEvent)
	}
}
