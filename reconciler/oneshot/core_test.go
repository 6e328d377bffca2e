// SPDX-License-Identifier: Apache-2.0

package oneshot_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ktesting "k8s.io/client-go/testing"
	eventingduckv1 "knative.dev/eventing/pkg/apis/duck/v1"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
	"knative.dev/serving/pkg/client/clientset/versioned/fake"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/oneshot"
	"github.com/knative-cdevents/knative-cdevents/reconciler/source"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
	"github.com/knative-cdevents/knative-cdevents/test/sink"
)

// cluster is a cluster in memory, with sinks. Each request is made by a new core.
type cluster struct {
	sink.Uncounted
	t       *testing.T
	serving *fake.Clientset
	store   *store.Store
	sources []*v1alpha1.CDEventSource
	rules   lifecycle.Rules
	now     time.Time
	slept   time.Duration
	// within is how long a request may take, and slow how long a sink takes.
	within, slow time.Duration
	// uninstalled says that the kinds of Serving are gone.
	uninstalled bool
	resolved    []string
	// random spreads retries.
	random func() float64

	mu sync.Mutex
	// answers are the statuses with which hosts answer; 202 if there is none.
	answers map[string]int
	got     []string
	dropped map[string]int64
}

func newCluster(t *testing.T, sources ...*v1alpha1.CDEventSource) *cluster {
	t.Helper()
	c := &cluster{
		t: t, serving: fake.NewSimpleClientset(), store: store.New(), sources: sources, rules: lifecycle.DefaultRules,
		now: time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC), answers: map[string]int{}, dropped: map[string]int64{},
	}
	c.store.Now = func() time.Time { return c.now }
	c.serving.PrependReactor("*", "*", func(ktesting.Action) (bool, runtime.Object, error) {
		if c.uninstalled {
			return true, nil, &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonNotFound, Code: 404}}
		}
		return false, nil, nil
	})
	_, err := ledger.Baselines{Client: store.Baselines{Store: c.store}}.Since(t.Context(), "services.serving.knative.dev")
	must(t, err)
	c.now = c.now.Add(time.Minute)
	return c
}

// Rules, ClusterURI and Environment implement oneshot.Settings.
func (c *cluster) Rules() lifecycle.Rules          { return c.rules }
func (*cluster) ClusterURI() string                { return "https://cluster.example" }
func (*cluster) Environment() v1alpha1.Environment { return v1alpha1.Environment{ID: "test"} }
func (c *cluster) Dropped(reason string, n int64)  { c.mu.Lock(); c.dropped[reason] += n; c.mu.Unlock() }
func (*cluster) Forget(types.UID)                  {}
func (c *cluster) answer(host string, status int) {
	c.mu.Lock()
	c.answers[host] = status
	c.mu.Unlock()
}
func (c *cluster) entry() *v1alpha1.CDEventSubject { return c.store.Peek("service-uid-cart") }
func (c *cluster) later(d time.Duration)           { c.now = c.now.Add(d) }
func (c *cluster) taken() (got []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	got, c.got = c.got, nil
	return got
}

func (c *cluster) Send(ctx context.Context, to transport.Target, ev event.Event, _ transport.Policy) transport.Outcome {
	c.mu.Lock()
	defer c.mu.Unlock()
	host := strings.TrimPrefix(to.URL, "http://")
	if status := c.answers[host]; status >= 300 {
		return transport.Outcome{Class: transport.Retry, Status: status, Err: fmt.Errorf("%s answered %d", host, status)}
	}
	time.Sleep(c.slow)
	if ctx.Err() != nil {
		return transport.Outcome{Class: transport.Retry, Err: ctx.Err()}
	}
	c.got = append(c.got, host+" "+strings.Split(ev.Type(), ".")[3])
	return transport.Outcome{Class: transport.Acknowledged, Status: 202}
}

