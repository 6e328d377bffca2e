// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/reconciler"

	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
	"github.com/knative-cdevents/knative-cdevents/test/journal"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// updated is called with each part.
type updated func(observer.Part)

func (f updated) Update(_ types.NamespacedName, p observer.Part) { f(p) }

func TestVerdictsArePartOfTheirService(t *testing.T) {
	t.Parallel()
	key := types.NamespacedName{Namespace: "shop", Name: "cart"}
	var last observer.Part
	v := NewVerdicts(updated(func(p observer.Part) { last = p }))
	held := func() []lifecycle.Verdict {
		all, _ := last.Value.([]lifecycle.Verdict) // nil if there are none
		return all
	}

	v.Reached(key, "u1", lifecycle.Verdict{Run: "a"})
	v.Reached(key, "u1", lifecycle.Verdict{Run: "a"})
	before := held()
	v.Reached(key, "u1", lifecycle.Verdict{Run: "b"})
	if len(before) != 1 || len(held()) != 2 || !last.Volatile || last.Owner != "u1" {
		t.Errorf("%d, then %+v", len(before), last)
	}
	for i := range 2 * maxVerdicts {
		v.Reached(key, "u1", lifecycle.Verdict{Run: fmt.Sprint(i)})
	}
	if len(held()) != maxVerdicts {
		t.Errorf("%d verdicts are held, want %d", len(held()), maxVerdicts)
	}
	// A new Service of the same name starts without verdicts.
	v.Reached(key, "u2", lifecycle.Verdict{Run: "c"})
	if len(held()) != 1 || last.Owner != "u2" {
		t.Errorf("%+v", last)
	}
}

// Verdicts are held only for Services that were judged recently.
func TestOldVerdictsAreDropped(t *testing.T) {
	t.Parallel()
	now, reported := time.Unix(0, 0), 0
	v := NewVerdicts(updated(func(observer.Part) { reported++ }))
	v.now = func() time.Time { return now }
	for i := range 10_000 {
		now = now.Add(time.Second)
		key := types.NamespacedName{Namespace: "shop", Name: fmt.Sprintf("pull-%d", i)}
		v.Reached(key, types.UID(key.Name), lifecycle.Verdict{Run: fmt.Sprint(i)})
		if most := int(holdVerdicts/time.Second) + 1; len(v.held) > most {
			t.Fatalf("after %d verdicts, those of %d Services are held", i+1, len(v.held))
		}
	}
	if reported != 10_000 {
		t.Errorf("reported %d verdicts, want 10000", reported)
	}
}

// answering is the kind, with an API server that has a Service of this UID, or none.
type answering struct {
	*Kind
	live types.UID
}

func (a *answering) Live(context.Context, types.NamespacedName) (types.UID, error) {
	return a.live, nil
}

func (*answering) Rules() lifecycle.Rules { return lifecycle.DefaultRules }

// idle is a work queue without workers.
type idle struct{}

func (idle) EnqueueKey(types.NamespacedName)     {}
func (idle) EnqueueSlowKey(types.NamespacedName) {}

// The deletion of a Service ends the runs of its gates, and a run ends after the Service is seen to be gone.
func TestVerdictOfARunThatEndsWithItsService(t *testing.T) {
	t.Parallel()
	key := types.NamespacedName{Namespace: "shop", Name: "cart"}
	for name, again := range map[string]types.UID{"deleted": "", "made again": "uid-again"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			record, kind := &journal.Record{}, &answering{live: "uid-cart"}
			kind.Kind = NewKind(nil, nil, nil, kind)
			l := ledger.New(store.New(), record, record)
			o := observer.New(observer.Options{
				Kind: kind, Ledger: l, Now: time.Now,
				Since: func(context.Context) (time.Time, error) { return time.Unix(0, 0), nil },
			})
			o.Bind(idle{})
			if err := o.Promote(reconciler.UniversalBucket(), func(reconciler.Bucket, types.NamespacedName) {}); err != nil {
				t.Fatal(err)
			}
			o.Start()
			fold := func() {
				t.Helper()
				if _, err := o.Fold(t.Context(), key); err != nil {
					t.Fatal(err)
				}
			}
			see := func(version string, uid types.UID, value any) {
				t.Helper()
				o.Update(key, observer.Part{Name: partService, Version: version, Root: true, Owner: uid, Value: value})
				fold()
			}
			verdicts := NewVerdicts(o)
			see("1", "uid-cart", serviceValue{UID: "uid-cart", Created: time.Now()})
			kind.live = again
			see("2", "uid-cart", nil)
			if again != "" {
				see("3", again, serviceValue{UID: again, Created: time.Now()})
			}
			for range 2 { // another leader reports it again
				verdicts.Reached(key, "uid-cart", lifecycle.Verdict{Run: "a", Verdict: "Superseded", Reasons: []string{"ServiceGone"}})
				fold()
			}
			count := map[lifecycle.Type]int{}
			for _, is := range record.Of("Service/cart") {
				count[is]++
			}
			if count[lifecycle.Judged] != 1 {
				t.Errorf("%d verdicts are journaled among %v, want 1", count[lifecycle.Judged], record.Of("Service/cart"))
			}
			for _, entry := range l.All() {
				if entry.Spec.UID == "uid-cart" && !entry.Status.Removed {
					t.Error("the verdict brought the Service back")
				}
			}
			// What the ledger has forgotten stays so.
			verdicts.Reached(key, "uid-unknown", lifecycle.Verdict{Run: "b"})
			fold()
			if all := record.Of("Service/cart"); len(l.All()) > 2 || slices.Index(all, lifecycle.Judged) != len(all)-1 {
				t.Errorf("%d entries, %v", len(l.All()), all)
			}
		})
	}
}
