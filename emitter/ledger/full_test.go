// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// maxWritten is the largest allowed CDEventSubject, in bytes of JSON.
const maxWritten = 512 << 10

func written(t *testing.T, s *store.Store) int {
	t.Helper()
	raw, err := json.Marshal(s.All()[0])
	must(t, err)
	return len(raw)
}

// rollouts journals n transitions of rollouts, each of 40 KiB, and calls each after every one.
func rollouts(t *testing.T, l *ledger.Ledger, n int, each func(sequence int64)) {
	t.Helper()
	types := []lifecycle.Type{lifecycle.RevisionReady, lifecycle.TrafficShifted, lifecycle.TrafficShifted, lifecycle.Upgraded}
	for i := range n {
		must(t, add(l, types[i%len(types)], strings.Repeat("x", 40<<10)))
		each(int64(i + 1))
	}
}

// When the journal is full, the source that is furthest behind loses events.
func TestDeadSinkCostsHealthySinksNothing(t *testing.T) {
	const healthy, slow, dead = types.UID("a"), types.UID("b"), types.UID("c")
	s := store.New()
	c := &counts{}
	l, q := queued(s, everyone{healthy, slow, dead}, c)
	received := map[types.UID][]int64{}
	receive := func(source types.UID, left int) {
		pending := l.Pending(key, source)
		for _, o := range pending[:max(0, len(pending)-left)] {
			received[source] = append(received[source], o.Transition.Sequence)
			acknowledge(l, o.Name, source, o.Transition.Sequence)
		}
	}
	const events = 48
	rollouts(t, l, events, func(int64) {
		receive(healthy, 1) // the newest event is still being sent when the next one comes
		receive(slow, 4)
		if size := written(t, s); size > maxWritten {
			t.Fatalf("the object has %d bytes", size)
		}
	})
	receive(healthy, 0)
	receive(slow, 0)
	for _, source := range []types.UID{healthy, slow} {
		if len(received[source]) != events {
			t.Errorf("%s received %d of %d events: %v", source, len(received[source]), events, received[source])
		}
	}
	must(t, q.write(l))
	pending := int64(len(l.Pending(key, dead)))
	st := s.All()[0].Status
	if lost := st.Dropped[ledger.DroppedJournalFull]; pending == 0 || lost == 0 || lost+pending != events || c.dropped[ledger.DroppedJournalFull] != lost {
		t.Errorf("%d pending for the dead sink, %d dropped in the status, %d dropped in the metric", pending, lost, c.dropped[ledger.DroppedJournalFull])
	}
	if st.Pending != pending || st.Journal[len(st.Journal)-1].Sequence != events {
		t.Errorf("the status has %d pending, the newest is %d", st.Pending, st.Journal[len(st.Journal)-1].Sequence)
	}
	for _, j := range st.Journal {
		if j.Type == string(lifecycle.TrafficShifted) && j.Sequence < events-4 {
			t.Errorf("traffic step %d is kept, although a later one supersedes it", j.Sequence)
		}
	}
}

// Of two dead sinks, the one that died first loses events first.
func TestSourceFurthestBehindLosesEventsFirst(t *testing.T) {
	s := store.New()
	l := ledger.New(s, everyone{"first", "second"}, &counts{})
	rollouts(t, l, 8, func(sequence int64) { acknowledge(l, ledger.Name(cart), "second", sequence) })
	rollouts(t, l, 10, func(int64) {})
	if got := len(l.Pending(key, "second")); got != 10 {
		t.Errorf("%d pending for the second sink, want 10", got)
	}
	if got := len(l.Pending(key, "first")); got < 10 || got > 13 {
		t.Errorf("%d pending for the first sink, want 10 to 13", got)
	}
	rollouts(t, l, 10, func(int64) {})
	one, other := l.Pending(key, "first"), l.Pending(key, "second")
	if sequences(one) != sequences(other) || len(one) == 0 {
		t.Errorf("equally far behind, but %d and %d pending", len(one), len(other))
	}
}

// byType is a router that sends traffic and readiness to the first source, and everything else
// to the others.
type byType struct{ everyone }

func (b byType) Recipients(s v1alpha1.CDEventSubjectSpec, l ledger.Labels, t lifecycle.Transition) []ledger.Recipient {
	all := b.everyone.Recipients(s, l, t)
	if t.Type == lifecycle.TrafficShifted || t.Type == lifecycle.RevisionReady {
		return all[:1]
	}
	return all[1:]
}