func (c *cluster) core() *oneshot.Core {
	return oneshot.New(oneshot.Options{
		Serving: c.serving, Subjects: c.store, Baselines: ledger.Baselines{Client: store.Baselines{Store: c.store}},
		Sources: func(_ context.Context, ns string, _ metav1.ListOptions) (*v1alpha1.CDEventSourceList, error) {
			out := &v1alpha1.CDEventSourceList{}
			for _, s := range c.sources {
				if ns == "" || ns == s.Namespace {
					out.Items = append(out.Items, *s)
				}
			}
			return out, nil
		},
		Settings:  func(context.Context) (oneshot.Settings, error) { return c, nil },
		Namespace: func(context.Context, string) (map[string]string, bool, error) { return nil, true, nil },
		Installed: func(context.Context, ...string) (bool, error) { return !c.uninstalled, nil },
		Resolve: func(_ context.Context, s *v1alpha1.CDEventSource, all []*v1alpha1.CDEventSource, deliveries source.Deliveries) error {
			what := fmt.Sprintf("%s/%s of %d", s.Namespace, s.Name, len(all))
			if deliveries != nil {
				pending, oldest, last, trouble := deliveries.SourceStatus(s.UID)
				what += fmt.Sprintf(": %d pending, some %v, delivered %v, %s", pending, !oldest.IsZero(), !last.IsZero(), trouble)
			}
			c.resolved = append(c.resolved, what)
			return nil
		},
		Prepare: func(context.Context) error { return nil }, Transport: c, Metrics: c, SystemNamespace: controllerNamespace,
		Random: c.random, Within: c.within, Now: func() time.Time { return c.now },
		Sleep: func(_ context.Context, d time.Duration) error { c.now, c.slept = c.now.Add(d), c.slept+d; return nil },
	})
}

func (c *cluster) ask() oneshot.Outcome {
	c.t.Helper()
	out, err := c.core().Process(c.t.Context(), cart)
	must(c.t, err)
	return out
}

// deploy makes the cart with its first Revision, which has all traffic.
func (c *cluster) deploy() {
	c.t.Helper()
	svc := &servingv1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace: cart.Namespace, Name: cart.Name, UID: "uid-cart", Generation: 1, CreationTimestamp: metav1.NewTime(c.now),
	}}
	must(c.t, c.serving.Tracker().Add(svc))
	yes := true
	route := &servingv1.Route{ObjectMeta: metav1.ObjectMeta{
		Namespace: cart.Namespace, Name: cart.Name, OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "serving.knative.dev/v1", Kind: "Service", Name: cart.Name, UID: svc.UID, Controller: &yes,
		}},
	}}
	must(c.t, c.serving.Tracker().Add(route))
	world := shop{c.serving, c.t}
	world.route(svc, 1)
}

// trouble sets the condition RoutesReady of the cart.
func (c *cluster) trouble(is bool) {
	c.t.Helper()
	api := c.serving.ServingV1().Services(cart.Namespace)
	svc, err := api.Get(c.t.Context(), cart.Name, metav1.GetOptions{})
	must(c.t, err)
	svc.Status.Conditions = duckv1.Conditions{{Type: apis.ConditionReady, Status: corev1.ConditionTrue}}
	if is {
		svc.Status.Conditions = duckv1.Conditions{
			{Type: apis.ConditionReady, Status: corev1.ConditionFalse},
			{Type: servingv1.ServiceConditionRoutesReady, Status: corev1.ConditionFalse, Reason: "Uninitialized"},
		}
	}
	_, err = api.UpdateStatus(c.t.Context(), svc, metav1.UpdateOptions{})
	must(c.t, err)
}

func (c *cluster) resolves(want ...string) {
	c.t.Helper()
	if got := c.resolved; !slices.Equal(got, want) {
		c.t.Errorf("resolved %q, want %q", got, want)
	}
	c.resolved = nil
}

func sourceTo(host string) *v1alpha1.CDEventSource {
	s := &v1alpha1.CDEventSource{ObjectMeta: metav1.ObjectMeta{
		Namespace: cart.Namespace, Name: host, UID: types.UID("uid-" + host), Generation: 1,
	}}
	s.Status.ObservedGeneration, s.Status.SinkURI = 1, apis.HTTP(host)
	return s
}

func (c *cluster) wants(what string, want ...string) {
	c.t.Helper()
	if got := c.taken(); !slices.Equal(got, want) {
		c.t.Errorf("%s: received %q, want %q", what, got, want)
	}
}

// The retries of requests that know nothing of each other end at the dead letter sink.
func TestRetriesEndAtTheDeadLetterSink(t *testing.T) {
	from := sourceTo("sink")
	retry, delay := int32(3), "PT10S"
	from.Spec.Delivery = &eventingduckv1.DeliverySpec{
		Retry: &retry, BackoffDelay: &delay, DeadLetterSink: &duckv1.Destination{URI: apis.HTTP("letters")},
	}
	from.Status.DeadLetterSinkURI = apis.HTTP("letters")
	c := newCluster(t, from)
	c.answer("sink", 503)
	c.deploy()
	for tries := int64(1); tries <= 3; tries++ {
		out := c.ask()
		a := c.entry().Status.Attempts
		if len(a) != 1 || a[0].Tries != tries || !out.Wake.Equal(a[0].NotBefore.Truncate(time.Second)) {
			t.Fatalf("request %d leaves attempts %+v, to be asked again at %s", tries, a, out.Wake)
		}
		if again := c.ask(); again != out {
			t.Errorf("asked too early: %+v, want %+v", again, out)
		}
		c.now = a[0].NotBefore.Time
	}
	c.answer("sink", 202)
	c.answer("sink", 503)
	out := c.ask()
	c.wants("after all retries", "letters created")
	if a := c.entry().Status.Attempts; len(a) != 1 || a[0].Sequence != 2 || a[0].Tries != 1 || out.Wake.IsZero() {
		t.Errorf("the next event has attempts %+v, to be asked again at %s", a, out.Wake)
	}
}

