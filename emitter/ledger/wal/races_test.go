// SPDX-License-Identifier: Apache-2.0

package wal_test

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// hooked is a client whose List and Get let something else happen after the API server has read, before the answer is there.
type hooked struct {
	*store.Store
	listed func()
	got    func(name string)
}

func (h *hooked) List(ctx context.Context, o metav1.ListOptions) (*v1alpha1.CDEventSubjectList, error) {
	out, err := h.Store.List(ctx, o)
	if f := h.listed; f != nil {
		h.listed = nil
		f()
	}
	return out, err
}

func (h *hooked) Get(ctx context.Context, name string, o metav1.GetOptions) (*v1alpha1.CDEventSubject, error) {
	out, err := h.Store.Get(ctx, name, o)
	if h.got != nil {
		h.got(name)
	}
	return out, err
}

func startHooked(t *testing.T, s *store.Store, slots int) (*process, *hooked) {
	t.Helper()
	h := &hooked{Store: s}
	return startWith(t, h, s, slots), h
}

// gap are two processes, and x as the first one has created it. The second has missed positions, so it reads everything again when it
// writes checkpoints; listed is called before it has the answer.
func gap(t *testing.T, listed func(a, b *process, x *v1alpha1.CDEventSubject)) (b *process, x *v1alpha1.CDEventSubject) {
	t.Helper()
	s := store.New()
	a := start(t, s, 4)
	a.slots()
	x = a.create("x")
	y := a.create("y")
	b, h := startHooked(t, s, 4)
	a.updates(y, 6)
	b.relist()
	h.listed = func() { listed(a, b, x) }
	now := time.Now()
	for i := range 100 { // for a long time; nobody else writes
		if err := b.Checkpoint(t.Context(), now.Add(time.Duration(i)*time.Second)); err != nil {
			t.Fatal(err)
		}
		b.follow()
	}
	if h.listed != nil {
		t.Fatal("setup: it has not read everything again")
	}
	b.TellAll()
	return b, x
}

// The informer delivers a slot while everything is read again. It does not deliver it a second time.
func TestSlotSeenWhileAllIsRead(t *testing.T) {
	t.Parallel()
	b, _ := gap(t, func(a, b *process, x *v1alpha1.CDEventSubject) {
		a.update(x, "the last one")
		b.follow()
	})
	b.want("x", "the last one")
	if says := b.s.Peek("service-x").Status.LastEvent; b.Behind() != 0 || says != "the last one" {
		t.Errorf("checkpoint %q", says)
	}
}

