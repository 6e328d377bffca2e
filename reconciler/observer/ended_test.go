// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/reconciler"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/journal"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// leader starts an observer that leads, from what the ledger has. The API server says that live is the present
// object. The function reconciles the object once.
func leader(t *testing.T, entries *store.Store, live types.UID) (o *Observer, fold func()) {
	t.Helper()
	router := &asked{}
	l, kind := ledger.New(entries, router, router), &plain{live: live, created: time.Unix(0, 0)}
	for _, o := range entries.All() {
		l.Observe(o)
	}
	o = New(Options{
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
		err := o.Reconcile(t.Context(), cart.String())
		if again, _ := controller.IsRequeueKey(err); err != nil && !again {
			t.Fatal(err)
		}
	}
}

// A former leader that does not know yet that it lost the lead still has an unsaved memory of
// an object. It must not bring the object back after the next leader announced its removal.
func TestRemovedObjectStaysRemoved(t *testing.T) {
	entries := store.New()
	old, fold := leader(t, entries, "uid-x")
	see := func(version string, s lifecycle.Snapshot) {
		old.Update(cart, Part{Name: "service", Version: version, Root: true, Owner: "uid-x", Value: s})
		fold()
	}
	see("1", lifecycle.Snapshot{})
	see("2", lifecycle.Snapshot{Generation: 2}) // not saved
	if len(old.tracks[cart].unsaved) != 1 {
		t.Fatal("the memory was saved")
	}
	_, journalEnds := leader(t, entries, "")
	journalEnds()
	see("3", lifecycle.Snapshot{
		Ready: true, Revisions: map[string]*lifecycle.Revision{"cart-1": {Name: "cart-1", Ready: true}},
		Route: &lifecycle.Route{Effective: true, Traffic: []lifecycle.Share{{Revision: "cart-1", Percent: 100}}},
	})
	for _, o := range entries.All() {
		if !o.Status.Removed {
			t.Error("the former leader brought a removed object back")
		}
	}
}

// A list from a cache that lags shows an object that was replaced before anything was told of it. Events tell already
// of the object that has its name now, so nothing is told of it any more.
func TestNothingIsToldOfAnObjectAfterTheOneThatReplacedIt(t *testing.T) {
	entries := store.New()
	first, fold := leader(t, entries, "new")
	first.Update(cart, Part{Name: "service", Version: "5", Root: true, Owner: "new", Value: lifecycle.Snapshot{}})
	fold()
	second, fold := leader(t, entries, "new")
	for _, p := range []Part{
		{Version: "3", Owner: "old", Value: lifecycle.Snapshot{}},
		{Version: "4", Owner: "old"},
		{Version: "5", Owner: "new", Value: lifecycle.Snapshot{}},
		{Version: "6", Owner: "new", Value: lifecycle.Snapshot{Generation: 2}},
	} {
		p.Name, p.Root = "service", true
		second.Update(cart, p)
		fold()
	}
	for _, o := range entries.All() {
		if o.Spec.UID != "new" || o.Status.Removed {
			t.Errorf("journaled %s, removed: %v", o.Spec.UID, o.Status.Removed)
		}
	}
	if n := len(entries.All()); n != 1 {
		t.Errorf("the ledger has %d entries, want that of the object that is there", n)
	}
}

// While the end of an object waits, another one of its name comes and goes. It is announced when its turn comes, even
// if it is long gone by then, and the ledger could have forgotten it otherwise.
func TestObjectThatWaitsForTheEndOfAnotherIsAnnounced(t *testing.T) {
	now := time.Unix(10_000, 0)
	entries, record, kind := store.New(), &journal.Record{}, &plain{live: "one", created: now, remains: true}
	entries.Now = func() time.Time { return now }
	l := ledger.New(entries, record, record)
	o := leading(t, kind, l, func() time.Time { return now })
	version := 0
	see := func(live, uid types.UID, value any) {
		t.Helper()
		version++
		kind.live = live
		o.Update(cart, Part{Name: "service", Version: fmt.Sprint(version), Root: true, Owner: uid, Value: value})
		if _, err := o.Fold(t.Context(), cart); err != nil {
			t.Fatal(err)
		}
	}
	see("one", "one", lifecycle.Snapshot{})
	now = now.Add(time.Minute)
	see("", "one", nil)
	now = now.Add(time.Minute)
	kind.created = now
	see("two", "two", lifecycle.Snapshot{})
	now = now.Add(10 * time.Minute)
	see("", "two", nil)
	now = now.Add(10 * time.Minute)
	if got := record.Of("Service/cart"); len(got) != 1 {
		t.Fatalf("%v are announced before the end", got)
	}
	kind.remains = false
	entries.Before = func(verb, _ string) error { // the API server fails between the end and what waits for it
		if verb != "create" {
			return nil
		}
		entries.Before = nil
		return errors.New("not now")
	}
	for range 2 {
		_, _ = o.Fold(t.Context(), cart) // the first one fails
	}
	if n := len(entries.All()); n != 2 {
		t.Errorf("the ledger has %d entries, want one of each object", n)
	}
	for _, entry := range entries.All() {
		if !entry.Status.Removed || entry.Status.Sequence != 1 {
			t.Errorf("%s has %d transitions, removed: %v", entry.Spec.UID, entry.Status.Sequence, entry.Status.Removed)
		}
	}
	if o.tracks[cart].behind != nil {
		t.Error("what is decided is kept")
	}
}

// An end does not wait until the ledger has room for the next object of the name: it is what makes the room.
func TestEndNeedsNoRoomInTheLedger(t *testing.T) {
	now := time.Unix(10_000, 0)
	entries, record, kind := store.New(), &journal.Record{}, &plain{live: "one", created: now}
	entries.Now = func() time.Time { return now }
	o := leading(t, kind, ledger.New(entries, record, record), func() time.Time { return now })
	fold := func(version string, uid types.UID) error {
		t.Helper()
		now = now.Add(time.Minute)
		kind.live = uid
		o.Update(cart, Part{Name: "service", Version: version, Root: true, Owner: uid, Value: lifecycle.Snapshot{}})
		_, err := o.Fold(t.Context(), cart)
		return err
	}
	if err := fold("1", "one"); err != nil {
		t.Fatal(err)
	}
	entries.Before = func(verb, name string) error {
		if verb == "update" {
			return nil
		}
		return apierrors.NewForbidden(v1alpha1.SubjectResource.GroupResource(), name, errors.New("exceeded quota"))
	}
	kind.created = now.Add(30 * time.Second)
	if err := fold("2", "two"); !apierrors.IsForbidden(err) {
		t.Errorf("%v, want that there is no room", err)
	}
	if all := entries.All(); len(all) != 1 || !all[0].Status.Removed {
		t.Errorf("the end is not journaled: %+v", all)
	}
	entries.Before = nil
	if _, err := o.Fold(t.Context(), cart); err != nil || len(entries.All()) != 2 {
		t.Errorf("%d entries (%v), want one of each object", len(entries.All()), err)
	}
}
