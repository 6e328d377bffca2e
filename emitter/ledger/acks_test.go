// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// acks is a queue of acknowledgements that a test writes explicitly.
type acks struct{ store.Acks }

// queued returns a ledger with such a queue.
func queued(client ledger.Client, router ledger.Router, metrics ledger.Metrics) (*ledger.Ledger, *acks) {
	a := &acks{}
	return ledger.New(client, router, metrics, ledger.WithAcks(a)), a
}

func (a *acks) write(l *ledger.Ledger) error {
	return a.Write(func(name string) error { return l.WriteAcks(context.Background(), name) })
}

// fleet is a ledger of many Services, with one source, a.
type fleet struct {
	t     *testing.T
	s     *store.Store
	l     *ledger.Ledger
	queue acks
}

func newFleet(t *testing.T, s *store.Store, options ...ledger.Option) *fleet {
	t.Helper()
	f := &fleet{t: t, s: s}
	f.l = ledger.New(s, everyone{"a"}, &counts{}, append(options, ledger.WithAcks(&f.queue))...)
	f.observe()
	return f
}

// observe has a fleet see all that is stored.
func (f *fleet) observe() {
	for _, o := range f.s.All() {
		f.l.Observe(o)
	}
}

func service(i int) v1alpha1.CDEventSubjectSpec {
	name := fmt.Sprintf("s%d", i)
	return v1alpha1.CDEventSubjectSpec{
		APIVersion: "serving.knative.dev/v1", Kind: "Service", Namespace: "shop",
		Name: name, UID: types.UID(name),
	}
}

// journalIn adds one transition to each of the first n Services.
func journalIn(t *testing.T, l *ledger.Ledger, n int, reason string) {
	t.Helper()
	for i := range n {
		must(t, journalOne(l, i, reason))
	}
}

// journalOne adds one transition to one Service.
func journalOne(l *ledger.Ledger, i int, reason string) error {
	return l.Journal(context.Background(), service(i), func(current *v1alpha1.CDEventSubject) (*ledger.Change, error) {
		sequence := int64(1)
		if current != nil {
			sequence += current.Status.Sequence
		}
		return &ledger.Change{Memory: lifecycle.Memory{Sequence: sequence}, Transitions: []lifecycle.Transition{{
			Sequence: sequence, Time: noon.Add(time.Duration(sequence) * time.Second), Type: lifecycle.Upgraded, Reason: reason,
		}}}, nil
	})
}

func (f *fleet) journal(n int, reason string) {
	f.t.Helper()
	journalIn(f.t, f.l, n, reason)
}

// acknowledge acknowledges everything about the first n Services.
func (f *fleet) acknowledge(n int) {
	f.t.Helper()
	for i := range n {
		for _, p := range f.l.Pending(ledger.KeyOf(service(i)), "a") {
			acknowledge(f.l, p.Name, "a", p.Transition.Sequence)
		}
	}
}

// write writes what is in the queue, and returns how many writes that took.
func (f *fleet) write() int {
	f.t.Helper()
	before := f.s.Writes()
	must(f.t, f.queue.write(f.l))
	return f.s.Writes() - before
}

// pendingAfresh returns how many events about the first n Services are pending according to the next leader.
func (f *fleet) pendingAfresh(n int) int {
	f.t.Helper()
	next, count := newFleet(f.t, f.s), 0
	for i := range n {
		count += len(next.l.Pending(ledger.KeyOf(service(i)), "a"))
	}
	return count
}

// What is acknowledged until the next transition takes no write of its own.
func TestATransitionTakesAcknowledgementsAlong(t *testing.T) {
	t.Parallel()
	f := newFleet(t, store.New())
	for range 3 {
		f.journal(5, "")
		f.acknowledge(5)
	}
	if n := f.s.Writes(); n != 15 || f.l.Held() != 5 {
		t.Errorf("%d writes for 15 transitions, %d Services have acknowledgements that are not written", n, f.l.Held())
	}
	if got := f.write(); got != 5 || f.l.Held() != 0 || f.pendingAfresh(5) != 0 {
		t.Errorf("%d writes for the last acknowledgements, %d held, %d pending", got, f.l.Held(), f.pendingAfresh(5))
	}
	if got := f.write(); got != 0 {
		t.Errorf("%d writes at rest", got)
	}
}

// An object is observed again and again; that is no reason to write what was acknowledged.
func TestObservingWritesNoAcknowledgement(t *testing.T) {
	t.Parallel()
	f := newFleet(t, store.New())
	f.journal(1, "")
	f.acknowledge(1)
	before := f.s.Writes()
	must(t, f.l.Journal(context.Background(), service(0), func(*v1alpha1.CDEventSubject) (*ledger.Change, error) { return nil, nil })) //nolint:nilnil // nothing to write
	if n := f.s.Writes() - before; n != 0 || len(f.l.Pending(ledger.KeyOf(service(0)), "a")) != 0 {
		t.Errorf("%d writes, %d pending", n, len(f.l.Pending(ledger.KeyOf(service(0)), "a")))
	}
	if got := f.write(); got != 1 || f.pendingAfresh(1) != 0 {
		t.Errorf("%d writes, %d events are pending according to the next leader", got, f.pendingAfresh(1))
	}
}