// A CDEventSubject is deleted by hand, restored, and ended. A process that has read the end sees the deletion by hand, and keeps the end.
func TestEarlierObjectSeenDeletedAfterTheEnd(t *testing.T) {
	t.Parallel()
	s := store.New()
	a := start(t, s, 4)
	a.slots()
	x, y := a.create("x"), a.create("y")
	b := start(t, s, 4)
	s.Remove("service-x")
	a.follow()
	x, err := a.Create(t.Context(), restoration(x, "restored"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	a.end(x)
	y = b.update(y, "0") // conflicts, and reads on
	for _, c := range s.Changes(b.seen) {
		b.seen++
		if c.Deleted {
			b.Forget(c.Object, true)
			break
		}
		b.Observe(t.Context(), c.Object)
	}
	b.updates(y, 5)
	b.follow()
	b.checkpoints()
	b.want("x", "gone")
	start(t, s, 4).want("x", "gone")
	if got := view(s)["x"]; got != "gone" {
		t.Errorf("users see %q", got)
	}
}

// The informer has missed a deletion, and a list shows it while a change of the same CDEventSubject is on its way. The change is committed.
func TestSeenDeletedWhileItIsWritten(t *testing.T) {
	t.Parallel()
	s := store.New()
	a := start(t, s, 4)
	x, y := a.create("x"), a.create("y")
	gone := s.Peek("service-x")
	s.After = func(verb, name string) error {
		if verb == "update" && name[:4] == "log-" {
			s.After = nil
			s.Remove("service-x")
			a.Forget(gone, false)
		}
		return nil
	}
	x = a.update(x, "committed")
	a.relist()
	a.want("x", "committed")
	if _, err := a.Update(t.Context(), next(x, "and on"), metav1.UpdateOptions{}); err != nil {
		t.Errorf("the next change: %v", err)
	}
	a.updates(y, 9)
	fresh := start(t, s, 4)
	fresh.checkpoints()
	if !s.Has("service-x") {
		t.Error("what was committed is lost")
	}
}

// A CDEventSubject is created again after the ring has lost its first life. A process whose informer was away lists, and takes the new life over.
func TestCreatedAgainWhileAway(t *testing.T) {
	t.Parallel()
	s := store.New()
	a := start(t, s, 4)
	x, y := a.update(a.create("x"), "1"), a.create("y")
	x = a.update(x, "2")
	a.checkpoints()
	b := start(t, s, 4)
	a.remove(x)
	a.updates(y, 5)
	a.update(a.create("x"), "another life")
	b.relist() // the informer had x: it delivers an update with another uid
	b.checkpoints()
	b.want("x", "another life")
	start(t, s, 4).want("x", "another life")
	if o := s.Peek("service-x"); o.Status.LastEvent != "another life" {
		t.Errorf("checkpoint %q revision %d", o.Status.LastEvent, o.Status.Revision)
	}
}

// A state that was committed before the checkpoint of an older one gets a later resourceVersion, which may be that of the next commit.
func TestStatesHaveDifferentVersions(t *testing.T) {
	t.Parallel()
	s := store.New()
	a := start(t, s, 4)
	a.slots()
	x, y := a.create("x"), a.create("y")
	b := start(t, s, 4)
	a.updates(y, 6) // b's informer will have missed positions
	x = a.update(x, "1")
	var done bool
	s.Before = func(verb, name string) error {
		if verb == "update" && name == "service-x" && !done {
			done = true
			x = a.update(x, "2")
		}
		return nil
	}
	for i := range 3 {
		_ = a.Checkpoint(t.Context(), time.Now().Add(time.Duration(i)*time.Second/10))
		if done {
			break
		}
	}
	x = a.update(x, "3") // the write after that of the checkpoint
	for _, o := range s.All() {
		if o.Name == "service-x" {
			b.Observe(t.Context(), o)
		}
	}
	for _, o := range s.All() {
		b.Observe(t.Context(), o)
	}
	b.seen = len(s.Changes(0))
	for i := range 3 {
		_ = b.Checkpoint(t.Context(), time.Now().Add(time.Duration(i)*time.Minute))
	}
	b.TellAll()
	last := map[string]*v1alpha1.CDEventSubject{}
	for _, o := range b.told {
		if l := last[o.Name]; l != nil && l.ResourceVersion == o.ResourceVersion && l.Status.Revision != o.Status.Revision {
			t.Errorf("%s: revisions %d and %d have the resourceVersion %s", o.Name, l.Status.Revision, o.Status.Revision, o.ResourceVersion)
		}
		last[o.Name] = o
	}
}

// An append without an answer is found by looking it up. Meanwhile, its slot was overwritten and read, and has what was carried.
func TestAnswerOfLookUpIsOld(t *testing.T) {
	t.Parallel()
	s := store.New()
	a := start(t, s, 2)
	a.slots()
	x, y, z := a.create("x"), a.create("y"), a.create("z")
	b, h := startHooked(t, s, 2)
	b.Leads = func(types.NamespacedName) bool { return false }
	a.update(x, "1") // position 1, slot 1
	b.follow()
	y = b.update(y, "1") // 2, slot 0
	a.follow()
	s.After = once("update", context.DeadlineExceeded)
	h.got = func(name string) {
		if name != "log-001" {
			return
		}
		h.got = nil
		a.follow()
		a.updates(z, 2) // 4, and 5, which overwrites 3
		b.follow()
	}
	y = b.update(y, "2") // 3, slot 1, carries x
	b.follow()
	b.updates(y, 4)
	start(t, s, 2).want("x", "1")
}

// A CDEventSubject is deleted by hand while everything is read again. The log or the ledger restores it.
func TestDeletedByHandWhileAllIsRead(t *testing.T) {
	t.Parallel()
	b, x := gap(t, func(_, b *process, _ *v1alpha1.CDEventSubject) {
		b.s.Remove("service-x")
		b.follow()
	})
	if _, err := b.Create(t.Context(), restoration(x, "restored"), metav1.CreateOptions{}); !b.s.Has("service-x") { // as the ledger does when it is told
		t.Errorf("restored neither by the log nor by the ledger: %v", err)
	}
}

// A CDEventSubject ends and is deleted while everything is read again. It stays so.
func TestDeletedForGoodWhileAllIsRead(t *testing.T) {
	t.Parallel()
	b, _ := gap(t, func(a, b *process, x *v1alpha1.CDEventSubject) {
		a.remove(x)
		b.follow()
	})
	if b.s.Has("service-x") {
		t.Error("x is there again")
	}
	if o, err := b.Get(t.Context(), "service-x", metav1.GetOptions{}); err == nil {
		t.Errorf("it is still known: revision %d, %q", o.Status.Revision, o.Status.LastEvent)
	}
}

// The end of a CDEventSubject that was put back is carried until its checkpoint is written.
func TestEndOfWhatIsPutBackIsCarried(t *testing.T) {
	t.Parallel()
	s := store.New()
	a := start(t, s, 8)
	a.slots()
	x, y := a.create("x"), a.create("y")
	b := start(t, s, 8)
	b.remove(x)
	putBack(t, s, x)
	b.follow()
	refuse(s, func(string) bool { return true }) // or nobody leads, or others wait for their turn
	_ = b.Checkpoint(t.Context(), time.Now())
	b.want("x", "gone")
	start(t, s, 8).want("x", "gone")
	b.updates(y, 8)
	b.want("x", "gone")
	start(t, s, 8).want("x", "gone")
	if got := view(s)["x"]; got != "gone" {
		t.Errorf("users see %q", got)
	}
}

// A checkpoint is replaced by an older one, or deleted, while a slot has the newest state. That state is carried until the checkpoint is written again.
func TestStateIsCarriedWithoutItsCheckpoint(t *testing.T) {
	t.Parallel()
	for _, deleted := range []bool{false, true} {
		s := store.New()
		a := start(t, s, 8)
		a.slots()
		x, y := a.create("x"), a.create("y")
		old := s.Peek("service-x").DeepCopy()
		a.update(x, "1")
		a.checkpoints()
		if deleted {
			s.Remove("service-x")
		} else {
			old.ResourceVersion = s.Peek("service-x").ResourceVersion
			if _, err := s.Update(t.Context(), old, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		a.follow()
		start(t, s, 8).want("x", "1")
		a.updates(y, 8)
		a.want("x", "1")
		start(t, s, 8).want("x", "1")
	}
}

// The informer delivers positions while the log is read to its end. What was committed after them is read too.
func TestLogIsReadToItsEnd(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"checkpoint", "creation"} {
		last := int64(0)
		s := store.New()
		a, h := startHooked(t, s, 16)
		a.slots()
		x, y := a.create("x"), a.create("y")
		if how == "checkpoint" {
			x = a.update(x, "1")
			a.follow()
		}
		a.follow()
		b := start(t, s, 16)
		b.update(y, "0")
		if how == "checkpoint" {
			b.remove(x) // committed, and deleted for good, before a asks
		} else {
			z := b.create("z")
			last = z.Status.Revision + 1
			b.remove(z)
		}
		h.got = func(name string) {
			if name[:4] != "log-" {
				return
			}
			h.got = nil
			for _, c := range s.Changes(a.seen)[:1] { // the informer delivers only the change of y
				a.seen++
				a.Observe(t.Context(), c.Object)
			}
		}
		if how == "checkpoint" {
			for i := range 3 {
				_ = a.Checkpoint(t.Context(), inHours(i+1))
			}
			if o := s.Peek("service-x"); o != nil {
				t.Errorf("deleted for good, and there again: revision %d says %q", o.Status.Revision, o.Status.LastEvent)
			}
		} else if o := a.create("z"); o.Status.Revision <= last {
			t.Errorf("created with revision %d, although revision %d was committed", o.Status.Revision, last)
		}
		if h.got != nil {
			t.Error("setup")
		}
	}
}

// Two processes create a CDEventSubject again at the same time: one that knows its last state, and one that does not. One of them conflicts.
func TestRestoredAndCreatedAtTheSameTime(t *testing.T) {
	t.Parallel()
	s := store.New()
	a := start(t, s, 8)
	a.slots()
	x := a.update(a.create("x"), "1")
	a.checkpoints()
	b := start(t, s, 8)
	deleted := s.Peek("service-x")
	s.Remove("service-x")
	b.seen = len(s.Changes(0))
	b.Forget(deleted, false) // its informer was away
	a.follow()
	aCreates, bCreated, aDone := make(chan struct{}), make(chan struct{}), make(chan struct{})
	n := 0
	var result *v1alpha1.CDEventSubject
	var aErr error
	s.Before = func(verb, name string) error {
		if verb != "create" || name != "service-x" {
			return nil
		}
		switch n++; n {
		case 1: // b's
			go func() {
				defer close(aDone)
				result, aErr = a.Create(context.Background(), restoration(x, "restored by a"), metav1.CreateOptions{})
			}()
			<-aCreates
		case 2: // a's
			close(aCreates)
			<-bCreated
		}
		return nil
	}
	anew := subject("x")
	anew.Status.LastEvent = "anew by b"
	_, bErr := b.Create(t.Context(), anew, metav1.CreateOptions{})
	close(bCreated)
	<-aDone
	if bErr != nil {
		t.Fatal(bErr)
	}
	if aErr == nil {
		t.Errorf("both succeeded: %q is lost", result.Status.LastEvent)
	}
	for _, p := range []*process{a, b, start(t, s, 8)} {
		p.follow()
		p.want("x", "anew by b")
	}
}

// A CDEventSubject is read that this process does not know yet, and the informer delivers all of its life before the answer is there.
func TestDeletedWhileItIsRead(t *testing.T) {
	t.Parallel()
	s := store.New()
	a := start(t, s, 8)
	a.slots()
	b, h := startHooked(t, s, 8)
	x := a.create("x")
	h.got = func(string) {
		h.got = nil
		a.remove(x)
		b.follow()
	}
	if o, err := b.Get(t.Context(), "service-x", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("revision %d (%v), want not found", o.Status.Revision, err)
	}
}

// The API server answers that there is none, and the informer delivers the creation before that answer is there.
func TestCreatedWhileItIsRead(t *testing.T) {
	t.Parallel()
	s := store.New()
	a := start(t, s, 8)
	a.slots()
	b, h := startHooked(t, s, 8)
	h.got = func(string) {
		h.got = nil
		a.create("x")
		b.follow()
	}
	if _, err := b.Get(t.Context(), "service-x", metav1.GetOptions{}); err != nil {
		t.Errorf("%v, want what the informer has delivered", err)
	}
	if n := b.Behind(); n != 0 {
		t.Errorf("%d CDEventSubjects are to be written again, want 0", n)
	}
}

// Another process has deleted a CDEventSubject for good, which somebody had deleted by hand before. To delete it again creates nothing.
func TestDeletedTwice(t *testing.T) {
	t.Parallel()
	s := store.New()
	a := start(t, s, 8)
	a.slots()
	x, y := a.create("x"), a.create("y")
	b := start(t, s, 8)
	s.Remove("service-x")
	b.follow()
	a.follow()
	x, err := a.Create(t.Context(), restoration(x, "restored"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	a.remove(x)
	b.update(y, "read to the end")
	before := len(s.Changes(0))
	if err := b.Delete(t.Context(), "service-x", metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("%v, want not found", err)
	}
	if n := len(s.Changes(before)); n != 0 {
		t.Errorf("%d writes, want 0", n)
	}
}