// What is due within two seconds is waited for. What is due later is left to the next request, which an annotation asks
// for.
func TestShortWaitsAreWaitedFor(t *testing.T) {
	c := newCluster(t, sourceTo("sink"))
	c.rules.OutageAfter = 1500 * time.Millisecond
	c.deploy()
	c.ask()
	c.taken()
	c.trouble(true)
	c.ask()
	c.wants("an outage with a short limit", "sink detected")
	if c.slept < c.rules.OutageAfter || c.slept > 2*c.rules.OutageAfter {
		t.Errorf("waited for %s", c.slept)
	}
	c.trouble(false)
	c.ask()
	c.wants("it is over", "sink resolved")

	c.rules.OutageAfter = time.Minute
	c.slept = 0
	c.trouble(true)
	out := c.ask()
	if want := c.now.Add(time.Minute).Truncate(time.Second); !out.Wake.Equal(want) || c.slept > 0 {
		t.Errorf("to be asked again at %s, want %s; waited for %s", out.Wake, want, c.slept)
	}
	c.later(time.Minute)
	c.ask()
	c.wants("its limit", "sink detected")
}

// A source without an address, and one that hangs on its failures, keep no other from its events.
func TestSourcesAffectOnlyThemselves(t *testing.T) {
	unresolved := sourceTo("unresolved")
	unresolved.Status.SinkURI = nil
	c := newCluster(t, unresolved, sourceTo("down"), sourceTo("up"))
	c.answer("down", 503)
	c.deploy()
	out := c.ask()
	c.wants("one of three", "up created", "up ready", "up deployed", "up published")
	a := c.entry().Status.Attempts
	if len(a) != 2 || a[1].Source != unresolved.UID || a[1].Tries != 0 || a[0].Tries == 0 || out.Wake.IsZero() {
		t.Fatalf("attempts %+v, to be asked again at %s", a, out.Wake)
	}
	unresolved.Status.SinkURI = apis.HTTP("unresolved")
	c.ask() // long before its time
	c.wants("it has an address", "unresolved created", "unresolved ready", "unresolved deployed", "unresolved published")
}

// What is pending for a deleted source is given up at once, and counted.
func TestDeletedSourceIsAbandoned(t *testing.T) {
	down := sourceTo("down")
	c := newCluster(t, down, sourceTo("up"))
	c.answer("down", 503)
	c.deploy()
	c.ask()
	c.sources = c.sources[1:]
	must(t, c.core().Source(t.Context(), types.NamespacedName{Namespace: down.Namespace, Name: down.Name}))
	if got := c.entry().Status; len(got.Journal) > 0 || got.Dropped[v1alpha1.DroppedSourceRemoved] != 4 || c.dropped[v1alpha1.DroppedSourceRemoved] != 4 {
		t.Errorf("journal %+v, dropped %v, counted %v", got.Journal, got.Dropped, c.dropped)
	}
	if at := c.entry().Annotations[v1alpha1.WakeAnnotation]; at != "" {
		t.Errorf("to be asked again at %s", at)
	}
}

// A memory that cannot be read stops observing, and not what is pending.
func TestUnreadableMemoryStopsNoDelivery(t *testing.T) {
	c := newCluster(t, sourceTo("sink"))
	c.answer("sink", 503)
	c.deploy()
	c.ask()
	o := c.entry().DeepCopy()
	memory := o.Status.Memory
	o.Status.Memory = "{"
	_, err := c.store.Update(t.Context(), o, metav1.UpdateOptions{})
	must(t, err)
	c.answer("sink", 202)
	c.later(time.Hour)
	if _, err = c.core().Process(t.Context(), cart); err == nil || !strings.Contains(err.Error(), "the memory in CDEventSubject service-uid-cart") {
		t.Errorf("error: %v", err)
	}
	c.wants("pending before", "sink created", "sink ready", "sink deployed", "sink published")
	o = c.entry().DeepCopy()
	o.Status.Memory = memory
	_, err = c.store.Update(t.Context(), o, metav1.UpdateOptions{})
	must(t, err)
	c.ask()
	c.wants("restored")
}

