package wal_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger/wal"
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
	p := &process{t: t, s: s}
	p.Log = ledger.NewLog(h, wal.Options{
		Slots: slots, Leads: func(types.NamespacedName) bool { return true }, Tell: func(o *v1alpha1.CDEventSubject) { p.told = append(p.told, o) },
		Checkpoints: wal.Checkpoints{Rate: 1000},
	})
	p.seen = len(s.Changes(0))
	for _, o := range s.All() {
		p.Observe(t.Context(), o)
	}
	p.Start(t.Context())
	return p, h
}

// slots makes all slots, as the controller does when it starts.
func (p *process) slots() {
	p.t.Helper()
	if err := p.MakeSlots(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
}

// relist is a relist of the informer that delivers in the order of names.
func (p *process) relist() {
	p.seen = len(p.s.Changes(0))
	for _, o := range p.s.All() {
		p.Observe(p.t.Context(), o)
	}
}

// The informer delivers a slot while everything is read again. It does not deliver it a second time.
func TestSlotSeenWhileAllIsRead(t *testing.T) {
	t.Parallel()
	s := store.New()
	a := start(t, s, 4)
	x, y := a.create("x"), a.create("y")
	b, h := startHooked(t, s, 4)
	for i := range 6 {
		y = a.update(y, fmt.Sprint(i))
	}
	b.relist() // it has missed two positions
	h.listed = func() {
		x = a.update(x, "the last one")
		b.follow()
	}
	now := time.Now()
	for i := range 100 { // for a long time; nobody else writes
		if err := b.Checkpoint(t.Context(), now.Add(time.Duration(i)*time.Second)); err != nil {
			t.Fatal(err)
		}
		b.follow()
	}
	if h.listed != nil {
		t.Fatal("setup: no resync")
	}
	b.TellAll()
	b.want("x", "the last one")
	if b.Behind() != 0 || s.Peek("service-x").Status.LastEvent != "the last one" {
		t.Errorf("checkpoint %q", s.Peek("service-x").Status.LastEvent)
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
	restored := next(x, "restored")
	restored.ObjectMeta = metav1.ObjectMeta{Name: x.Name}
	x, err := a.Create(t.Context(), restored, metav1.CreateOptions{})
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
	for _, says := range []string{"1", "2", "3", "4", "5"} {
		y = b.update(y, says)
	}
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
	for i := range 9 {
		y = a.update(y, fmt.Sprint(i))
	}
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
	for i := range 5 {
		y = a.update(y, fmt.Sprint(i))
	}
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
	for i := range 6 { // b's informer will have missed positions
		y = a.update(y, fmt.Sprint(i))
	}
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
	_ = z
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
		for i := range 2 { // 4, and 5, which overwrites 3
			z = a.update(z, fmt.Sprint(i))
		}
		b.follow()
	}
	y = b.update(y, "2") // 3, slot 1, carries x
	b.follow()
	for i := range 4 {
		y = b.update(y, fmt.Sprint("later ", i))
	}
	start(t, s, 2).want("x", "1")
}

// A CDEventSubject is deleted by hand while everything is read again. The log or the ledger restores it.
func TestDeletedByHandWhileAllIsRead(t *testing.T) {
	t.Parallel()
	s := store.New()
	a := start(t, s, 4)
	a.slots()
	a.create("x")
	y := a.create("y")
	b, h := startHooked(t, s, 4)
	for i := range 6 {
		y = a.update(y, fmt.Sprint(i))
	}
	b.relist()
	h.listed = func() {
		s.Remove("service-x")
		b.follow()
	}
	now := time.Now()
	for i := range 100 {
		if err := b.Checkpoint(t.Context(), now.Add(time.Duration(i)*time.Second)); err != nil {
			t.Fatal(err)
		}
		b.follow()
	}
	restored := next(subject("x"), "restored") // what the ledger does when it is told
	restored.Status.Revision = 1
	if _, err := b.Create(t.Context(), restored, metav1.CreateOptions{}); !s.Has("service-x") {
		t.Errorf("restored neither by the log nor by the ledger: %v", err)
	}
}

// A CDEventSubject ends and is deleted while everything is read again. It stays so.
func TestDeletedForGoodWhileAllIsRead(t *testing.T) {
	t.Parallel()
	s := store.New()
	a := start(t, s, 4)
	a.slots()
	x := a.create("x")
	y := a.create("y")
	b, h := startHooked(t, s, 4)
	for i := range 6 {
		y = a.update(y, fmt.Sprint(i))
	}
	b.relist()
	h.listed = func() {
		a.remove(x)
		b.follow()
	}
	now := time.Now()
	for i := range 100 {
		if err := b.Checkpoint(t.Context(), now.Add(time.Duration(i)*time.Second)); err != nil {
			t.Fatal(err)
		}
		b.follow()
	}
	if s.Has("service-x") {
		t.Error("x is there again")
	}
	b.TellAll()
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
	late := x.DeepCopy() // as in TestEndedIsPutBack
	late.UID, late.ResourceVersion = "", ""
	if _, err := s.Create(t.Context(), late, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.follow()
	refuse(s, func(string) bool { return true }) // or nobody leads, or others wait for their turn
	_ = b.Checkpoint(t.Context(), time.Now())
	b.want("x", "gone")
	start(t, s, 8).want("x", "gone")
	for i := range 8 {
		y = b.update(y, fmt.Sprint(i))
	}
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
		for i := range 8 {
			y = a.update(y, fmt.Sprint(i))
		}
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
				restored := next(x, "restored by a")
				restored.ObjectMeta = metav1.ObjectMeta{Name: x.Name}
				result, aErr = a.Create(context.Background(), restored, metav1.CreateOptions{})
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
