package ledger_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

var (
	cart = v1alpha1.CDEventSubjectSpec{APIVersion: "serving.knative.dev/v1", Kind: "Service", Namespace: "shop", Name: "cart", UID: "u1"}
	key  = ledger.KeyOf(cart)
	noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
)

// everyone is a router that sends every event to the same sources.
type everyone []types.UID

func (e everyone) Exists(source types.UID) bool { return slices.Contains(e, source) }

func (everyone) Operator(source types.UID) bool { return source == "operator" }

func (everyone) NamespaceLabels(string) (map[string]string, bool, error) { return nil, false, nil }

func (e everyone) Replays(_ v1alpha1.CDEventSubjectSpec, told []types.UID, _ func() ledger.Labels) []types.UID {
	return slices.DeleteFunc(slices.Clone(e), func(source types.UID) bool { return slices.Contains(told, source) })
}

func (e everyone) Recipients(v1alpha1.CDEventSubjectSpec, ledger.Labels, lifecycle.Transition) []ledger.Recipient {
	var out []ledger.Recipient
	for _, s := range e {
		out = append(out, ledger.Recipient{Source: s, Profile: v1alpha1.Profile{SpecVersion: "0.5", Source: "https://c"}})
	}
	return out
}

type counts struct {
	mu        sync.Mutex
	conflicts int
	refused   int
	dropped   map[string]int64
}

func (c *counts) Refused()  { c.mu.Lock(); c.refused++; c.mu.Unlock() }
func (c *counts) Conflict() { c.mu.Lock(); c.conflicts++; c.mu.Unlock() }

func (c *counts) Dropped(reason string, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dropped == nil {
		c.dropped = map[string]int64{}
	}
	c.dropped[reason] += n
}

// add journals one more transition.
func add(l *ledger.Ledger, typ lifecycle.Type, pad string) error {
	return l.Journal(context.Background(), cart, func(current *v1alpha1.CDEventSubject) (*ledger.Change, error) {
		var m lifecycle.Memory
		if current != nil {
			if err := json.Unmarshal(current.Status.Memory.Raw, &m); err != nil {
				return nil, err
			}
		}
		m.Sequence++
		m.Removed = typ == lifecycle.Removed
		t := lifecycle.Transition{Sequence: m.Sequence, Time: noon.Add(time.Duration(m.Sequence) * time.Second), Type: typ, Reason: pad}
		return &ledger.Change{Memory: m, Transitions: []lifecycle.Transition{t}}, nil
	})
}

func run(t *testing.T, l *ledger.Ledger) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); l.Run(ctx, 4) }()
	t.Cleanup(func() { cancel(); <-done })
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 400 {
		if ok() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal("not in time: " + what)
}

