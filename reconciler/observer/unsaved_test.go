// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/reconciler"

	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// A part of a deleted object splits the history into several folds. A memory that an earlier
// fold did not save still counts for the later ones.
func TestUnsavedMemoryCountsInTheSameFold(t *testing.T) {
	ctx, entries, router, kind := t.Context(), store.New(), &asked{}, &plain{live: "uid-x", created: time.Unix(0, 0)}
	now := time.Unix(10, 0)
	o := New(Options{
		Kind: kind, Ledger: ledger.New(entries, router, router), Now: func() time.Time { return now },
		Since: func(context.Context) (time.Time, error) { return time.Unix(-1, 0), nil },
	})
	o.Bind(kind)
	if err := o.Promote(reconciler.UniversalBucket(), func(reconciler.Bucket, types.NamespacedName) {}); err != nil {
		t.Fatal(err)
	}
	o.Start()
	key := types.NamespacedName{Namespace: "shop", Name: "cart"}
	revisions := map[string]*lifecycle.Revision{
		"cart-1": {Name: "cart-1", Generation: 1, Ready: true},
		"cart-2": {Name: "cart-2", Generation: 2, Ready: true},
	}
	see := func(version string, ready bool, split ...lifecycle.Share) {
		o.Update(key, Part{Name: "service", Version: version, Root: true, Owner: "uid-x", Value: lifecycle.Snapshot{
			Ready: ready, Revisions: revisions, Route: &lifecycle.Route{Effective: true, Traffic: split},
		}})
	}
	stray := func(version string) {
		o.Update(key, Part{
			Name: lifecycle.ObjectVerdicts, Version: version, Owner: "uid-of-one-before", Value: version,
			Volatile: true,
		})
	}
	fold := func() {
		t.Helper()
		err := o.Reconcile(ctx, key.String())
		if again, _ := controller.IsRequeueKey(err); err != nil && !again {
			t.Fatal(err)
		}
		now = now.Add(2 * holdFor)
	}
	see("1", false, lifecycle.Share{Revision: "cart-1", Percent: 100})
	fold()
	stray("1")
	see("2", false, lifecycle.Share{Revision: "cart-2", Percent: 100})
	halves := []lifecycle.Share{{Revision: "cart-1", Percent: 50}, {Revision: "cart-2", Percent: 50}}
	see("3", false, halves...)
	stray("2")
	see("4", true, halves...)
	for range 6 {
		fold()
	}
	known := o.Ledger.Subjects(o.ledgerKey(key))
	if len(known) != 1 {
		t.Fatalf("%d entries", len(known))
	}
	for _, entry := range known {
		var m lifecycle.Memory
		if err := json.Unmarshal([]byte(entry.Status.Memory), &m); err != nil || !m.Deployed || m.Primary != "cart-2" {
			t.Errorf("deployed %v, primary %q; want cart-2, which last had all traffic (%v)", m.Deployed, m.Primary, err)
		}
	}
}
