package delivery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	eventingduckv1 "knative.dev/eventing/pkg/apis/duck/v1"
	eventingv1 "knative.dev/eventing/pkg/apis/eventing/v1"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"
	"knative.dev/pkg/reconciler"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/cdevents"
	"github.com/knative-cdevents/knative-cdevents/emitter/delivery/sender"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// stage is a real ledger and a real delivery with a fake transport.
type stage struct {
	*Delivery
	ledger *ledger.Ledger
	store  *store.Store
	cancel context.CancelFunc

	mu      sync.Mutex
	got     []string
	answers map[string]func() sender.Outcome
	letters []event.Event
	dropped map[string]int64
	leads   bool

	incomplete, forgotten atomic.Int64
}

var accepted = sender.Outcome{Class: sender.Acknowledged, Status: 202}

func newStage(t *testing.T, sources ...*v1alpha1.CDEventSource) *stage {
	t.Helper()
	s := &stage{store: store.New(), answers: map[string]func() sender.Outcome{}, dropped: map[string]int64{}, leads: true}
	filters := NewFilters()
	router := &Router{
		Sources:     func() []*v1alpha1.CDEventSource { return sources },
		Namespace:   func(string) (map[string]string, bool, error) { return nil, false, nil },
		Cluster:     func() string { return "https://cluster.example.com" },
		Environment: func() v1alpha1.Environment { return v1alpha1.Environment{ID: "test"} },
		Render:      cdevents.Render,
		Passes:      filters.Passes,
	}
	s.ledger = ledger.New(s.store, router, s)
	s.ledger.OnRefused(func(_ ledger.Key, _ types.UID, why ledger.Refusal) { t.Errorf("routing: %v", why.Err) })
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.Delivery = New(ctx, Options{
		Ledger: s.ledger, Transports: Transports{"http": s}, Render: cdevents.Render, Passes: filters.Passes, Metrics: s, WorkersPerSource: 4, ProbeEvery: 20 * time.Millisecond,
		Leads: func(types.NamespacedName) bool { s.mu.Lock(); defer s.mu.Unlock(); return s.leads },
	})
	s.ledger.OnPending(s.Enqueue)
	var wg sync.WaitGroup
	wg.Go(func() { s.ledger.Run(ctx, 2) })
	for _, src := range sources {
		s.UpdateSource(src)
	}
	t.Cleanup(func() { cancel(); s.Wait(); wg.Wait() })
	return s
}

// Send implements Transport. It records accepted events, and answers as the test has set for
// the host of the sink.
func (s *stage) Send(ctx context.Context, to sender.Target, ev event.Event, _ sender.Policy) sender.Outcome {
	s.mu.Lock()
	host := strings.TrimPrefix(to.URL, "http://")
	answer := s.answers[host]
	s.mu.Unlock()
	out := accepted
	if answer != nil {
		out = answer()
	}
	if ctx.Err() != nil {
		return sender.Outcome{Class: sender.Retry, Err: ctx.Err()}
	}
	if out.Class == sender.Acknowledged {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.got = append(s.got, fmt.Sprintf("%s %s %s", host, ev.Subject(), strings.Split(ev.Type(), ".")[3]))
		if host == "letters" {
			s.letters = append(s.letters, ev)
		}
	}
	return out
}

func (s *stage) answer(host string, f func() sender.Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[host] = f
}

func (s *stage) Forget(types.UID)                        { s.forgotten.Add(1) }
func (s *stage) Attempt(string, string)                  {}
func (s *stage) Delivered(string, string, time.Duration) {}
func (s *stage) Incomplete(string)                       { s.incomplete.Add(1) }
func (s *stage) DeadLetter(string)                       {}
func (s *stage) Refused()                                {}
func (s *stage) Conflict()                               {}
func (s *stage) Dropped(reason string, n int64)          { s.mu.Lock(); s.dropped[reason] += n; s.mu.Unlock() }
func (s *stage) received() []string                      { s.mu.Lock(); defer s.mu.Unlock(); return slices.Clone(s.got) }
func refuse(status int, class sender.Class) func() sender.Outcome {
	return func() sender.Outcome {
		return sender.Outcome{Class: class, Status: status, Err: fmt.Errorf("the sink answered %d", status)}
	}
}

