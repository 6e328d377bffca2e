// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

func TestJournalPendingAcknowledged(t *testing.T) {
	s := store.New()
	l := ledger.New(s, everyone{"a", "b"}, &counts{})
	d := &deliveries{t: t}
	l.UseDelivery(d)
	must(t, add(l, lifecycle.Created, ""))
	must(t, add(l, lifecycle.Deployed, ""))
	if len(d.enqueued) != 4 {
		t.Errorf("Enqueue was called for %v", d.enqueued)
	}
	if got := sequences(l.Pending(key, "a")); got != "1 2" {
		t.Errorf("pending for a: %s", got)
	}
	acknowledge(l, ledger.Name(cart), "a", 1)
	if got := sequences(l.Pending(key, "a")); got != "2" {
		t.Errorf("pending for a after an acknowledgement that is not written yet: %s", got)
	}
	if got := sequences(l.Pending(key, "b")); got != "1 2" {
		t.Errorf("pending for b, which has acknowledged nothing: %s", got)
	}
	run(t, l)
	acknowledge(l, ledger.Name(cart), "a", 2)
	acknowledge(l, ledger.Name(cart), "b", 2)
	eventually(t, "an empty journal", func() bool {
		o := s.All()[0]
		return len(o.Status.Journal) == 0 && o.Status.Pending == 0 && len(o.Status.Profiles) == 0 &&
			o.Status.Acknowledged["a"] == 2 && o.Status.Conditions[0].Status == metav1.ConditionTrue
	})
	if w := s.Writes(); w > 5 {
		t.Errorf("%d writes for 2 events and 2 sources", w)
	}
}

func TestAcknowledgementsNeverGoBack(t *testing.T) {
	s := store.New()
	l := ledger.New(s, everyone{"a"}, &counts{})
	for range 3 {
		must(t, add(l, lifecycle.TrafficShifted, ""))
	}
	run(t, l)
	acknowledge(l, ledger.Name(cart), "a", 2)
	eventually(t, "2 acknowledged", func() bool { return s.All()[0].Status.Acknowledged["a"] == 2 })
	acknowledge(l, ledger.Name(cart), "a", 1)
	must(t, add(l, lifecycle.TrafficShifted, ""))
	if got := sequences(l.Pending(key, "a")); got != "3 4" {
		t.Errorf("pending %s", got)
	}
}

func TestRemovedEntryStaysUntilAcknowledged(t *testing.T) {
	s := store.New()
	l := ledger.New(s, everyone{"a"}, &counts{})
	run(t, l)
	must(t, add(l, lifecycle.Deployed, ""))
	must(t, add(l, lifecycle.Removed, ""))
	acknowledge(l, ledger.Name(cart), "a", 1)
	eventually(t, "1 acknowledged", func() bool { return s.All()[0].Status.Acknowledged["a"] == 1 })
	must(t, l.Collect(context.Background(), noon, 0))
	must(t, l.Collect(context.Background(), noon, 0))
	if len(s.All()) != 1 {
		t.Fatal("deleted while an event is pending")
	}
	acknowledge(l, ledger.Name(cart), "a", 2)
	eventually(t, "2 acknowledged, as far as the ledger knows", func() bool { return ledger.Finished(l.Subjects(key)[0]) })
	must(t, l.Collect(context.Background(), noon, time.Minute))
	must(t, l.Collect(context.Background(), noon.Add(59*time.Second), time.Minute))
	if len(s.All()) != 1 {
		t.Fatal("deleted too early")
	}
	must(t, l.Collect(context.Background(), noon.Add(time.Minute), time.Minute))
	if len(s.All()) != 0 {
		t.Fatal("not deleted")
	}
	if len(l.Keys()) != 1 {
		t.Fatal("forgotten before the informer reported the deletion, so a late update would count as new")
	}
}

func TestWithoutSources(t *testing.T) {
	s := store.New()
	l := ledger.New(s, everyone{}, &counts{})
	must(t, add(l, lifecycle.Deployed, ""))
	if o := s.All()[0]; o.Status.Sequence != 1 || len(o.Status.Journal) != 0 {
		t.Errorf("got %+v", o.Status)
	}
	must(t, add(l, lifecycle.Removed, ""))
	must(t, l.Collect(context.Background(), noon, 0))
	must(t, l.Collect(context.Background(), noon, 0))
	if len(s.All()) != 0 {
		t.Error("an entry without pending events was not deleted")
	}
}

func TestLaggingInformer(t *testing.T) {
	s := store.New()
	l := ledger.New(s, everyone{"a"}, &counts{})
	must(t, add(l, lifecycle.Deployed, ""))
	old := s.All()[0]
	must(t, add(l, lifecycle.Removed, ""))
	l.Observe(old)
	if got := sequences(l.Pending(key, "a")); got != "1 2" {
		t.Errorf("pending %s", got)
	}
	run(t, l)
	acknowledge(l, ledger.Name(cart), "a", 2)
	eventually(t, "the entry is deleted", func() bool {
		return l.Collect(context.Background(), noon, 0) == nil && len(s.All()) == 0
	})
	l.Observe(old)
	if got := l.Pending(key, "a"); len(got) != 0 {
		t.Errorf("acknowledged events are pending again: %+v", got)
	}
	l.Forget(old, true)
	if len(l.Keys()) != 0 {
		t.Error("the key is still known")
	}
}

