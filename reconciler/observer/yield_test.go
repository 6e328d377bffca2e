package observer

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/reconciler"

	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// interrupted does something in the middle of every fold.
type interrupted struct {
	plain
	during func()
}

func (i *interrupted) Object(p Parts) *Object {
	i.during()
	return i.plain.Object(p)
}

func TestWhoYieldsInTheMiddleOfAFoldKeepsNoTrouble(t *testing.T) {
	for _, yields := range []bool{false, true} {
		router, kind := &asked{}, &interrupted{plain: plain{live: "uid-x", created: time.Unix(0, 0), rules: lifecycle.DefaultRules}, during: func() {}}
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
			o.Saw(key, Part{Name: "service", Version: version, Root: true, Owner: "uid-x", Value: s})
			// Waiting trouble has the key come again, which is no failure.
			_ = o.Reconcile(t.Context(), key.String())
		}
		see("1", lifecycle.Snapshot{Ready: true})
		if yields {
			kind.during = func() { o.Demote(reconciler.UniversalBucket()) }
		}
		see("2", lifecycle.Snapshot{Trouble: map[lifecycle.Incident]*lifecycle.Trouble{lifecycle.FailedRollout: {Reason: "Failed"}}})
		if waits := len(o.tracks[key].waiting) > 0; waits == yields {
			t.Errorf("yields %v, trouble kept %v", yields, waits)
		}
	}
}

// What no fold can cope with stops the events of one object, and not the process.
func TestAPanicStopsOneObject(t *testing.T) {
	router, kind := &asked{}, &interrupted{plain: plain{live: "uid-x", rules: lifecycle.DefaultRules}}
	l := ledger.New(store.New(), router, router)
	o := New(Options{Kind: kind, Ledger: l, Now: time.Now, Since: func(context.Context) (time.Time, error) { return time.Unix(-1, 0), nil }})
	o.Bind(kind)
	if err := o.Promote(reconciler.UniversalBucket(), func(reconciler.Bucket, types.NamespacedName) {}); err != nil {
		t.Fatal(err)
	}
	kind.during = func() {}
	o.Start()
	key := types.NamespacedName{Namespace: "shop", Name: "cart"}
	o.Saw(key, Part{Name: "service", Version: "1", Root: true, Owner: "uid-x", Value: lifecycle.Snapshot{}})
	kind.during = func() { panic("no fold can cope with it") }
	if err := o.Reconcile(t.Context(), key.String()); err == nil {
		t.Fatal("it was folded")
	}
	if len(l.Subjects(o.ledgerKey(key))) > 0 {
		t.Fatal("it was journaled")
	}
	kind.during = func() {}
	if err := o.Reconcile(t.Context(), key.String()); err != nil {
		t.Error(err)
	}
	if len(l.Subjects(o.ledgerKey(key))) != 1 {
		t.Error("it was not journaled afterwards")
	}
}
