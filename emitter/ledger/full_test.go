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

// maxWritten is what a CDEventSubject may have, in bytes of JSON.
const maxWritten = 512 << 10

func written(t *testing.T, s *store.Store) int {
	t.Helper()
	raw, err := json.Marshal(s.All()[0])
	must(t, err)
	return len(raw)
}

// rollouts journals what rollouts consist of, each of 40 KiB, and calls after each
// event.
func rollouts(t *testing.T, l *ledger.Ledger, n int, each func(sequence int64)) {
	t.Helper()
	types := []lifecycle.Type{lifecycle.RevisionReady, lifecycle.TrafficShifted, lifecycle.TrafficShifted, lifecycle.Upgraded}
	for i := range n {
		must(t, add(l, types[i%len(types)], strings.Repeat("x", 40<<10)))
		each(int64(i + 1))
	}
}

// TestADeadSinkCostsAHealthyOneNothing is the fifth promise of the design with a full
// journal: whoever is furthest behind gives way.
func TestADeadSinkCostsAHealthyOneNothing(t *testing.T) {
	const healthy, slow, dead = types.UID("a"), types.UID("b"), types.UID("c")
	s := store.New()
	c := &counts{}
	l, q := queued(s, everyone{healthy, slow, dead}, c)
	heard := map[types.UID][]int64{}
	hear := func(source types.UID, left int) {
		owed := l.Pending(key, source)
		for _, o := range owed[:max(0, len(owed)-left)] {
			heard[source] = append(heard[source], o.Transition.Sequence)
			l.Acknowledge(o.Name, source, o.Transition.Sequence)
		}
	}
	const events = 48
	rollouts(t, l, events, func(int64) {
		hear(healthy, 1) // the newest is still on its way when the next one comes
		hear(slow, 4)
		if size := written(t, s); size > maxWritten {
			t.Fatalf("%d bytes", size)
		}
	})
	hear(healthy, 0)
	hear(slow, 0)
	for _, source := range []types.UID{healthy, slow} {
		if len(heard[source]) != events {
			t.Errorf("%s heard %d of %d events: %v", source, len(heard[source]), events, heard[source])
		}
	}
	must(t, q.write(l))
	owed := int64(len(l.Pending(key, dead)))
	st := s.All()[0].Status
	if lost := st.Dropped[ledger.DroppedJournalFull]; owed == 0 || lost == 0 || lost+owed != events || c.dropped[ledger.DroppedJournalFull] != lost {
		t.Errorf("%d are owed to the dead one, %d shown and %d counted as given up", owed, lost, c.dropped[ledger.DroppedJournalFull])
	}
	if st.Pending != owed || st.Journal[len(st.Journal)-1].Sequence != events {
		t.Errorf("%d pending, the newest is %d", st.Pending, st.Journal[len(st.Journal)-1].Sequence)
	}
	for _, j := range st.Journal {
		if j.Type == string(lifecycle.TrafficShifted) && j.Sequence < events-4 {
			t.Errorf("step %d of traffic is kept, and what says more than the next one is not", j.Sequence)
		}
	}
}

// TestWhoIsFurthestBehindGivesWayFirst: of two dead sinks, the one that died first.
func TestWhoIsFurthestBehindGivesWayFirst(t *testing.T) {
	s := store.New()
	l := ledger.New(s, everyone{"first", "second"}, &counts{})
	rollouts(t, l, 8, func(sequence int64) { l.Acknowledge(ledger.Name(cart), "second", sequence) })
	rollouts(t, l, 10, func(int64) {})
	if got := len(l.Pending(key, "second")); got != 10 {
		t.Errorf("the second is owed %d", got)
	}
	if got := len(l.Pending(key, "first")); got < 10 || got > 13 {
		t.Errorf("the first is owed %d", got)
	}
	rollouts(t, l, 10, func(int64) {})
	one, other := l.Pending(key, "first"), l.Pending(key, "second")
	if sequences(one) != sequences(other) || len(one) == 0 {
		t.Errorf("equally far behind, they are owed %d and %d", len(one), len(other))
	}
}

// byType is a router that tells one source of traffic and readiness, and another of all
// the rest.
type byType struct{ everyone }

func (b byType) Recipients(s v1alpha1.CDEventSubjectSpec, l ledger.Labels, t lifecycle.Transition) []ledger.Recipient {
	all := b.everyone.Recipients(s, l, t)
	if t.Type == lifecycle.TrafficShifted || t.Type == lifecycle.RevisionReady {
		return all[:1]
	}
	return all[1:]
}

// TestTheNewestStepOfTrafficIsKept: earlier ones give way, as it says where the traffic is
// now. No later event says so to its source.
func TestTheNewestStepOfTrafficIsKept(t *testing.T) {
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
	owed := sequences(l.Pending(key, "traffic"))
	if !strings.HasSuffix(" "+owed, " 8") || strings.Contains(" "+owed+" ", " 7 ") || s.All()[0].Status.Dropped[ledger.DroppedJournalFull] < 2 {
		t.Errorf("owed are %s, given up %v", owed, s.All()[0].Status.Dropped)
	}
}

// crowd is a router of many sources, each with a form of its own.
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
				"of": fmt.Sprint(i), "pad": strings.Repeat("<", c.size/6), // six bytes each, as JSON
			}},
		})
	}
	return out
}

// TestAFloodOfSourcesDoesNotStopTheJournal: etcd refuses what is too large as a whole.
func TestAFloodOfSourcesDoesNotStopTheJournal(t *testing.T) {
	s := store.New()
	c := &counts{}
	flood := crowd{n: 420, size: 4 << 10}
	l := ledger.New(s, flood, c)
	var left []types.UID
	l.OnLeftOut(func(k ledger.Key, sources []types.UID) {
		if k != key {
			t.Errorf("told of %v", k)
		}
		left = sources
	})
	for i := range 30 {
		must(t, add(l, lifecycle.TrafficShifted, ""))
		if size := written(t, s); size > maxWritten {
			t.Fatalf("%d bytes", size)
		}
		if got := sequences(l.Pending(key, "source-000")); !strings.HasSuffix(" "+got, fmt.Sprintf(" %d", i+1)) {
			t.Fatalf("the operator's source is owed %s", got)
		}
		l.Acknowledge(ledger.Name(cart), "source-000", int64(i+1))
	}
	told := 1 + len(s.All()[0].Status.Journal[0].Recipients) // the first has acknowledged it
	if told+len(left) != flood.n || told < 40 || left[0] != types.UID(fmt.Sprintf("source-%03d", told)) {
		t.Errorf("%d are told, and %d are left out from %s on", told, len(left), left[0])
	}
	if lost := s.All()[0].Status.Dropped[ledger.DroppedJournalFull]; lost < 30*int64(len(left)) || lost != c.dropped[ledger.DroppedJournalFull] {
		t.Errorf("%d shown, %d counted", lost, c.dropped[ledger.DroppedJournalFull])
	}
}

// TestAllThatIsWrittenCounts: whatever is long.
func TestAllThatIsWrittenCounts(t *testing.T) {
	s := store.New()
	router := &crowd{n: 1, size: 0}
	l := ledger.New(s, router, &counts{})
	for i := range 120 {
		// A source that is changed all the time, while its sink is dead: a form for each event.
		router.size = 6<<10 + 6*i
		must(t, add(l, lifecycle.Upgraded, ""))
		if size := written(t, s); size > maxWritten {
			t.Fatalf("%d bytes after %d events", size, i+1)
		}
	}
	if got := len(l.Pending(key, "source-000")); got < 50 {
		t.Errorf("only %d are owed", got)
	}
}
