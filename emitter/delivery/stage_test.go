// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"context"
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
	"knative.dev/pkg/apis"
	"knative.dev/pkg/reconciler"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/cdevents"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/emitter/route"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
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
	answers map[string]func() transport.Outcome
	letters []event.Event
	dropped map[string]int64
	leads   bool

	incomplete, forgotten atomic.Int64
}

// routed is a delivery whose sources receive all events.
type routed struct {
	*Delivery
	t *testing.T
}

func (routed) LeftOut(ledger.Key, []types.UID) {}
func (r routed) Refused(_ ledger.Key, _ types.UID, why ledger.Refusal) {
	r.t.Errorf("routing: %v", why.Err)
}

var accepted = transport.Outcome{Class: transport.Acknowledged, Status: 202}

func newStage(t *testing.T, sources ...*v1alpha1.CDEventSource) *stage {
	t.Helper()
	s := &stage{store: store.New(), answers: map[string]func() transport.Outcome{}, dropped: map[string]int64{}, leads: true}
	filters := route.NewFilters()
	router := &route.Router{
		Sources:   listed(sources),
		Namespace: func(string) (map[string]string, bool, error) { return nil, false, nil },
		Settings:  listed{},
		Render:    cdevents.Render,
		Filters:   filters,
	}
	s.ledger = ledger.New(s.store, router, s)
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.Delivery = New(ctx, Options{
		Ledger: s.ledger, Transport: s, Render: cdevents.Render, Filters: filters, Metrics: s, WorkersPerSource: 4, ProbeEvery: 20 * time.Millisecond,
		Leader: s,
	})
	s.ledger.UseDelivery(routed{s.Delivery, t})
	var wg sync.WaitGroup
	wg.Go(func() { s.ledger.Run(ctx, 2) })
	for _, src := range sources {
		s.UpdateSource(src)
	}
	t.Cleanup(func() { cancel(); s.Wait(); wg.Wait() })
	return s
}

// IsLeaderFor implements Leader.
func (s *stage) IsLeaderFor(types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leads
}

// Send implements Transport. It records accepted events, and answers as the test has set for
// the host of the sink.
func (s *stage) Send(ctx context.Context, to transport.Target, ev event.Event, _ transport.Policy) transport.Outcome {
	s.mu.Lock()
	host := strings.TrimPrefix(to.URL, "http://")
	answer := s.answers[host]
	s.mu.Unlock()
	out := accepted
	if answer != nil {
		out = answer()
	}
	if ctx.Err() != nil {
		return transport.Outcome{Class: transport.Retry, Err: ctx.Err()}
	}
	if out.Class == transport.Acknowledged {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.got = append(s.got, fmt.Sprintf("%s %s %s", host, ev.Subject(), strings.Split(ev.Type(), ".")[3]))
		if host == "letters" {
			s.letters = append(s.letters, ev)
		}
	}
	return out
}

func (s *stage) answer(host string, f func() transport.Outcome) {
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

func refuse(status int, class transport.Class) func() transport.Outcome {
	return func() transport.Outcome {
		return transport.Outcome{Class: class, Status: status, Err: fmt.Errorf("the sink answered %d", status)}
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

func ptr[T any](v T) *T { return &v }

// delivered records a delivery for a source.
func (s *stage) delivered(source types.UID) {
	s.Delivery.mu.Lock()
	q := s.queues[source]
	s.Delivery.mu.Unlock()
	q.setDelivered(time.Now())
}

// forget has the one entry forgotten, as an annotation asks for it.
func (s *stage) forget(t *testing.T) {
	t.Helper()
	before := s.store.All()[0]
	s.store.Annotate(before.Name, v1alpha1.ForgetAnnotation, "true")
	s.ledger.Observe(s.store.Peek(before.Name))
	s.eventually(t, "the entry is forgotten", func() bool { return !s.store.Has(before.Name) })
	s.ledger.Forget(before, true)
}

// lead makes the stage the leader.
func (s *stage) lead() {
	s.mu.Lock()
	s.leads = true
	s.mu.Unlock()
	s.Promoted(reconciler.UniversalBucket())
}
