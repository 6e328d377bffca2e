// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/reconciler"

	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// interrupted calls during in the middle of every fold.
type interrupted struct {
	plain
	during func()
}

func (i *interrupted) Object(p Parts) *Object {
	i.during()
	return i.plain.Object(p)
}

func TestNoTroubleIsKeptIfTheLeadIsLostDuringAFold(t *testing.T) {
	for _, yields := range []bool{false, true} {
		router, kind := &asked{}, &interrupted{plain: plain{
			live: "uid-x", created: time.Unix(0, 0),
			rules: lifecycle.DefaultRules,
		}, during: func() {}}
		o := New(Options{
			Kind: kind, Ledger: ledger.New(store.New(), router, router), Now: time.Now,
			Since: func(context.Context) (time.Time, error) { return time.Unix(1, 0), nil },
		})
		o.Bind(kind)
		if err := o.Promote(reconciler.UniversalBucket(), func(reconciler.Bucket, types.NamespacedName) {}); err != nil {
			t.Fatal(err)
		}
		o.Start()
		key := types.NamespacedName{Namespace: "shop", Name: "cart"}
		see := func(version string, s lifecycle.Snapshot) {
			o.Update(key, Part{Name: "service", Version: version, Root: true, Owner: "uid-x", Value: s})
			// While trouble waits, Reconcile asks for a requeue. That is not a failure.
			_ = o.Reconcile(t.Context(), key.String())
		}
		see("1", lifecycle.Snapshot{Ready: true})
		if yields {
			kind.during = func() { o.Demote(reconciler.UniversalBucket()) }
		}
		see("2", lifecycle.Snapshot{Trouble: map[lifecycle.Incident]*lifecycle.Trouble{lifecycle.FailedRollout: {Reason: "Failed"}}})
		if waits := len(o.tracks[key].waiting) > 0; waits == yields {
			t.Errorf("lead lost %v, trouble kept %v", yields, waits)
		}
	}
}

// A panic stops the events of one object, not the process.
func TestPanicStopsOnlyOneObject(t *testing.T) {
	router, kind := &asked{}, &interrupted{plain: plain{live: "uid-x", rules: lifecycle.DefaultRules}}
	l := ledger.New(store.New(), router, router)
	o := New(Options{
		Kind: kind, Ledger: l, Now: time.Now,
		Since: func(context.Context) (time.Time, error) { return time.Unix(-1, 0), nil },
	})
	o.Bind(kind)
	if err := o.Promote(reconciler.UniversalBucket(), func(reconciler.Bucket, types.NamespacedName) {}); err != nil {
		t.Fatal(err)
	}
	kind.during = func() {}
	o.Start()
	key := types.NamespacedName{Namespace: "shop", Name: "cart"}
	o.Update(key, Part{Name: "service", Version: "1", Root: true, Owner: "uid-x", Value: lifecycle.Snapshot{}})
	kind.during = func() { panic("cannot be folded") }
	if err := o.Reconcile(t.Context(), key.String()); err == nil {
		t.Fatal("no error after a panic")
	}
	if len(l.Subjects(o.ledgerKey(key))) > 0 {
		t.Fatal("the object was journaled despite a panic")
	}
	kind.during = func() {}
	if err := o.Reconcile(t.Context(), key.String()); err != nil {
		t.Error(err)
	}
	if len(l.Subjects(o.ledgerKey(key))) != 1 {
		t.Error("the object was not journaled after the panics ended")
	}
}

// What comes during a fold is merged before the next one: a write may hang for minutes, and each state of
// the next fold would have all parts.
func TestWhatCameDuringAFoldIsBounded(t *testing.T) {
	router, kind, merged := &asked{}, &interrupted{
		plain:  plain{live: "uid-x", rules: lifecycle.DefaultRules},
		during: func() {},
	}, 0
	o := New(Options{
		Kind: kind, Ledger: ledger.New(store.New(), router, router), Now: time.Now,
		Metrics: counter(func(n int) { merged += n }),
		Since:   func(context.Context) (time.Time, error) { return time.Unix(-1, 0), nil },
	})
	o.Bind(kind)
	if err := o.Promote(reconciler.UniversalBucket(), func(reconciler.Bucket, types.NamespacedName) {}); err != nil {
		t.Fatal(err)
	}
	o.Start()
	key, version := types.NamespacedName{Namespace: "shop", Name: "cart"}, 1
	see := func(generation int64) {
		version++
		o.Update(key, Part{
			Name: "service", Version: fmt.Sprint(version), Root: true, Owner: "uid-x",
			Value: lifecycle.Snapshot{Generation: generation},
		})
	}
	see(1)
	kind.during = func() {
		kind.during = func() {}
		for i := range int64(10 * maxHistory) {
			see(2 + i)
		}
	}
	_ = o.Reconcile(t.Context(), key.String()) // it comes again, which is no failure
	f, more := o.begin(t.Context(), key, time.Unix(-1, 0))
	if len(f.steps) > maxHistory+1 || more != 9*maxHistory || merged != 0 {
		t.Errorf("%d states, %d merged", len(f.steps), more)
	}
	if last := o.tracks[key].updates[maxHistory-1].part.Value; !same(last,
		lifecycle.Snapshot{Generation: 1 + 10*maxHistory}) {
		t.Errorf("the newest is %v", last)
	}
}
