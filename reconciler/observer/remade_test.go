// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/controller"

	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// An object that is created and deleted again and again must not use more and more memory,
// even while the ledger still has entries for the latest ones.
func TestNameRecreatedTenThousandTimes(t *testing.T) {
	ctx, entries, router, kind := t.Context(), store.New(), &asked{},
		&plain{created: time.Unix(2, 0), rules: lifecycle.DefaultRules}
	l := ledger.New(entries, router, router)
	now := time.Unix(10, 0)
	o := leading(t, kind, l, func() time.Time { return now })
	key, version := types.NamespacedName{Namespace: "shop", Name: "cart"}, 0
	see := func(uid types.UID, value any) {
		t.Helper()
		version++
		o.Update(key, Part{Name: "service", Version: fmt.Sprint(version), Root: true, Owner: uid, Value: value})
		err := o.Reconcile(ctx, key.String())
		if again, _ := controller.IsRequeueKey(err); err != nil && !again && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	// collect deletes the entries without pending events, as the informer would report.
	collect := func() {
		had := entries.All()
		for _, at := range []time.Time{now, now.Add(time.Hour)} {
			if err := l.Collect(ctx, at, time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		for _, o := range had {
			l.Forget(o, true)
		}
	}
	for i := range 10_000 {
		now = now.Add(time.Second)
		kind.live = types.UID(fmt.Sprintf("uid-%d", i))
		uid := kind.live
		see(uid, lifecycle.Snapshot{Ready: true})
		see(uid, lifecycle.Snapshot{Ready: true, Generation: 2}) // not saved
		see(uid, lifecycle.Snapshot{
			Generation: 3,
			Trouble:    map[lifecycle.Incident]*lifecycle.Trouble{lifecycle.FailedRollout: {}},
		})
		o.Update(key, Part{
			Name: lifecycle.ObjectVerdicts, Version: fmt.Sprint(version), Owner: uid, Value: i,
			Volatile: true,
		})
		kind.live = ""
		see(uid, nil)
		tr := o.tracks[key]
		if tr == nil {
			t.Fatal("the track is gone, although the ledger has an entry")
		}
		if n := max(len(tr.past), len(tr.unsaved), len(tr.waiting), len(tr.base), len(tr.updates)); n > maxPast {
			t.Fatalf("after %d objects: past %d, unsaved %d, waiting %d, base %d, updates %d", i+1, len(tr.past),
				len(tr.unsaved), len(tr.waiting), len(tr.base), len(tr.updates))
		}
		if i%8 == 7 {
			collect()
		}
	}
	collect()
	if _ = o.Reconcile(ctx, key.String()); len(o.tracks) > 0 {
		t.Errorf("the track was not deleted: %+v", o.tracks[key])
	}
}
