// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/delivery"
	"github.com/knative-cdevents/knative-cdevents/emitter/follow"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/emitter/route"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

var cartKey = types.NamespacedName{Namespace: "shop", Name: "cart"}

// cart is a kind with one object, of which the caches hold nothing.
type cart struct{ observer.Kind }

func (cart) Keys() []types.NamespacedName               { return []types.NamespacedName{cartKey} }
func (cart) Cached(types.NamespacedName) observer.Parts { return nil }
func (cart) Name() string                               { return "Service" }
func (cart) APIVersion() string                         { return "serving.knative.dev/v1" }

// noQueue drops the keys that are added to it.
type noQueue struct{}

func (noQueue) EnqueueKey(types.NamespacedName)     {}
func (noQueue) EnqueueSlowKey(types.NamespacedName) {}

// only is the one source, and what the operator has set.
type only struct{ source *v1alpha1.CDEventSource }

func (o only) Of(string) []*v1alpha1.CDEventSource     { return []*v1alpha1.CDEventSource{o.source} }
func (o only) ByUID(types.UID) *v1alpha1.CDEventSource { return o.source }
func (only) ClusterURI() string                        { return "https://cluster" }
func (only) Environment() v1alpha1.Environment         { return v1alpha1.Environment{ID: "test"} }

// remembering is the part of a process that remembers: the ledger, and an observer.
type remembering struct {
	*emitting
	services *observer.Observer
}

func newRemembering(t *testing.T, source *v1alpha1.CDEventSource) (*remembering, *store.Store) {
	t.Helper()
	stopping, end := context.WithCancelCause(t.Context())
	e := &emitting{process: newProcess(stopping, end, nil)}
	metrics, err := delivery.NewInstruments()
	if err != nil {
		t.Fatal(err)
	}
	s := store.New()
	e.ledger = ledger.New(s, &route.Router{
		Sources: only{source}, SystemNamespace: "knative-cdevents", Settings: only{},
		Namespace: func(string) (map[string]string, bool, error) { return nil, true, nil },
	}, metrics)
	ob := e.registry.Observe(observer.Options{Kind: cart{}, Ledger: e.ledger, Now: time.Now, Restarter: e}, noQueue{})
	return &remembering{e, ob}, s
}

func (r *remembering) followed() follow.Subjects {
	return follow.Subjects{Ledger: r.ledger, Observers: r.registry, Restarter: r.emitting}
}

// After a restore, a process must not write what it remembers from before.
func TestNothingIsWrittenAfterAPIServerWentBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		happens func(e *remembering, entry *v1alpha1.CDEventSubject)
		undone  bool
	}{
		"an older version of an entry": {func(e *remembering, entry *v1alpha1.CDEventSubject) {
			was := entry.DeepCopy()
			was.ResourceVersion = "1" + was.ResourceVersion
			e.followed().OnUpdate(was, entry)
		}, true},
		"an older version of a Service": {func(e *remembering, _ *v1alpha1.CDEventSubject) {
			e.services.Replace("8", cartKey, observer.Part{Name: "service", Version: "7", Root: true})
		}, true},
		"the same version of an entry": {func(e *remembering, entry *v1alpha1.CDEventSubject) {
			e.followed().OnUpdate(entry, entry)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := &v1alpha1.CDEventSource{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "one", UID: "source"}}
			e, s := newRemembering(t, source)
			spec := v1alpha1.CDEventSubjectSpec{Kind: "Service", Namespace: cartKey.Namespace, Name: cartKey.Name, UID: "u1"}
			err := e.ledger.Journal(t.Context(), spec, func(*v1alpha1.CDEventSubject) (*ledger.Change, error) {
				return &ledger.Change{Memory: lifecycle.Memory{Sequence: 2}, Transitions: []lifecycle.Transition{
					{Sequence: 1, Time: time.Now(), Type: lifecycle.Created},
					{Sequence: 2, Time: time.Now(), Type: lifecycle.Deployed},
				}}, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			entry := s.Peek(ledger.Name(spec)).DeepCopy()
			sent := e.ledger.Pending(ledger.KeyOf(spec), source.UID)
			e.ledger.Acknowledge(sent[0], source.UID)
			c.happens(e, entry)
			e.ledger.Acknowledge(sent[1], source.UID)
			if got := errors.Is(context.Cause(e.stopping), errReverted); got != c.undone {
				t.Errorf("the process stops to start again: %v, want %v", got, c.undone)
			}
			ctx, stop := context.WithCancel(t.Context())
			stop()
			e.ledger.Run(ctx, 1) // writes pending acknowledgements before it returns
			if got := s.All()[0].Status.Acknowledged[source.UID]; (got == 0) != c.undone {
				t.Errorf("acknowledged up to %d in the ledger", got)
			}
		})
	}
}