// An entry was restored from a backup, and another process has journaled other events under the same numbers.
// The informer shows only the result.
func TestAnAcknowledgementIsOfAnEventNotOfANumber(t *testing.T) {
	t.Parallel()
	f := newFleet(t, store.New())
	f.journal(1, "")
	backup := f.s.Dump()
	f.journal(1, "before the restore")
	f.acknowledge(1)
	f.s.Restore(backup)
	newFleet(t, f.s).journal(1, "after the restore")
	restored := f.s.Peek(ledger.Name(service(0))).DeepCopy()
	restored.ResourceVersion = "1000"
	f.l.Observe(restored)
	got := f.l.Pending(ledger.KeyOf(service(0)), "a")
	if len(got) == 0 || got[len(got)-1].Transition.Reason != "after the restore" {
		t.Errorf("pending %+v: an event that was never sent counts as acknowledged", got)
	}
}

// While the entry counts a dropped event, the next one is acknowledged.
func TestWhatIsAcknowledgedDuringADropIsWritten(t *testing.T) {
	t.Parallel()
	f := newFleet(t, store.New())
	for range 3 {
		f.journal(1, "")
	}
	name := ledger.Name(service(0))
	f.l.Drop(event(f.l, name, "a", 1), "a", ledger.DroppedRejected)
	f.s.Before = func(string, string) error {
		f.s.Before = nil
		acknowledge(f.l, name, "a", 2)
		return nil
	}
	f.write()
	if f.l.Held() != 1 {
		t.Errorf("%d held", f.l.Held())
	}
	f.write()
	if got := f.pendingAfresh(1); got != 1 || f.s.Peek(name).Status.Dropped[ledger.DroppedRejected] != 1 ||
		f.l.Held() != 0 {
		t.Errorf("%d events are pending according to the next leader, want 1; %+v", got, f.s.Peek(name).Status)
	}
}

// The present leader has written more than a former one knows.
func TestAFormerLeaderKeepsNewerAcknowledgements(t *testing.T) {
	t.Parallel()
	s, leads := store.New(), newLeader()
	former := newFleet(t, s, ledger.WithLeader(leads))
	for range 3 {
		former.journal(1, "")
	}
	name := ledger.Name(service(0))
	acknowledge(former.l, name, "a", 1)
	leads.Store(false)
	present := newFleet(t, s)
	acknowledge(present.l, name, "a", 2)
	present.write()
	if got := former.write(); got != 0 { // the first attempt conflicts, and then nothing is left to write
		t.Errorf("%d writes", got)
	}
	if got := former.pendingAfresh(1); got != 1 || s.Peek(name).Status.Acknowledged["a"] != 2 {
		t.Errorf("%d events are pending, acknowledged %v", got, s.Peek(name).Status.Acknowledged)
	}
	acknowledge(former.l, name, "a", 3) // the answer to a request from when it led
	if former.write(); former.pendingAfresh(1) != 0 {
		t.Error("the former leader has not written what it alone knows")
	}
}

// Two leaders have sent the same event, and the other one's acknowledgement was written first.
func TestWhatIsNotPendingNeedsNoWrite(t *testing.T) {
	t.Parallel()
	f := newFleet(t, store.New())
	f.journal(2, "")
	other := newFleet(t, f.s)
	other.acknowledge(2)
	other.write()
	f.observe()
	for i := range 2 {
		acknowledge(f.l, ledger.Name(service(i)), "a", 1)
	}
	if got := f.write(); got != 0 || f.l.Held() != 0 {
		t.Errorf("%d writes, %d held", got, f.l.Held())
	}
}

// One source has the event, and the sink of another does not answer.
func TestFastAndDeadRecipientsOfOneEvent(t *testing.T) {
	t.Parallel()
	s := store.New()
	l, q := queued(s, everyone{"fast", "dead"}, &counts{})
	must(t, add(l, lifecycle.Deployed, ""))
	acknowledge(l, ledger.Name(cart), "fast", 1)
	must(t, q.write(l))
	must(t, add(l, lifecycle.Upgraded, ""))
	next := ledger.New(s, everyone{"fast", "dead"}, &counts{})
	next.Observe(s.Peek(ledger.Name(cart)))
	if fast, dead := sequences(next.Pending(key, "fast")), sequences(next.Pending(key, "dead")); fast != "2" ||
		dead != "1 2" {
		t.Errorf("pending for the fast source %q, for the dead one %q", fast, dead)
	}
	if st := s.Peek(ledger.Name(cart)).Status; len(st.Journal[0].Recipients) != 1 || st.Pending != 3 {
		t.Errorf("%+v", st)
	}
}