func sequences(pending []ledger.Pending) string {
	var out []string
	for _, o := range pending {
		out = append(out, fmt.Sprint(o.Transition.Sequence))
	}
	return strings.Join(out, " ")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestJournalPendingAcknowledged(t *testing.T) {
	s := store.New()
	l := ledger.New(s, everyone{"a", "b"}, &counts{})
	var notified []types.UID
	l.OnPending(func(k ledger.Key, source types.UID) {
		if k != key {
			t.Errorf("called with %v", k)
		}
		notified = append(notified, source)
	})
	must(t, add(l, lifecycle.Created, ""))
	must(t, add(l, lifecycle.Deployed, ""))
	if len(notified) != 4 {
		t.Errorf("OnPending was called for %v", notified)
	}
	if got := sequences(l.Pending(key, "a")); got != "1 2" {
		t.Errorf("pending for a: %s", got)
	}
	l.Acknowledge(ledger.Name(cart), "a", 1)
	if got := sequences(l.Pending(key, "a")); got != "2" {
		t.Errorf("pending for a after an acknowledgement that is not written yet: %s", got)
	}
	if got := sequences(l.Pending(key, "b")); got != "1 2" {
		t.Errorf("pending for b, which has acknowledged nothing: %s", got)
	}
	run(t, l)
	l.Acknowledge(ledger.Name(cart), "a", 2)
	l.Acknowledge(ledger.Name(cart), "b", 2)
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
	l.Acknowledge(ledger.Name(cart), "a", 2)
	eventually(t, "2 acknowledged", func() bool { return s.All()[0].Status.Acknowledged["a"] == 2 })
	l.Acknowledge(ledger.Name(cart), "a", 1)
	must(t, add(l, lifecycle.TrafficShifted, ""))
	if got := sequences(l.Pending(key, "a")); got != "3 4" {
		t.Errorf("pending %s", got)
	}
}

func TestConflictingWriters(t *testing.T) {
	s := store.New()
	c := &counts{}
	mine, theirs := ledger.New(s, everyone{"a"}, c), ledger.New(s, everyone{"a"}, &counts{})
	must(t, add(mine, lifecycle.Created, ""))
	must(t, add(theirs, lifecycle.Deployed, "")) // does not know the object: AlreadyExists
	must(t, add(mine, lifecycle.Published, ""))  // has an old version: Conflict
	o := s.All()[0]
	if o.Status.Sequence != 3 || len(o.Status.Journal) != 3 || c.conflicts != 1 {
		t.Errorf("sequence %d, %d journaled, %d conflicts", o.Status.Sequence, len(o.Status.Journal), c.conflicts)
	}
	if got := sequences(mine.Pending(key, "a")); got != "1 2 3" {
		t.Errorf("pending %s", got)
	}
}

func TestConcurrentWritersLoseNothing(t *testing.T) {
	s := store.New()
	leaders := []*ledger.Ledger{ledger.New(s, everyone{"a"}, &counts{}), ledger.New(s, everyone{"a"}, &counts{})}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 25 {
				for add(leaders[i%2], lifecycle.TrafficShifted, "") != nil {
					time.Sleep(time.Millisecond) // too many conflicts in a row
				}
			}
		})
	}
	wg.Wait()
	o := s.All()[0]
	if o.Status.Sequence != 200 || len(o.Status.Journal) != 200 {
		t.Errorf("sequence %d, %d journaled", o.Status.Sequence, len(o.Status.Journal))
	}
}

func TestLostResponseIsNotJournaledTwice(t *testing.T) {
	s := store.New()
	l := ledger.New(s, everyone{"a"}, &counts{})
	must(t, add(l, lifecycle.Created, ""))
	s.After = func(string, string) error {
		s.After = nil
		return apierrors.NewTimeoutError("the response is lost", 1)
	}
	decide := func(current *v1alpha1.CDEventSubject) (*ledger.Change, error) {
		if current.Status.Sequence == 2 {
			return nil, nil
		}
		t2 := lifecycle.Transition{Sequence: 2, Time: noon, Type: lifecycle.Deployed}
		return &ledger.Change{Memory: lifecycle.Memory{Sequence: 2}, Transitions: []lifecycle.Transition{t2}}, nil
	}
	if err := l.Journal(context.Background(), cart, decide); err == nil || !strings.Contains(err.Error(), "service-u1") {
		t.Fatalf("got %v", err)
	}
	must(t, l.Journal(context.Background(), cart, decide))
	if got := sequences(l.Pending(key, "a")); got != "1 2" {
		t.Errorf("pending %s", got)
	}
}