func sourceTo(name, host string) *v1alpha1.CDEventSource {
	s := &v1alpha1.CDEventSource{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name), Generation: 1}}
	s.Status.SinkURI, s.Status.ObservedGeneration = apis.HTTP(host), 1
	return s
}

// happens journals transitions of a Service.
func (s *stage) happens(t *testing.T, name string, all ...lifecycle.Type) {
	t.Helper()
	spec := v1alpha1.CDEventSubjectSpec{APIVersion: "serving.knative.dev/v1", Kind: "Service", Namespace: "shop", Name: name, UID: types.UID("uid-" + name)}
	for _, typ := range all {
		err := s.ledger.Journal(context.Background(), spec, func(current *v1alpha1.CDEventSubject) (*ledger.Change, error) {
			m := lifecycle.Memory{Sequence: 1}
			if current != nil {
				m.Sequence = current.Status.Sequence + 1
			}
			r := &lifecycle.Revision{Name: name + "-1", Images: []lifecycle.Image{{Image: "r/app", Digest: "r/app@sha256:" + strings.Repeat("a", 64)}}}
			tr := lifecycle.Transition{Sequence: m.Sequence, Time: time.Now().UTC().Truncate(time.Microsecond), Type: typ, Revision: r}
			return &ledger.Change{Memory: m, Transitions: []lifecycle.Transition{tr}}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (s *stage) eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 600 {
		if ok() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("not in time: %s; got %q", what, s.received())
}

func (s *stage) pending(uid types.UID) int64 { return s.ledger.Backlogs()[uid].Pending }

func TestEventsOfOneObjectKeepTheirOrder(t *testing.T) {
	s := newStage(t, sourceTo("all", "sink"))
	n := 0
	s.answer("sink", func() sender.Outcome { // every second attempt fails
		if n++; n%2 == 1 {
			return refuse(503, sender.Retry)()
		}
		return accepted
	})
	policy := &eventingduckv1.DeliverySpec{BackoffDelay: ptr("PT0.1S")}
	src := sourceTo("all", "sink")
	src.Spec.Delivery = policy
	s.UpdateSource(src)
	s.happens(t, "cart", lifecycle.Created, lifecycle.Deployed, lifecycle.Upgraded, lifecycle.RolledBack, lifecycle.Removed)
	s.eventually(t, "all events are delivered", func() bool { return s.pending("uid-all") == 0 })
	want := []string{"created", "deployed", "upgraded", "rolledback", "removed"}
	got := s.received()
	for i, w := range want {
		if i >= len(got) || !strings.HasSuffix(got[i], " "+w) {
			t.Fatalf("got %q", got)
		}
	}
	if len(got) != len(want) {
		t.Errorf("got %q", got)
	}
}

func TestHangingSinkDelaysNoOther(t *testing.T) {
	s := newStage(t, sourceTo("dead", "dead"), sourceTo("healthy", "healthy"))
	release := make(chan struct{})
	s.answer("dead", func() sender.Outcome { <-release; return refuse(504, sender.Retry)() })
	defer close(release)
	for i := range 40 {
		s.happens(t, fmt.Sprintf("cart-%d", i), lifecycle.Created)
	}
	s.eventually(t, "the healthy sink receives 40 events", func() bool { return s.pending("uid-healthy") == 0 })
	if s.pending("uid-dead") != 40 {
		t.Errorf("%d pending for the sink that hangs, want 40", s.pending("uid-dead"))
	}
}

func TestSinkThatResolvesLaterReceivesEverything(t *testing.T) {
	without := sourceTo("all", "")
	without.Status.SinkURI = nil
	s := newStage(t, without)
	s.happens(t, "cart", lifecycle.Created, lifecycle.Deployed)
	s.eventually(t, "the problem is reported", func() bool {
		_, _, _, problem := s.SourceStatus("uid-all")
		return strings.Contains(problem, "no address")
	})
	s.UpdateSource(sourceTo("all", "sink"))
	s.eventually(t, "both events are delivered", func() bool { return s.pending("uid-all") == 0 })
	if _, _, last, problem := s.SourceStatus("uid-all"); last.IsZero() || problem != "" {
		t.Errorf("last delivery %v, problem %q", last, problem)
	}
}

func TestPoison(t *testing.T) {
	t.Run("without a dead letter sink it is dropped and counted", func(t *testing.T) {
		s := newStage(t, sourceTo("all", "sink"))
		first := true
		s.answer("sink", func() sender.Outcome {
			if first {
				first = false
				return refuse(400, sender.Poison)()
			}
			return accepted
		})
		s.happens(t, "cart", lifecycle.Created, lifecycle.Deployed)
		s.eventually(t, "the second event is delivered", func() bool { return s.pending("uid-all") == 0 })
		if got := s.received(); len(got) != 1 || !strings.HasSuffix(got[0], "deployed") || s.dropped[ledger.DroppedRejected] != 1 {
			t.Errorf("got %q, dropped %v", got, s.dropped)
		}
	})
	t.Run("with a dead letter sink it goes there with the reason", func(t *testing.T) {
		src := sourceTo("all", "sink")
		src.Spec.Delivery = &eventingduckv1.DeliverySpec{DeadLetterSink: &duckv1.Destination{URI: apis.HTTP("letters")}}
		src.Status.DeadLetterSinkURI = apis.HTTP("letters")
		s := newStage(t, src)
		s.answer("sink", refuse(400, sender.Poison))
		s.happens(t, "cart", lifecycle.Created)
		s.eventually(t, "the dead letter is delivered", func() bool { return s.pending("uid-all") == 0 })
		if len(s.letters) != 1 || s.letters[0].Extensions()["knativeerrorcode"] != int32(400) || len(s.dropped) > 0 {
			t.Errorf("letters %v, dropped %v", s.letters, s.dropped)
		}
	})
	t.Run("with a dead letter sink that has no address yet it waits", func(t *testing.T) {
		src := sourceTo("all", "sink")
		src.Spec.Delivery = &eventingduckv1.DeliverySpec{DeadLetterSink: &duckv1.Destination{URI: apis.HTTP("letters")}}
		s := newStage(t, src)
		s.answer("sink", refuse(400, sender.Poison))
		s.happens(t, "cart", lifecycle.Created)
		time.Sleep(50 * time.Millisecond)
		if s.pending("uid-all") != 1 || len(s.dropped) > 0 {
			t.Errorf("%d pending, dropped %v", s.pending("uid-all"), s.dropped)
		}
	})
}

func TestRetriesThenDeadLetter(t *testing.T) {
	src := sourceTo("all", "sink")
	src.Spec.Delivery = &eventingduckv1.DeliverySpec{
		Retry: ptr(int32(2)), BackoffDelay: ptr("PT0.1S"), DeadLetterSink: &duckv1.Destination{URI: apis.HTTP("letters")},
	}
	src.Status.DeadLetterSinkURI = apis.HTTP("letters")
	s := newStage(t, src)
	tries := 0
	s.answer("sink", func() sender.Outcome { tries++; return refuse(500, sender.Retry)() })
	s.happens(t, "cart", lifecycle.Created)
	s.eventually(t, "the dead letter is delivered", func() bool { return s.pending("uid-all") == 0 })
	if tries != 3 || len(s.letters) != 1 {
		t.Errorf("%d tries, %d dead letters", tries, len(s.letters))
	}
}

func TestBreakerProbesAndRecovers(t *testing.T) {
	src := sourceTo("all", "sink")
	src.Spec.Delivery = &eventingduckv1.DeliverySpec{BackoffDelay: ptr("PT0.1S")}
	s := newStage(t, src)
	down, tries := true, 0
	s.answer("sink", func() sender.Outcome {
		s.mu.Lock()
		defer s.mu.Unlock()
		tries++
		if down {
			return refuse(503, sender.Retry)()
		}
		return accepted
	})
	for i := range 30 {
		s.happens(t, fmt.Sprintf("cart-%d", i), lifecycle.Created)
	}
	time.Sleep(500 * time.Millisecond)
	s.mu.Lock()
	during := tries
	down = false
	s.mu.Unlock()
	if during > 40 {
		t.Errorf("%d attempts for 30 events while the sink is down, want at most 40", during)
	}
	s.eventually(t, "all events are delivered", func() bool { return s.pending("uid-all") == 0 })
}

func TestDeadLettersPassAnOpenBreaker(t *testing.T) {
	src := sourceTo("all", "sink")
	src.Spec.Delivery = &eventingduckv1.DeliverySpec{
		Retry: ptr(int32(1)), BackoffDelay: ptr("PT0.1S"), DeadLetterSink: &duckv1.Destination{URI: apis.HTTP("letters")},
	}
	src.Status.DeadLetterSinkURI = apis.HTTP("letters")
	s := newStage(t, src)
	s.ProbeEvery = time.Hour
	s.answer("sink", refuse(503, sender.Retry))
	for i := range 40 {
		s.happens(t, fmt.Sprintf("cart-%d", i), lifecycle.Created)
	}
	s.eventually(t, "40 dead letters are delivered", func() bool { return s.pending("uid-all") == 0 })
	if len(s.letters) != 40 {
		t.Errorf("%d dead letters", len(s.letters))
	}
}

// An event is kept if the credentials are rejected or the sink redirects. It never goes to the
// dead letter sink.
func TestKeptEventsNeverBecomeDeadLetters(t *testing.T) {
	for _, class := range []sender.Class{sender.Unauthorized, sender.Redirected} {
		src := sourceTo("all", "sink")
		src.Spec.Delivery = &eventingduckv1.DeliverySpec{
			Retry: ptr(int32(0)), BackoffDelay: ptr("PT0.1S"), DeadLetterSink: &duckv1.Destination{URI: apis.HTTP("letters")},
		}
		src.Status.DeadLetterSinkURI = apis.HTTP("letters")
		s := newStage(t, src)
		s.answer("sink", refuse(401, class))
		for i := range 20 {
			s.happens(t, fmt.Sprintf("cart-%d", i), lifecycle.Created)
		}
		s.eventually(t, "the breaker opens", func() bool { return s.Breakers()["shop/all"] })
		time.Sleep(200 * time.Millisecond)
		if n := s.pending("uid-all"); n != 20 {
			t.Errorf("%v: %d of 20 are pending", class, n)
		}
		s.answer("sink", nil)
		s.eventually(t, "all events are delivered", func() bool { return s.pending("uid-all") == 0 })
		if len(s.letters) > 0 {
			t.Errorf("%v: %d dead letters", class, len(s.letters))
		}
	}
}

func TestRecoveredSinkReceivesEverythingAtOnce(t *testing.T) {
	src := sourceTo("all", "sink")
	src.Spec.Delivery = &eventingduckv1.DeliverySpec{BackoffDelay: ptr("PT60S")}
	s := newStage(t, src)
	s.answer("sink", refuse(503, sender.Retry))
	for i := range 8 {
		s.happens(t, fmt.Sprintf("cart-%d", i), lifecycle.Created)
	}
	s.eventually(t, "the breaker opens", func() bool { return s.Breakers()["shop/all"] })
	s.answer("sink", nil)
	s.eventually(t, "all events are delivered, without waiting for the backoff of a minute", func() bool { return s.pending("uid-all") == 0 })
}

func TestOnlyTheLeaderSends(t *testing.T) {
	s := newStage(t, sourceTo("all", "sink"))
	s.leads = false
	s.happens(t, "cart", lifecycle.Created)
	time.Sleep(30 * time.Millisecond)
	if got := s.received(); len(got) > 0 {
		t.Fatalf("got %q", got)
	}
	s.mu.Lock()
	s.leads = true
	s.mu.Unlock()
	s.Resume()
	s.eventually(t, "the event is delivered", func() bool { return s.pending("uid-all") == 0 })
}

func TestProblemEndsWithTheLead(t *testing.T) {
	s := newStage(t, sourceTo("all", "sink"))
	sending, proceed := make(chan struct{}), make(chan struct{})
	s.answer("sink", refuse(503, sender.Retry))
	s.happens(t, "cart", lifecycle.Created)
	problem := func() string { _, _, _, problem := s.SourceStatus("uid-all"); return problem }
	s.eventually(t, "a problem is reported", func() bool { return problem() != "" })

	s.answer("sink", func() sender.Outcome { sending <- struct{}{}; <-proceed; return refuse(503, sender.Retry)() })
	s.happens(t, "shop", lifecycle.Created)
	<-sending
	s.mu.Lock()
	s.leads = false
	s.mu.Unlock()
	s.Demoted(reconciler.UniversalBucket())
	close(proceed) // the attempt fails after the lead is lost
	time.Sleep(30 * time.Millisecond)
	if got := problem(); got != "" {
		t.Errorf("the problem is still reported: %q", got)
	}
	if n := s.pending("uid-all"); n != 2 {
		t.Errorf("%d pending, want 2", n)
	}
}

func TestDeletedSourceHasNoPendingEvents(t *testing.T) {
	s := newStage(t, sourceTo("all", "sink"))
	s.answer("sink", refuse(503, sender.Retry))
	s.happens(t, "cart", lifecycle.Created)
	s.DeleteSource("uid-all")
	s.eventually(t, "the journal is empty", func() bool { return len(s.store.All()[0].Status.Journal) == 0 })
	if s.dropped[ledger.DroppedSourceRemoved] != 1 {
		t.Errorf("dropped %v", s.dropped)
	}
}

func TestShutdownDuringAnOutageIsQuick(t *testing.T) {
	s := newStage(t, sourceTo("all", "sink"))
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	s.answer("sink", func() sender.Outcome {
		select {
		case <-hang:
		case <-time.After(grace + time.Second):
		}
		return refuse(504, sender.Retry)()
	})
	for i := range 500 {
		s.happens(t, fmt.Sprintf("cart-%d", i), lifecycle.Created)
	}
	start := time.Now()
	s.cancel()
	s.Wait()
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %s", took)
	}
	if s.pending("uid-all") != 500 {
		t.Errorf("%d pending, want 500", s.pending("uid-all"))
	}
}

func ptr[T any](v T) *T { return &v }

var errAny = errors.New("any")

func TestHealth(t *testing.T) {
	for class, healthy := range map[sender.Class]bool{
		sender.Acknowledged: true, sender.Poison: true, sender.Retry: false, sender.Unauthorized: false, sender.Redirected: false,
	} {
		if got := health(sender.Outcome{Class: class, Status: 401, Err: errAny}) == nil; got != healthy {
			t.Errorf("%v: healthy %v", class, got)
		}
	}
	if health(sender.Outcome{Class: sender.Unauthorized, Err: errAny}) != nil {
		t.Error("a sink counts as unhealthy although no credentials were sent to it")
	}
}

// delivered records a delivery for a source.
func (s *stage) delivered(source types.UID) {
	s.Delivery.mu.Lock()
	q := s.queues[source]
	s.Delivery.mu.Unlock()
	q.setDelivered(time.Now())
}

func TestEventWaitsForAValidFilter(t *testing.T) {
	src := sourceTo("all", "sink")
	src.Spec.Filters = []eventingv1.SubscriptionsAPIFilter{{CESQL: "this is not CESQL ("}}
	s := newStage(t, src)
	s.happens(t, "cart", lifecycle.Created, lifecycle.Deployed)
	s.eventually(t, "the problem is reported", func() bool {
		_, _, _, problem := s.SourceStatus("uid-all")
		return strings.Contains(problem, "filters[0]")
	})
	s.delivered("uid-all") // another event
	if _, _, _, problem := s.SourceStatus("uid-all"); !strings.Contains(problem, "filters[0]") {
		t.Errorf("the problem is no longer reported, although events wait: %q", problem)
	}
	if got := s.received(); len(got) > 0 || s.pending("uid-all") != 2 {
		t.Fatalf("got %q, %d pending", got, s.pending("uid-all"))
	}
	corrected := sourceTo("all", "sink")
	corrected.Generation, corrected.Status.ObservedGeneration = 2, 2
	corrected.Spec.Filters = []eventingv1.SubscriptionsAPIFilter{{Prefix: map[string]string{"type": "dev.cdevents.service"}}}
	s.UpdateSource(corrected)
	s.eventually(t, "the events are delivered after the correction", func() bool { return s.pending("uid-all") == 0 })
	if got := s.received(); len(got) != 1 || !strings.HasSuffix(got[0], "deployed") || len(s.dropped) > 0 {
		t.Errorf("got %q, dropped %v", got, s.dropped)
	}
}
