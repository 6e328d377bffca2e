package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
	"github.com/knative-cdevents/knative-cdevents/emitter/delivery"
	"github.com/knative-cdevents/knative-cdevents/emitter/delivery/sender"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
	"github.com/knative-cdevents/knative-cdevents/reconciler/service"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

var cartKey = types.NamespacedName{Namespace: "shop", Name: "cart"}

// fakeKind is a kind with one object.
type fakeKind struct{ observer.Kind }

func (fakeKind) Keys() []types.NamespacedName { return []types.NamespacedName{cartKey} }

func (fakeKind) Cached(types.NamespacedName) observer.Parts { return nil }

// Name implements observer.Kind.
func (fakeKind) Name() string { return "Service" }

// APIVersion implements observer.Kind.
func (fakeKind) APIVersion() string { return "serving.knative.dev/v1" }

// looks counts how often a key is to be looked at.
type looks struct{ atomic.Int64 }

func (q *looks) EnqueueKey(types.NamespacedName)     { q.Add(1) }
func (q *looks) EnqueueSlowKey(types.NamespacedName) { q.Add(1) }

// silentSender is never sent with: these processes lead for nothing.
type silentSender struct{ delivery.Transport }

func (silentSender) Forget(types.UID) {}

var _ delivery.Transport = silentSender{Transport: (*sender.Clients)(nil)}

// following is what sends, without informers that run.
func following(t *testing.T) (e *emitting, s *store.Store, again *looks) {
	t.Helper()
	stopping, end := context.WithCancelCause(t.Context())
	e = &emitting{process: newProcess(stopping, end, nil)}
	ours, err := client.New(&rest.Config{Host: "https://nowhere.invalid"})
	if err != nil {
		t.Fatal(err)
	}
	if e.metrics, err = delivery.NewInstruments(); err != nil {
		t.Fatal(err)
	}
	e.sources = client.NewSourceInformer(ours, metav1.NamespaceAll, 0, nil)
	e.filters = delivery.NewFilters()
	e.router = &delivery.Router{
		Sources: e.allSources, Namespace: func(string) (map[string]string, bool, error) { return nil, true, nil }, SystemNamespace: "knative-cdevents",
		Cluster: func() string { return "https://cluster" }, Environment: func() v1alpha1.Environment { return v1alpha1.Environment{ID: "test"} },
	}
	s = store.New()
	e.ledger = ledger.New(s, e.router, e.metrics)
	e.delivery = delivery.New(t.Context(), delivery.Options{Ledger: e.ledger, Transports: delivery.HTTP(silentSender{}), Metrics: e.metrics, Leads: e.isLeaderFor})
	t.Cleanup(e.delivery.Wait)
	again = &looks{}
	ob := observer.New(observer.Options{Kind: fakeKind{}, Ledger: e.ledger, Now: time.Now, Reverted: e.reverted})
	ob.Bind(again)
	e.services.Store(&service.Watch{Observer: ob})
	return e, s, again
}

func aged(namespace string, age int) *v1alpha1.CDEventSource {
	name := fmt.Sprintf("s%02d", age)
	return &v1alpha1.CDEventSource{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(namespace + name), Generation: 1,
		CreationTimestamp: metav1.NewTime(time.Unix(1.8e9, 0).Add(-time.Duration(age) * time.Hour)),
	}}
}

// A source that was one too many wants the present state as soon as there is room.
func TestARoomThatBecomesFreeIsNoticed(t *testing.T) {
	t.Parallel()
	surplus := aged("shop", 0)
	for name, c := range map[string]struct {
		namespace string
		others    int // older than the surplus one
		gone      *v1alpha1.CDEventSource
		replay    v1alpha1.Replay
		want      bool
	}{
		"an older one goes":                    {"shop", delivery.MaxSources, aged("shop", 5), v1alpha1.ReplayCurrent, true},
		"it wants no present state":            {"shop", delivery.MaxSources, aged("shop", 5), v1alpha1.ReplayNone, false},
		"there was room":                       {"shop", delivery.MaxSources - 1, aged("shop", 5), v1alpha1.ReplayCurrent, false},
		"there are too many still":             {"shop", delivery.MaxSources + 1, aged("shop", 5), v1alpha1.ReplayCurrent, false},
		"one of another namespace goes":        {"shop", delivery.MaxSources, aged("other", 5), v1alpha1.ReplayCurrent, false},
		"the surplus one goes":                 {"shop", delivery.MaxSources, surplus, v1alpha1.ReplayCurrent, false},
		"the operator's namespace is no bound": {"knative-cdevents", delivery.MaxSources, aged("knative-cdevents", 5), v1alpha1.ReplayCurrent, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, _, again := following(t)
			youngest := aged(c.namespace, 0)
			youngest.Spec.Replay = c.replay
			index := e.sources.GetIndexer()
			for _, s := range append([]*v1alpha1.CDEventSource{youngest}, older(c.namespace, c.others)...) {
				if s.UID == c.gone.UID {
					c.gone = s
				}
				if err := index.Add(s); err != nil {
					t.Fatal(err)
				}
			}
			h := e.sourcesFollowed()
			marked := c.gone.DeepCopy()
			marked.DeletionTimestamp, marked.Generation = &metav1.Time{Time: time.Now()}, c.gone.Generation+1
			for how, tell := range map[string]func(){
				"marked":  func() { h.OnUpdate(c.gone, marked) },
				"gone":    func() { h.OnDelete(c.gone) },
				"noticed": func() { h.OnDelete(cache.DeletedFinalStateUnknown{Obj: c.gone}) },
			} {
				again.Store(0)
				_ = index.Delete(c.gone) // as the informer does before it tells
				if how == "marked" && c.gone.Namespace == c.namespace {
					_ = index.Add(marked)
				}
				if tell(); (again.Load() > 0) != c.want {
					t.Errorf("%s: looked again %d times, want %v", how, again.Load(), c.want)
				}
				_ = index.Delete(marked)
			}
		})
	}
}

func older(namespace string, n int) []*v1alpha1.CDEventSource {
	var out []*v1alpha1.CDEventSource
	for i := range n {
		out = append(out, aged(namespace, i+1))
	}
	return out
}