// A sweep finds what nobody has asked for: a deleted Service, and all of them after Serving was uninstalled.
func TestSweep(t *testing.T) {
	c := newCluster(t, sourceTo("sink"))
	c.deploy()
	must(t, c.core().Sweep(t.Context()))
	c.wants("a new Service", "sink created", "sink ready", "sink deployed", "sink published")
	c.resolves("shop/sink of 1", "shop/sink of 1: 0 pending, some false, delivered true, ")
	c.answer("sink", 503)
	c.trouble(true)
	c.ask()
	c.later(time.Minute)
	must(t, c.core().Sweep(t.Context()))
	at := c.entry().Status.Attempts[0]
	c.resolves("shop/sink of 1", fmt.Sprintf("shop/sink of 1: 1 pending, some true, delivered false, the oldest pending event about Service "+
		"shop/cart was tried %d times; the next attempt is due at %s", at.Tries, at.NotBefore.UTC().Format(time.RFC3339)))
	c.answer("sink", 202)
	c.now = at.NotBefore.Time
	c.uninstalled = true
	must(t, c.core().Sweep(t.Context()))
	c.wants("Serving is uninstalled", "sink detected", "sink resolved", "sink removed")
	c.later(time.Hour)
	must(t, c.core().Sweep(t.Context()))
	if n := len(c.store.Names()); n > 0 {
		t.Errorf("%d entries are left", n)
	}
}

// While the API server starts, it does not know the kinds of Serving. That says nothing about a Service.
func TestKindsThatAreNotServedYet(t *testing.T) {
	c := newCluster(t, sourceTo("sink"))
	c.deploy()
	c.ask()
	c.taken()
	unserved := true
	c.serving.PrependReactor("*", "*", func(ktesting.Action) (bool, runtime.Object, error) {
		return unserved, nil, &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonNotFound, Code: 404}}
	})
	if _, err := c.core().Process(t.Context(), cart); err == nil {
		t.Error("a request that could read nothing was answered")
	}
	unserved = false
	c.ask()
	c.wants("nothing has happened")
}

// A request whose time is over keeps what it has sent.
func TestSlowSinkComesToAnEnd(t *testing.T) {
	c := newCluster(t, sourceTo("sink"))
	c.within, c.slow = 75*time.Millisecond, 50*time.Millisecond
	c.deploy()
	requests, err := 1, errors.New("not asked yet")
	for ; err != nil && requests < 10; requests++ {
		_, err = c.core().Process(t.Context(), cart)
	}
	got := c.taken()
	if requests < 3 || requests > 5 || len(c.entry().Status.Journal) > 0 || len(got) != 4 {
		t.Errorf("after %d requests, received %q, and pending are %+v", requests, got, c.entry().Status.Journal)
	}
}

// An entry that is to be forgotten is, when somebody asks about its Service.
func TestForgetAnnotation(t *testing.T) {
	c := newCluster(t, sourceTo("sink"))
	c.deploy()
	c.ask()
	c.taken()
	before := c.entry().UID
	c.store.Annotate(c.entry().Name, v1alpha1.ForgetAnnotation, "true")
	c.ask()
	c.ask()
	c.wants("announced anew", "sink created", "sink ready", "sink deployed", "sink published")
	if c.entry().UID == before {
		t.Error("it is the same entry")
	}
}

// A request that cannot read, or write, or prepare, promises nothing.
func TestErrorsPromiseNothing(t *testing.T) {
	gone := errors.New("away")
	for name, breaks := range map[string]func(c *cluster) func(){
		"reading": func(c *cluster) func() {
			fails := true
			c.serving.PrependReactor("list", "revisions", func(ktesting.Action) (bool, runtime.Object, error) { return fails, nil, gone })
			return func() { fails = false }
		},
		"listing entries": func(c *cluster) func() {
			c.store.Before = func(verb, _ string) error {
				if verb == "list" {
					return gone
				}
				return nil
			}
			return func() { c.store.Before = nil }
		},
		"journaling": func(c *cluster) func() {
			c.store.Before = func(verb, _ string) error {
				if verb == "create" {
					return apierrors.NewForbidden(schema.GroupResource{}, "x", gone)
				}
				return nil
			}
			return func() { c.store.Before = nil }
		},
		"acknowledging": func(c *cluster) func() {
			c.store.Before = func(verb, _ string) error {
				if verb == "update" {
					return gone
				}
				return nil
			}
			return func() { c.store.Before = nil }
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, sourceTo("sink"))
			c.deploy()
			repair := breaks(c)
			if _, err := c.core().Process(t.Context(), cart); err == nil {
				t.Error("answered")
			}
			repair()
			c.ask()
			all := c.taken()
			for _, once := range []string{"sink created", "sink ready", "sink deployed", "sink published"} {
				if !slices.Contains(all, once) {
					t.Errorf("%q was not sent: %q", once, all)
				}
			}
		})
	}
}