// Earlier traffic steps are dropped first. The newest one is kept, because no later event
// tells the source where the traffic goes now.
func TestNewestTrafficStepIsKept(t *testing.T) {
	s := store.New()
	l := ledger.New(s, byType{everyone{"traffic", "rest"}}, &counts{})
	pad := strings.Repeat("x", 40<<10)
	for range 6 {
		must(t, add(l, lifecycle.RevisionReady, pad))
	}
	must(t, add(l, lifecycle.TrafficShifted, pad))
	must(t, add(l, lifecycle.TrafficShifted, pad))
	for range 6 {
		must(t, add(l, lifecycle.Upgraded, pad))
	}
	pending := sequences(l.Pending(key, "traffic"))
	if !strings.HasSuffix(" "+pending, " 8") || strings.Contains(" "+pending+" ", " 7 ") || s.All()[0].Status.Dropped[ledger.DroppedJournalFull] < 2 {
		t.Errorf("pending %s, dropped %v", pending, s.All()[0].Status.Dropped)
	}
}

// crowd is a router with many sources, each with its own form.
type crowd struct {
	everyone
	n, size int
}

func (c crowd) Recipients(v1alpha1.CDEventSubjectSpec, ledger.Labels, lifecycle.Transition) []ledger.Recipient {
	var out []ledger.Recipient
	for i := range c.n {
		out = append(out, ledger.Recipient{
			Source: types.UID(fmt.Sprintf("source-%03d", i)), Rank: i,
			Profile: v1alpha1.Profile{SpecVersion: "0.5", Source: "https://c", Extensions: map[string]string{
				"of": fmt.Sprint(i), "pad": strings.Repeat("<", c.size/6), // six bytes each in JSON
			}},
		})
	}
	return out
}

// etcd rejects an object that is too large, so too many sources must not fill it.
func TestManySourcesDoNotStopTheJournal(t *testing.T) {
	s := store.New()
	c := &counts{}
	flood := crowd{n: 420, size: 4 << 10}
	l := ledger.New(s, flood, c)
	d := &deliveries{t: t}
	l.UseDelivery(d)
	for i := range 30 {
		must(t, add(l, lifecycle.TrafficShifted, ""))
		if size := written(t, s); size > maxWritten {
			t.Fatalf("the object has %d bytes", size)
		}
		if got := sequences(l.Pending(key, "source-000")); !strings.HasSuffix(" "+got, fmt.Sprintf(" %d", i+1)) {
			t.Fatalf("pending for the operator's source: %s", got)
		}
		acknowledge(l, ledger.Name(cart), "source-000", int64(i+1))
	}
	left, recipients := d.leftOut, 1+len(s.All()[0].Status.Journal[0].Recipients) // the first has acknowledged it
	if recipients+len(left) != flood.n || recipients < 40 || left[0] != types.UID(fmt.Sprintf("source-%03d", recipients)) {
		t.Errorf("%d recipients, and %d sources are left out, starting with %s", recipients, len(left), left[0])
	}
	if lost := s.All()[0].Status.Dropped[ledger.DroppedJournalFull]; lost < 30*int64(len(left)) || lost != c.dropped[ledger.DroppedJournalFull] {
		t.Errorf("dropped %d in the status, %d in the metric", lost, c.dropped[ledger.DroppedJournalFull])
	}
}

func TestFormsCountTowardsTheLimit(t *testing.T) {
	s := store.New()
	router := &crowd{n: 1, size: 0}
	l := ledger.New(s, router, &counts{})
	for i := range 120 {
		// The source changes before each event while its sink is dead, so each event has its own form.
		router.size = 6<<10 + 6*i
		must(t, add(l, lifecycle.Upgraded, ""))
		if size := written(t, s); size > maxWritten {
			t.Fatalf("%d bytes after %d events", size, i+1)
		}
	}
	if got := len(l.Pending(key, "source-000")); got < 50 {
		t.Errorf("only %d pending, want at least 50", got)
	}
}

// An event that fits into no object is dropped, and counted. Those before and after it are not wedged.
func TestAnEventThatFitsIntoNoObjectIsDropped(t *testing.T) {
	s, counted := store.New(), &counts{}
	l := ledger.New(s, everyone{"a", "operator"}, counted)
	must(t, add(l, lifecycle.Upgraded, strings.Repeat("x", 2<<20)))
	must(t, add(l, lifecycle.Upgraded, ""))
	if got := sequences(l.Pending(key, "a")); got != "2" || counted.dropped[ledger.DroppedJournalFull] != 2 {
		t.Errorf("pending %q, %d dropped", got, counted.dropped[ledger.DroppedJournalFull])
	}
	must(t, add(l, lifecycle.Upgraded, strings.Repeat("x", 900<<10))) // large, but the API server accepts it
	if got := sequences(l.Pending(key, "operator")); !strings.HasSuffix(got, "3") {
		t.Errorf("pending %q", got)
	}
}
