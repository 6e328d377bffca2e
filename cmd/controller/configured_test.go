// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/logging"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
)

// slow is a work queue that keeps the keys that are not urgent.
type slow struct {
	noQueue
	keys []types.NamespacedName
}

func (q *slow) EnqueueSlowKey(key types.NamespacedName) { q.keys = append(q.keys, key) }

// compared counts how often the kinds of environments are compared with those that are chosen.
type compared int

func (c *compared) Compare() { *c++ }

// A new limit counts for all objects at once, of whichever kind. One that was "0s" has no time at which it ends.
func TestChangedSettingsReachAllObjects(t *testing.T) {
	t.Parallel()
	e, _ := newRemembering(t, &v1alpha1.CDEventSource{})
	kinds, queue := compared(0), &slow{}
	e.chooses = &kinds
	e.sources = cache.NewSharedIndexInformer(&cache.ListWatch{}, &v1alpha1.CDEventSource{}, 0, cache.Indexers{})
	e.statuses = controller.NewContext(t.Context(), nil, controller.ControllerOptions{
		WorkQueueName: "sources", Logger: logging.FromContext(t.Context()),
	})
	e.registry.Observe(observer.Options{Kind: cart{}, Ledger: e.ledger, Now: time.Now}, queue)
	e.configured()
	if kinds != 1 || !slices.Equal(queue.keys, []types.NamespacedName{cartKey}) {
		t.Errorf("compared %d times, and %v are folded again, want %v", kinds, queue.keys, cartKey)
	}
}
