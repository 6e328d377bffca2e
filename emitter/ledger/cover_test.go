// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// resting returns a fleet that has no turns saved up, and gets none.
func resting(t *testing.T, s *store.Store, slots, facts int, options ...ledger.Option) *fleet {
	t.Helper()
	f := newFleet(t, s, ledger.Gathering{Slots: slots, Facts: facts, FoldRate: 0}, options...)
	f.together()
	return f
}

// atOnce writes together without a second having passed, so that no turn comes up.
func (f *fleet) atOnce() int {
	f.t.Helper()
	before := f.s.Writes()
	must(f.t, f.l.WriteTogether(context.Background(), f.now))
	must(f.t, f.queue.Write(func(name string) error { return f.l.WriteAcks(context.Background(), name) }))
	return f.s.Writes() - before
}

// observe has a fleet see all that is stored.
func (f *fleet) observe() {
	for _, o := range f.s.All() {
		f.l.Observe(o)
	}
}

func isSlot(name string) bool { return strings.HasPrefix(name, "acknowledgements-") }

// An entry was restored from a backup, and another process has journaled other events under the same numbers. The informer
// shows only the result.
func TestAnAcknowledgementIsOfAnEventNotOfANumber(t *testing.T) {
	f := resting(t, store.New(), 2, 50)
	f.journal(1, "")
	backup := f.s.Dump()
	f.journal(1, "before the restore")
	f.acknowledge(1)
	f.atOnce()
	f.s.Restore(backup)
	newFleet(t, f.s, small).journal(1, "after the restore")
	restored := f.s.Peek(ledger.Name(service(0))).DeepCopy()
	restored.ResourceVersion = "1000"
	f.l.Observe(restored)
	got := f.l.Pending(ledger.KeyOf(service(0)), "a")
	if len(got) == 0 || got[len(got)-1].Transition.Reason != "after the restore" {
		t.Errorf("pending %+v: an event that was never sent counts as acknowledged", got)
	}
}

// Another leader, whose informer lags, takes over only the first of two acknowledgements. The slot's digest is then of more
// events than the entry has.
func TestWhatASlotSaysIsWrittenAgainWhenOnlyAPartIsTakenOver(t *testing.T) {
	s := store.New()
	one := resting(t, s, 4, 50)
	one.journal(3, "")
	one.journal(3, "")
	for sequence := range int64(2) {
		if sequence == 1 {
			defer func(other *fleet) {
				other.journal(3, "")
				one.observe()
				one.atOnce()
				if got := newFleet(t, s, small).pending(3); got != 3 {
					t.Errorf("%d events are pending according to the next leader, want the 3 newest", got)
				}
				if got := one.atOnce(); got != 0 {
					t.Errorf("%d writes although nothing is new", got)
				}
			}(newFleet(t, s, small))
		}
		for i := range 3 {
			one.l.Acknowledge(ledger.Name(service(i)), "a", sequence+1)
		}
		one.atOnce()
	}
}

// While the entry counts a dropped event, the next one is acknowledged.
func TestWhatIsAcknowledgedDuringADropIsWritten(t *testing.T) {
	f := resting(t, store.New(), 2, 50)
	f.journal(1, "")
	f.journal(1, "")
	f.journal(1, "")
	name := ledger.Name(service(0))
	f.l.Drop(name, "a", 1, ledger.DroppedRejected)
	f.s.Before = func(_, written string) error {
		if written == name {
			f.s.Before = nil
			f.l.Acknowledge(name, "a", 2)
			must(t, f.l.WriteTogether(context.Background(), f.now))
		}
		return nil
	}
	f.atOnce()
	f.atOnce()
	if got := newFleet(t, f.s, small).pending(1); got != 1 {
		t.Errorf("%d events are pending according to the next leader, want 1", got)
	}
}

// Services with many sources do not fit into what is left of a slot.
func TestASlotIsNotWrittenWithoutNewAcknowledgements(t *testing.T) {
	s := store.New()
	sources := everyone{"a", "b", "c", "d", "e", "f"}
	f := &fleet{t: t, s: s, now: noon}
	f.l = ledger.New(s, sources, &counts{}, ledger.WithAcks(&f.queue), ledger.WithGathering(ledger.Gathering{Slots: 3, Facts: 10, FoldRate: 0}))
	f.together()
	f.journal(5, "")
	for i := range 5 {
		for _, source := range sources {
			f.l.Acknowledge(ledger.Name(service(i)), source, 1)
		}
	}
	if got := f.atOnce(); got != 3+2 {
		t.Errorf("%d writes, want 3 slots and 2 entries", got)
	}
	fresh := newFleet(t, s, small)
	for _, source := range sources {
		for i := range 5 {
			if got := fresh.l.Pending(ledger.KeyOf(service(i)), source); len(got) > 0 {
				t.Errorf("%d events of Service %d are pending for %s", len(got), i, source)
			}
		}
	}
	if got := f.atOnce(); got != 0 {
		t.Errorf("%d writes although nothing is new", got)
	}
}