// A full journal first gives up what is acknowledged and not written.
func TestAFullJournalDropsNothingThatIsAcknowledged(t *testing.T) {
	t.Parallel()
	s, c := store.New(), &counts{}
	l, _ := queued(s, everyone{"a"}, c)
	rollouts(t, l, 12, func(int64) {})
	acknowledge(l, ledger.Name(cart), "a", 12)
	rollouts(t, l, 12, func(int64) {})
	if got := c.dropped[ledger.DroppedJournalFull]; got != 0 || len(s.Peek(ledger.Name(cart)).Status.Journal) != 12 {
		t.Errorf("%d events dropped, %d in the journal", got, len(s.Peek(ledger.Name(cart)).Status.Journal))
	}
}

// A source is deleted while its acknowledgement is held.
func TestSourceDeletedWithAHeldAcknowledgement(t *testing.T) {
	t.Parallel()
	s, router, c := store.New(), &deletable{everyone: everyone{"a", "b"}}, &counts{}
	l, q := queued(s, router, c)
	must(t, add(l, lifecycle.Deployed, ""))
	must(t, add(l, lifecycle.Upgraded, ""))
	acknowledge(l, ledger.Name(cart), "a", 1)
	router.everyone = everyone{"b"}
	l.Abandon("a", func(types.NamespacedName) bool { return true })
	must(t, add(l, lifecycle.Upgraded, ""))
	must(t, q.write(l))
	st := s.Peek(ledger.Name(cart)).Status
	if st.Pending != 3 || st.Dropped[ledger.DroppedSourceRemoved] != 1 || c.dropped[ledger.DroppedSourceRemoved] != 1 ||
		l.Held() != 0 {
		t.Errorf("%d pending, dropped %v, %d held", st.Pending, st.Dropped, l.Held())
	}
	must(t, add(l, lifecycle.Upgraded, ""))
	if _, has := s.Peek(ledger.Name(cart)).Status.Acknowledged["a"]; has {
		t.Error("the source is not forgotten")
	}
}

// deletable is a router whose sources a test can change.
type deletable struct{ everyone }

func (d *deletable) Exists(source types.UID) bool { return d.everyone.Exists(source) }

// The answer to a write is lost, whether the API server did what was asked or not.
func TestAcknowledgementWithALostAnswer(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*store.Store, func(string, string) error){
		"written":     func(s *store.Store, f func(string, string) error) { s.After = f },
		"not written": func(s *store.Store, f func(string, string) error) { s.Before = f },
	} {
		f := newFleet(t, store.New())
		for range 3 {
			f.journal(1, "")
		}
		entry := ledger.Name(service(0))
		acknowledge(f.l, entry, "a", 1)
		f.l.Drop(event(f.l, entry, "a", 2), "a", ledger.DroppedRejected)
		lose(f.s, func(string, string) error {
			f.s.After, f.s.Before = nil, nil
			return apierrors.NewTimeoutError("the response is lost", 1)
		})
		if err := f.queue.write(f.l); err == nil {
			t.Errorf("%s: the lost answer is not reported", name)
		}
		acknowledge(f.l, entry, "a", 3)
		f.write()
		if st := f.s.Peek(entry).Status; st.Acknowledged["a"] != 3 || st.Dropped[ledger.DroppedRejected] != 1 ||
			len(st.Journal) != 0 || f.l.Held() != 0 {
			t.Errorf("%s: %+v, %d held", name, st, f.l.Held())
		}
	}
}

// A write whose answer was lost arrives after the next one. The API server refuses it.
func TestAcknowledgementThatArrivesLate(t *testing.T) {
	t.Parallel()
	f := newFleet(t, store.New())
	f.journal(1, "")
	late := f.s.Peek(ledger.Name(service(0))).DeepCopy()
	late.Status.Journal, late.Status.Acknowledged = nil, map[types.UID]int64{"a": 1}
	f.journal(1, "")
	if _, err := f.s.Update(t.Context(), late, updateOptions); !apierrors.IsConflict(err) {
		t.Errorf("%v, want a conflict", err)
	}
	f.acknowledge(1)
	if f.write(); f.pendingAfresh(1) != 0 || f.s.Peek(late.Name).Status.Sequence != 2 {
		t.Errorf("%+v", f.s.Peek(late.Name).Status)
	}
}

// A leader is suspended with an acknowledgement. When it continues, another one has journaled more, and has sent
// all again.
func TestASuspendedLeaderResumes(t *testing.T) {
	t.Parallel()
	f := newFleet(t, store.New())
	f.journal(1, "")
	f.acknowledge(1)
	other := newFleet(t, f.s)
	other.journal(1, "")
	f.write()
	if st := f.s.Peek(ledger.Name(service(0))).Status; st.Sequence != 2 || st.Acknowledged["a"] != 1 ||
		len(st.Journal) != 1 {
		t.Errorf("%+v", st)
	}
	other.acknowledge(1)
	if other.write(); f.pendingAfresh(1) != 0 {
		t.Error("the other leader's acknowledgement is lost")
	}
}
