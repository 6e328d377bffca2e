// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// fleet is a ledger of many Services. Its clock stands still unless a test moves it.
type fleet struct {
	t     *testing.T
	s     *store.Store
	l     *ledger.Ledger
	queue store.Acks
	now   time.Time
}

func newFleet(t *testing.T, s *store.Store, bounds ledger.Gathering, options ...ledger.Option) *fleet {
	t.Helper()
	f := &fleet{t: t, s: s, now: noon}
	f.l = ledger.New(s, everyone{"a"}, &counts{}, append(options, ledger.WithAcks(&f.queue), ledger.WithGathering(bounds))...)
	for _, o := range s.All() {
		f.l.Observe(o)
	}
	return f
}

func service(i int) v1alpha1.CDEventSubjectSpec {
	name := fmt.Sprintf("s%d", i)
	return v1alpha1.CDEventSubjectSpec{APIVersion: "serving.knative.dev/v1", Kind: "Service", Namespace: "shop", Name: name, UID: types.UID(name)}
}

// journal adds one transition to each of the first n Services.
func (f *fleet) journal(n int, reason string) {
	f.t.Helper()
	for i := range n {
		must(f.t, f.l.Journal(context.Background(), service(i), func(current *v1alpha1.CDEventSubject) (*ledger.Change, error) {
			sequence := int64(1)
			if current != nil {
				sequence += current.Status.Sequence
			}
			return &ledger.Change{Memory: lifecycle.Memory{Sequence: sequence}, Transitions: []lifecycle.Transition{{
				Sequence: sequence, Time: noon.Add(time.Duration(sequence) * time.Second), Type: lifecycle.Upgraded, Reason: reason,
			}}}, nil
		}))
	}
}

// acknowledge acknowledges everything about the first n Services.
func (f *fleet) acknowledge(n int) {
	f.t.Helper()
	for i := range n {
		for _, p := range f.l.Pending(ledger.KeyOf(service(i)), "a") {
			f.l.Acknowledge(p.Name, "a", p.Transition.Sequence)
		}
	}
}

// together writes what was acknowledged, a second later, and returns how many writes that took.
func (f *fleet) together() int {
	f.t.Helper()
	before := f.s.Writes()
	f.now = f.now.Add(time.Second)
	must(f.t, f.l.WriteTogether(context.Background(), f.now))
	must(f.t, f.queue.Write(func(name string) error { return f.l.WriteAcks(context.Background(), name) }))
	return f.s.Writes() - before
}

// pending is how many of the first n Services have pending events.
func (f *fleet) pending(n int) int {
	count := 0
	for i := range n {
		count += len(f.l.Pending(ledger.KeyOf(service(i)), "a"))
	}
	return count
}

func (f *fleet) unfolded() int {
	count := 0
	for _, o := range f.s.All() {
		count += len(o.Status.Journal)
	}
	return count
}

var small = ledger.Gathering{Slots: 4, Facts: 50, FoldRate: 2}

func TestManyAcknowledgementsTakeOneWrite(t *testing.T) {
	f := newFleet(t, store.New(), small)
	f.journal(40, "")
	f.acknowledge(40)
	if got := f.together(); got != 1+8 { // a slot, and what four seconds save up
		t.Errorf("%d writes for 40 acknowledgements, want 9", got)
	}
	if got := newFleet(t, f.s, small).pending(40); got != 0 {
		t.Errorf("%d events are pending according to the next leader", got)
	}
	f.journal(40, "")
	if got := f.unfolded(); got != 40 {
		t.Errorf("%d events in the journals after the next transition of each, want 40", got)
	}
	f.acknowledge(40)
	f.together()
	for writes := 1; writes > 0; {
		writes = f.together()
	}
	if got := f.unfolded(); got != 0 {
		t.Errorf("%d events in the journals at the end", got)
	}
}

// A lone change is in its CDEventSubject at once: a slot would be a write more.
func TestALoneAcknowledgementNeedsNoSlot(t *testing.T) {
	f := newFleet(t, store.New(), small)
	f.journal(1, "")
	f.acknowledge(1)
	if got := f.together(); got != 1 || f.unfolded() != 0 || len(f.s.Names()) != 1 {
		t.Errorf("%d writes, %d unfolded, entries %v", got, f.unfolded(), f.s.Names())
	}
	if got := f.together(); got != 0 {
		t.Errorf("%d writes at rest", got)
	}
}

// After a backup of the entries was restored, other events have the numbers that a slot has.
func TestASlotSaysNothingAboutOtherEventsOfTheSameNumber(t *testing.T) {
	f := newFleet(t, store.New(), ledger.Gathering{Slots: 1, Facts: 50, FoldRate: 0})
	f.together() // nothing is saved up from now on
	f.journal(3, "")
	backup := f.s.Dump()
	f.journal(3, "before the restore")
	f.acknowledge(3)
	f.together()
	slot := f.s.Peek("acknowledgements-00")
	if slot == nil {
		t.Fatalf("no slot in %v", f.s.Names())
	}
	f.s.Restore(backup, slot)
	newFleet(t, f.s, small).journal(3, "after the restore")
	if got := newFleet(t, f.s, small).pending(3); got != 6 {
		t.Errorf("%d events are pending after the restore, want 6", got)
	}
	f.s.Restore(backup, slot)
	newFleet(t, f.s, small).journal(3, "before the restore")
	if got := newFleet(t, f.s, small).pending(3); got != 0 {
		t.Errorf("%d events are pending although exactly these were acknowledged", got)
	}
}

