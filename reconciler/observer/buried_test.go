package observer

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/reconciler"

	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// A former leader that does not know yet that it lost the lead still has an unsaved memory of
// an object. It must not bring the object back after the next leader announced its removal.
func TestRemovedObjectStaysRemoved(t *testing.T) {
	ctx, entries, router := t.Context(), store.New(), &asked{}
	key := types.NamespacedName{Namespace: "shop", Name: "cart"}
	leader := func(live types.UID) (*Observer, func()) {
		l, kind := ledger.New(entries, router, router), &plain{live: live, created: time.Unix(0, 0)}
		for _, o := range entries.All() {
			l.Observe(o)
		}
		o := New(Options{
			Kind: kind, Ledger: l, Now: time.Now,
			Since: func(context.Context) (time.Time, error) { return time.Unix(-1, 0), nil },
		})
		o.Bind(kind)
		if err := o.Promote(reconciler.UniversalBucket(), func(reconciler.Bucket, types.NamespacedName) {}); err != nil {
			t.Fatal(err)
		}
		o.Start()
		return o, func() {
			t.Helper()
			err := o.Reconcile(ctx, key.String())
			if again, _ := controller.IsRequeueKey(err); err != nil && !again {
				t.Fatal(err)
			}
		}
	}
	old, fold := leader("uid-x")
	see := func(version string, s lifecycle.Snapshot) {
		old.Saw(key, Part{Name: "service", Version: version, Root: true, Owner: "uid-x", Value: s})
		fold()
	}
	see("1", lifecycle.Snapshot{})
	see("2", lifecycle.Snapshot{Generation: 2}) // not saved
	if len(old.tracks[key].unsaved) != 1 {
		t.Fatal("the memory was saved")
	}
	_, bury := leader("")
	bury()
	see("3", lifecycle.Snapshot{
		Ready: true, Revisions: map[string]lifecycle.Revision{"cart-1": {Name: "cart-1", Ready: true}},
		Route: &lifecycle.Route{Effective: true, Traffic: []lifecycle.Share{{Revision: "cart-1", Percent: 100}}},
	})
	for _, o := range entries.All() {
		if !o.Status.Removed {
			t.Error("the former leader brought a removed object back")
		}
	}
}