func TestRemovedEntryStaysUntilAcknowledged(t *testing.T) {
	s := store.New()
	l := ledger.New(s, everyone{"a"}, &counts{})
	run(t, l)
	must(t, add(l, lifecycle.Deployed, ""))
	must(t, add(l, lifecycle.Removed, ""))
	l.Acknowledge(ledger.Name(cart), "a", 1)
	eventually(t, "1 acknowledged", func() bool { return s.All()[0].Status.Acknowledged["a"] == 1 })
	must(t, l.Collect(context.Background(), noon, 0))
	must(t, l.Collect(context.Background(), noon, 0))
	if len(s.All()) != 1 {
		t.Fatal("deleted while an event is pending")
	}
	l.Acknowledge(ledger.Name(cart), "a", 2)
	eventually(t, "2 acknowledged", func() bool { return s.All()[0].Status.Acknowledged["a"] == 2 })
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
	l.Acknowledge(ledger.Name(cart), "a", 2)
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
	l.Drop(ledger.Name(cart), "a", 1, ledger.DroppedRejected)
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

// labelled is a router that knows the labels of a namespace. Nil labels mean that the
// namespace does not exist.
type labelled struct {
	everyone
	labels map[string]string
	fails  error
	asked  []ledger.Labels
}

func (e *labelled) NamespaceLabels(string) (labels map[string]string, exists bool, err error) {
	return e.labels, e.labels != nil, e.fails
}

func (e *labelled) Recipients(s v1alpha1.CDEventSubjectSpec, l ledger.Labels, t lifecycle.Transition) []ledger.Recipient {
	e.asked = append(e.asked, l)
	return e.everyone.Recipients(s, l, t)
}

// The labels of the namespace decide which sources receive an event.
func TestNothingIsJournaledWithoutNamespaceLabels(t *testing.T) {
	s := store.New()
	r := &labelled{everyone: everyone{"a"}, fails: errors.New("no answer")}
	l := ledger.New(s, r, &counts{})
	if err := add(l, lifecycle.Deployed, ""); !errors.Is(err, r.fails) {
		t.Errorf("got %v", err)
	}
	if len(r.asked) != 0 || s.Writes() != 0 {
		t.Errorf("%d calls of Recipients, %d writes, want none", len(r.asked), s.Writes())
	}
	r.fails, r.labels = nil, map[string]string{"team": "shop"}
	must(t, add(l, lifecycle.Deployed, ""))
	if len(r.asked) != 1 || r.asked[0].Namespace["team"] != "shop" {
		t.Errorf("routed with the labels %v", r.asked)
	}
}

func TestNamespaceLabelsOutliveTheNamespace(t *testing.T) {
	s := store.New()
	r := &labelled{everyone: everyone{"a"}, labels: map[string]string{"team": "shop"}}
	l := ledger.New(s, r, &counts{})
	must(t, add(l, lifecycle.Deployed, ""))
	r.labels = nil
	must(t, add(l, lifecycle.Removed, ""))
	if len(r.asked) != 2 || r.asked[1].Namespace["team"] != "shop" {
		t.Errorf("routed with the labels %+v", r.asked)
	}
}

func TestDeletedSourcesAreForgotten(t *testing.T) {
	s := store.New()
	l, q := queued(s, everyone{"a", "b"}, &counts{})
	must(t, add(l, lifecycle.Deployed, ""))
	l.Acknowledge(ledger.Name(cart), "a", 1)
	l.Acknowledge(ledger.Name(cart), "b", 1)
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
	if o := s.All()[0]; o.Status.Sequence != 0 || len(o.Status.Conditions) != 0 || o.Status.Memory == nil {
		t.Errorf("got %+v", o.Status)
	}
}

func TestBaselineIsTakenOnce(t *testing.T) {
	s := store.New()
	s.Now = func() time.Time { return noon }
	l := ledger.New(s, everyone{}, &counts{})
	first, err := l.Baseline(context.Background(), "services.serving.knative.dev")
	must(t, err)
	s.Now = func() time.Time { return noon.Add(time.Hour) }
	second, err := ledger.New(s, everyone{}, &counts{}).Baseline(context.Background(), "services.serving.knative.dev")
	must(t, err)
	if !first.Equal(noon) || !second.Equal(noon) {
		t.Errorf("%v, then %v", first, second)
	}
	s.Before = func(string, string) error { return errors.New("down") }
	if _, err := l.Baseline(context.Background(), "routes"); err == nil || !strings.Contains(err.Error(), "baseline-routes, which records since when events about routes are sent: down") {
		t.Errorf("got %v", err)
	}
}