func TestTwoLeadersKeepEachOthersAcknowledgements(t *testing.T) {
	s := store.New()
	bounds := ledger.Gathering{Slots: 5, Facts: 10, FoldRate: 0}
	even := func(key types.NamespacedName) bool { return strings.ContainsAny(key.Name[len(key.Name)-1:], "02468") }
	one := newFleet(t, s, bounds, ledger.WithLeads(even))
	one.together()
	one.journal(20, "")
	other := newFleet(t, s, bounds, ledger.WithLeads(func(key types.NamespacedName) bool { return !even(key) }))
	other.together()
	one.acknowledge(20)
	other.acknowledge(20)
	one.together()
	other.together() // it conflicts, and takes another slot
	if got := newFleet(t, s, bounds).pending(20); got != 0 {
		t.Errorf("%d events are pending according to the next leader; entries %v", got, s.Names())
	}
	one.together()
	other.together()
	if got := one.together() + other.together(); got != 0 {
		t.Errorf("%d writes although nothing is new", got)
	}
}

func TestWhatNoSlotHasRoomForIsTakenOverAtOnce(t *testing.T) {
	f := newFleet(t, store.New(), ledger.Gathering{Slots: 2, Facts: 5, FoldRate: 0})
	f.together()
	f.journal(30, "")
	f.acknowledge(30)
	f.together()
	if got := newFleet(t, f.s, small).pending(30); got != 0 {
		t.Errorf("%d events are pending according to the next leader", got)
	}
	if got := f.unfolded(); got > 10 {
		t.Errorf("%d entries wait for their turn, and the slots have room for 10", got)
	}
}

func TestADeletedSlotIsWrittenAgain(t *testing.T) {
	f := newFleet(t, store.New(), ledger.Gathering{Slots: 2, Facts: 50, FoldRate: 0})
	f.together()
	f.journal(20, "")
	f.acknowledge(20)
	f.together()
	slot := f.s.Peek("acknowledgements-00")
	f.s.Remove(slot.Name)
	f.l.Forget(slot, true)
	f.together()
	if got := newFleet(t, f.s, small).pending(20); got != 0 {
		t.Errorf("%d events are pending according to the next leader; entries %v", got, f.s.Names())
	}
}

// Slots are written again and again; what is not folded must survive each time.
func TestSlotsAreUsedInTurns(t *testing.T) {
	f := newFleet(t, store.New(), ledger.Gathering{Slots: 3, Facts: 8, FoldRate: 1})
	for round := range 50 {
		f.journal(1+round%20, "")
		f.acknowledge(20)
		f.together()
		if got := newFleet(t, f.s, small).pending(20); got != 0 {
			t.Fatalf("round %d: %d events are pending according to the next leader", round, got)
		}
	}
	if len(f.s.Names()) > 20+3 {
		t.Errorf("entries %v", f.s.Names())
	}
}

// A dropped event is counted in its entry, by the write that acknowledges it.
func TestADroppedEventIsInNoSlot(t *testing.T) {
	f := newFleet(t, store.New(), ledger.Gathering{Slots: 1, Facts: 50, FoldRate: 0})
	f.together()
	f.journal(2, "")
	f.l.Drop(ledger.Name(service(0)), "a", 1, ledger.DroppedRejected)
	f.l.Acknowledge(ledger.Name(service(1)), "a", 1)
	f.together()
	for _, o := range f.s.All() {
		if o.Spec.Kind == ledger.AcknowledgementsKind && len(o.Status.Acknowledgements["a"]) != 1 {
			t.Errorf("the slot has %v", o.Status.Acknowledgements)
		}
	}
	if o := f.s.Peek(ledger.Name(service(0))); o.Status.Dropped[ledger.DroppedRejected] != 1 || len(o.Status.Journal) != 0 {
		t.Errorf("dropped %v, %d in the journal", o.Status.Dropped, len(o.Status.Journal))
	}
}

func TestReadersSeeWhatSlotsHave(t *testing.T) {
	f := newFleet(t, store.New(), ledger.Gathering{Slots: 1, Facts: 50, FoldRate: 0})
	f.together()
	f.journal(2, "")
	f.acknowledge(1)
	f.together()
	var all []v1alpha1.CDEventSubject
	for _, o := range f.s.All() {
		all = append(all, *o)
	}
	got := ledger.WithSlots(all)
	if len(got) != 2 || got[0].Status.Pending != 0 || got[0].Status.OldestPending != nil || got[0].Status.Acknowledged["a"] != 1 || got[1].Status.Pending != 1 {
		t.Errorf("got %+v", got)
	}
	if all[1].Status.Pending != 1 {
		t.Errorf("a reader changed %s", all[1].Name)
	}
}

// An object is observed again and again; that is no reason to write what was acknowledged.
func TestObservingWritesNoAcknowledgement(t *testing.T) {
	f := newFleet(t, store.New(), small)
	f.journal(1, "")
	f.acknowledge(1)
	before := f.s.Writes()
	must(t, f.l.Journal(context.Background(), service(0), func(*v1alpha1.CDEventSubject) (*ledger.Change, error) { return nil, nil })) //nolint:nilnil // nothing to write
	if n := f.s.Writes() - before; n != 0 || f.pending(1) != 0 {
		t.Errorf("%d writes, %d pending", n, f.pending(1))
	}
	f.together()
	if got := newFleet(t, f.s, small).pending(1); got != 0 || f.unfolded() != 0 {
		t.Errorf("%d events are pending according to the next leader, %d unfolded", got, f.unfolded())
	}
}
