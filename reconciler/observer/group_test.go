// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/reconciler"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// enqueued is a work queue that keeps its keys.
type enqueued struct{ keys []types.NamespacedName }

func (q *enqueued) EnqueueKey(key types.NamespacedName)     { q.keys = append(q.keys, key) }
func (q *enqueued) EnqueueSlowKey(key types.NamespacedName) { q.keys = append(q.keys, key) }

func TestOtherGroupsObjectsAreNotReconciled(t *testing.T) {
	router := &asked{}
	l := ledger.New(store.New(), router, router)
	own := v1alpha1.CDEventSubjectSpec{APIVersion: "v1", Kind: "Service", Namespace: "shop", Name: "own", UID: "uid-own"}
	other := v1alpha1.CDEventSubjectSpec{
		APIVersion: "example.com/v1", Kind: "Service", Namespace: "shop", Name: "other",
		UID: "uid-other",
	}
	for _, spec := range []v1alpha1.CDEventSubjectSpec{own, other} {
		if err := l.Journal(t.Context(), spec, func(*v1alpha1.CDEventSubject) (*ledger.Change, error) {
			return &ledger.Change{Memory: lifecycle.Memory{}}, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	queue := &enqueued{}
	o := New(Options{
		Kind: &plain{}, Ledger: l, Now: time.Now,
		Since: func(context.Context) (time.Time, error) { return time.Time{}, nil },
	})
	o.Bind(queue)
	if err := o.Promote(reconciler.UniversalBucket(), func(reconciler.Bucket, types.NamespacedName) {}); err != nil {
		t.Fatal(err)
	}
	o.Notify(ledger.KeyOf(own))
	o.Notify(ledger.KeyOf(other))
	want := types.NamespacedName{Namespace: "shop", Name: "own"}
	if !slices.Equal(queue.keys, []types.NamespacedName{want, want}) {
		t.Errorf("reconciled %v, want only %v, once for the lead and once for the write", queue.keys, want)
	}
}