// A quota or a policy may refuse slots for good.
func TestEntriesTakeOverWhatNoSlotMayHave(t *testing.T) {
	for name, refusal := range map[string]error{
		"forbidden": apierrors.NewForbidden(v1alpha1.SubjectResource.GroupResource(), "", errors.New("exceeded quota")),
		"too large": apierrors.NewRequestEntityTooLargeError("limit is 3145728"),
		"invalid":   apierrors.NewInvalid(v1alpha1.SubjectKind.GroupKind(), "", nil),
	} {
		t.Run(name, func(t *testing.T) {
			f := resting(t, store.New(), 4, 50)
			f.journal(20, "")
			f.acknowledge(20)
			f.s.Before = func(_, name string) error {
				if isSlot(name) {
					return refusal
				}
				return nil
			}
			if err := f.l.WriteTogether(context.Background(), f.now); err == nil {
				t.Error("the refusal is not reported")
			}
			must(t, f.queue.Write(func(name string) error { return f.l.WriteAcks(context.Background(), name) }))
			if got := newFleet(t, f.s, small).pending(20); got != 0 {
				t.Errorf("%d events are pending according to the next leader", got)
			}
		})
	}
}

// A former leader has older acknowledgements in a slot of its own. It must not take the newer ones of the present leader for these.
func TestAFormerLeaderKeepsNewerAcknowledgements(t *testing.T) {
	s, leads := store.New(), true
	former := resting(t, s, 4, 1, ledger.WithLeads(func(types.NamespacedName) bool { return leads }))
	former.journal(2, "")
	former.journal(2, "")
	name := ledger.Name(service(0))
	former.l.Acknowledge(name, "a", 1)
	former.atOnce()
	leads = false
	present := resting(t, s, 4, 2)
	present.l.Acknowledge(name, "a", 2)
	present.atOnce()
	former.observe()
	former.l.Acknowledge(ledger.Name(service(1)), "a", 2) // the answer to a request from when it led
	former.atOnce()
	if got := newFleet(t, s, small).pending(2); got != 0 {
		t.Errorf("%d events are pending according to the next leader; entries %v", got, s.Names())
	}
}

// The informer shows that another process has changed a slot before the API server's answer arrives.
func TestASlotThatChangesAtOnceIsWrittenAgain(t *testing.T) {
	f := resting(t, store.New(), 4, 50)
	f.journal(3, "")
	f.acknowledge(3)
	f.s.After = func(_, name string) error {
		if f.s.After = nil; isSlot(name) {
			o := f.s.Peek(name).DeepCopy()
			o.Status.Acknowledgements = nil
			o, err := f.s.Update(context.Background(), o, metav1.UpdateOptions{})
			must(t, err)
			f.l.Observe(o)
		}
		return nil
	}
	f.atOnce()
	f.atOnce()
	if got := newFleet(t, f.s, small).pending(3); got != 0 {
		t.Errorf("%d events are pending according to the next leader", got)
	}
}

// At the end, what no slot has room for goes to the entries, too.
func TestNothingAcknowledgedIsLeftAtTheEnd(t *testing.T) {
	s := store.New()
	f := &fleet{t: t, s: s, now: noon}
	f.l = ledger.New(s, everyone{"a"}, &counts{}, ledger.WithGathering(ledger.Gathering{Slots: 1, Facts: 1, FoldRate: 0}))
	f.journal(20, "")
	s.Before = func(_, name string) error {
		if isSlot(name) {
			time.Sleep(20 * time.Millisecond)
		}
		return nil
	}
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); f.l.Run(ctx, 2) }()
	f.acknowledge(20)
	end()
	<-ended
	if got := newFleet(t, s, small).pending(20); got != 0 {
		t.Errorf("%d events are pending according to the next leader", got)
	}
}

// Two leaders have sent the same event, and the other one's acknowledgement was taken over first.
func TestWhatIsNotPendingNeedsNoSlot(t *testing.T) {
	f := resting(t, store.New(), 4, 50)
	f.journal(2, "")
	other := newFleet(t, f.s, small)
	other.acknowledge(2)
	other.together()
	f.observe()
	for i := range 2 {
		f.l.Acknowledge(ledger.Name(service(i)), "a", 1)
	}
	if got := f.atOnce(); got != 0 {
		t.Errorf("%d writes", got)
	}
}

// After a restore, a slot may have a higher number that means nothing, and another a lower one that does.
func TestReadersLookAtAllSlots(t *testing.T) {
	f := resting(t, store.New(), 1, 50)
	f.journal(1, "")
	f.acknowledge(1)
	f.atOnce()
	var all []v1alpha1.CDEventSubject
	for _, o := range f.s.All() {
		all = append(all, *o)
	}
	stale := *f.s.Peek("acknowledgements-00").DeepCopy()
	stale.Name = "acknowledgements-01"
	stale.Status.Acknowledgements["a"][ledger.Name(service(0))] = "7 0123456789abcdef"
	for _, these := range [][]v1alpha1.CDEventSubject{append([]v1alpha1.CDEventSubject{stale}, all...), append(all[:2:2], stale)} {
		if got := ledger.WithSlots(these); len(got) != 1 || got[0].Status.Pending != 0 {
			t.Errorf("%d entries, with %d pending events", len(got), got[0].Status.Pending)
		}
	}
}