func TestNextLeaderReadsPendingEvents(t *testing.T) {
	s := store.New()
	must(t, add(ledger.New(s, everyone{"a"}, &counts{}), lifecycle.Deployed, ""))
	next := ledger.New(s, everyone{"a"}, &counts{})
	for _, o := range s.All() {
		next.Observe(o)
	}
	pending := next.Pending(key, "a")
	if len(pending) != 1 || pending[0].Transition.Type != lifecycle.Deployed || pending[0].Profile.SpecVersion != "0.5" || !pending[0].Transition.Time.Equal(noon.Add(time.Second)) {
		t.Errorf("pending %+v", pending)
	}
	if st := next.Backlogs()["a"]; st.Pending != 1 || len(st.Keys) != 1 || !st.Oldest.Equal(noon.Add(time.Second)) {
		t.Errorf("backlog %+v", st)
	}
}

func TestRemovedObjectComesBeforePresentOne(t *testing.T) {
	s := store.New()
	l := ledger.New(s, everyone{"a"}, &counts{})
	must(t, add(l, lifecycle.Removed, ""))
	again := cart
	again.UID = "u0"
	must(t, l.Journal(context.Background(), again, func(*v1alpha1.CDEventSubject) (*ledger.Change, error) {
		return &ledger.Change{Memory: lifecycle.Memory{Sequence: 1}, Transitions: []lifecycle.Transition{{Sequence: 1, Time: noon, Type: lifecycle.Created}}}, nil
	}))
	pending := l.Pending(key, "a")
	if len(pending) != 2 || pending[0].Transition.Type != lifecycle.Removed || pending[1].Transition.Type != lifecycle.Created {
		t.Errorf("pending %+v", pending)
	}
}

func TestJournalIsBounded(t *testing.T) {
	s := store.New()
	c := &counts{}
	l := ledger.New(s, everyone{"a"}, c)
	must(t, add(l, lifecycle.Deployed, ""))
	for range 12 {
		must(t, add(l, lifecycle.TrafficShifted, strings.Repeat("x", 64<<10)))
	}
	must(t, add(l, lifecycle.Upgraded, ""))
	o := s.All()[0]
	raw, err := json.Marshal(o)
	must(t, err)
	first, last := o.Status.Journal[0], o.Status.Journal[len(o.Status.Journal)-1]
	if len(raw) > 600<<10 || first.Type != string(lifecycle.Deployed) || last.Type != string(lifecycle.Upgraded) {
		t.Errorf("%d bytes, from %s to %s", len(raw), first.Type, last.Type)
	}
	if lost := o.Status.Dropped[ledger.DroppedJournalFull]; lost == 0 || lost != c.dropped[ledger.DroppedJournalFull] || int(lost)+len(o.Status.Journal) != 14 {
		t.Errorf("dropped %d in the status, %d in the metric; %d kept", lost, c.dropped[ledger.DroppedJournalFull], len(o.Status.Journal))
	}
}

func TestDroppedEventsAreCountedAndShown(t *testing.T) {
	s := store.New()
	c := &counts{}
	l := ledger.New(s, everyone{"a", "b"}, c)
	must(t, add(l, lifecycle.Deployed, ""))
	run(t, l)
	l.Drop(event(l, ledger.Name(cart), "a", 1), "a", ledger.DroppedRejected)
	eventually(t, "the drop is in the status", func() bool {
		o := s.All()[0]
		return o.Status.Dropped[ledger.DroppedRejected] == 1 && o.Status.Pending == 1
	})
	l.Abandon("b", func(types.NamespacedName) bool { return false })
	if l.Backlogs()["b"].Pending != 1 {
		t.Error("a process that is not the leader abandoned events")
	}
	l.Abandon("b", func(types.NamespacedName) bool { return true })
	l.Abandon("b", func(types.NamespacedName) bool { return true })
	eventually(t, "the events are abandoned", func() bool {
		o := s.All()[0]
		return o.Status.Dropped[ledger.DroppedSourceRemoved] == 1 && o.Status.Pending == 0
	})
	if c.dropped[ledger.DroppedRejected] != 1 || c.dropped[ledger.DroppedSourceRemoved] != 1 {
		t.Errorf("dropped in the metric: %v", c.dropped)
	}
}

func TestDeletedSourcesAreForgotten(t *testing.T) {
	s := store.New()
	l, q := queued(s, everyone{"a", "b"}, &counts{})
	must(t, add(l, lifecycle.Deployed, ""))
	acknowledge(l, ledger.Name(cart), "a", 1)
	acknowledge(l, ledger.Name(cart), "b", 1)
	must(t, q.write(l))
	next := ledger.New(s, everyone{"b"}, &counts{})
	next.Observe(s.All()[0])
	must(t, add(next, lifecycle.Upgraded, ""))
	if got := s.All()[0].Status.Acknowledged; len(got) != 1 || got["b"] != 1 {
		t.Errorf("acknowledged %v", got)
	}
}

func TestEntryWithoutTransitions(t *testing.T) {
	s := store.New()
	l := ledger.New(s, everyone{"a"}, &counts{})
	must(t, l.Journal(context.Background(), cart, func(*v1alpha1.CDEventSubject) (*ledger.Change, error) {
		return &ledger.Change{Memory: lifecycle.Memory{Baselined: true}}, nil
	}))
	if o := s.All()[0]; o.Status.Sequence != 0 || len(o.Status.Conditions) != 0 || o.Status.Memory == "" {
		t.Errorf("got %+v", o.Status)
	}
}
