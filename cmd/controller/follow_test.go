// SPDX-License-Identifier: Apache-2.0

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
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/emitter/route"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
	httptransport "github.com/knative-cdevents/knative-cdevents/emitter/transport/http"
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

// enqueued is a work queue that counts added keys.
type enqueued struct{ atomic.Int64 }

func (q *enqueued) EnqueueKey(types.NamespacedName)     { q.Add(1) }
func (q *enqueued) EnqueueSlowKey(types.NamespacedName) { q.Add(1) }

// silentSender never sends, because these processes lead no key.
type silentSender struct{ transport.Transport }

func (silentSender) Forget(types.UID) {}

var _ transport.Transport = silentSender{Transport: (*httptransport.Clients)(nil)}

// following returns the emitting part of a process, without running informers.
func following(t *testing.T) (e *emitting, s *store.Store, queue *enqueued) {
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
	e.filters = route.NewFilters()
	e.router = &route.Router{
		Sources: e.sourcesOf, Source: e.sourceByUID, Namespace: func(string) (map[string]string, bool, error) { return nil, true, nil }, SystemNamespace: "knative-cdevents",
		Cluster: func() string { return "https://cluster" }, Environment: func() v1alpha1.Environment { return v1alpha1.Environment{ID: "test"} },
	}
	s = store.New()
	e.ledger = ledger.New(s, e.router, e.metrics)
	e.delivery = delivery.New(t.Context(), delivery.Options{Ledger: e.ledger, Transport: silentSender{}, Metrics: e.metrics, Leads: e.isLeaderFor})
	t.Cleanup(e.delivery.Wait)
	queue = &enqueued{}
	ob := observer.New(observer.Options{Kind: fakeKind{}, Ledger: e.ledger, Now: time.Now, Reverted: e.reverted})
	ob.Bind(queue)
	e.services.Store(&service.Watch{Observer: ob})
	return e, s, queue
}

func aged(namespace string, age int) *v1alpha1.CDEventSource {
	name := fmt.Sprintf("s%02d", age)
	return &v1alpha1.CDEventSource{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(namespace + name), Generation: 1,
		CreationTimestamp: metav1.NewTime(time.Unix(1.8e9, 0).Add(-time.Duration(age) * time.Hour)),
	}}
}

// A source above the limit receives its replay as soon as an older source is deleted.
func TestFreedPlaceReconciles(t *testing.T) {
	t.Parallel()
	surplus := aged("shop", 0)
	for name, c := range map[string]struct {
		namespace string
		others    int // number of older sources
		gone      *v1alpha1.CDEventSource
		replay    v1alpha1.Replay
		want      bool
	}{
		"an older source is deleted":    {"shop", route.MaxSources, aged("shop", 5), v1alpha1.ReplayCurrent, true},
		"no replay":                     {"shop", route.MaxSources, aged("shop", 5), v1alpha1.ReplayNone, false},
		"below the limit":               {"shop", route.MaxSources - 1, aged("shop", 5), v1alpha1.ReplayCurrent, false},
		"still above the limit":         {"shop", route.MaxSources + 1, aged("shop", 5), v1alpha1.ReplayCurrent, false},
		"deleted in another namespace":  {"shop", route.MaxSources, aged("other", 5), v1alpha1.ReplayCurrent, false},
		"the source itself is deleted":  {"shop", route.MaxSources, surplus, v1alpha1.ReplayCurrent, false},
		"system namespace has no limit": {"knative-cdevents", route.MaxSources, aged("knative-cdevents", 5), v1alpha1.ReplayCurrent, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, _, queue := following(t)
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
			for how, notify := range map[string]func(){
				"deletion timestamp": func() { h.OnUpdate(c.gone, marked) },
				"deleted":            func() { h.OnDelete(c.gone) },
				"tombstone":          func() { h.OnDelete(cache.DeletedFinalStateUnknown{Obj: c.gone}) },
			} {
				queue.Store(0)
				_ = index.Delete(c.gone) // the informer updates its cache before it calls handlers
				if how == "deletion timestamp" && c.gone.Namespace == c.namespace {
					_ = index.Add(marked)
				}
				if notify(); (queue.Load() > 0) != c.want {
					t.Errorf("%s: %d keys enqueued, want any: %v", how, queue.Load(), c.want)
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
