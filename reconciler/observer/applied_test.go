// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/reconciler"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// deaf is a router without recipients.
type deaf struct{ plain }

func (*deaf) Recipients(v1alpha1.CDEventSubjectSpec, ledger.Labels, lifecycle.Transition) []ledger.Recipient {
	return nil
}

// replica is one of several replicas that watch the same Service and share a ledger.
type replica struct {
	t  *testing.T
	ob *Observer
	l  *ledger.Ledger
}

var cart = types.NamespacedName{Namespace: "shop", Name: "cart"}

func newReplica(t *testing.T, entries *store.Store) *replica {
	t.Helper()
	router, kind := &deaf{}, &plain{live: "uid-x", created: time.Unix(0, 0)}
	r := &replica{t: t, l: ledger.New(entries, router, router)}
	r.ob = New(Options{
		Kind: kind, Ledger: r.l, Now: time.Now,
		Since: func(context.Context) (time.Time, error) { return time.Unix(-1, 0), nil },
	})
	r.ob.Bind(kind)
	r.ob.Start()
	return r
}

func (r *replica) lead() {
	if err := r.ob.Promote(reconciler.UniversalBucket(), func(reconciler.Bucket, types.NamespacedName) {}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *replica) fold() {
	for range 3 {
		err := r.ob.Reconcile(r.t.Context(), cart.String())
		if again, _ := controller.IsRequeueKey(err); err != nil && !again && !controller.IsSkipKey(err) {
			r.t.Fatal(err)
		}
	}
}

// see reports a Service whose traffic all goes to one Revision.
func (r *replica) see(version, revision string, ready bool) {
	r.ob.Update(cart, Part{Name: "service", Version: version, Root: true, Owner: "uid-x", Value: lifecycle.Snapshot{
		Ready: ready, Route: &lifecycle.Route{
			Effective: true,
			Traffic:   []lifecycle.Share{{Revision: revision, Percent: 100}},
		},
		Revisions: map[string]*lifecycle.Revision{
			"cart-1": {Name: "cart-1", Template: "cart-1", Generation: 1, Ready: true},
			"cart-2": {Name: "cart-2", Template: "cart-2", Generation: 2, Ready: true},
			"cart-3": {Name: "cart-3", Template: "cart-3", Generation: 3, Ready: true},
			"cart-4": {Name: "cart-4", Template: "cart-4", Generation: 4, Ready: true},
		},
	}})
	r.fold()
}

// primaries returns the present and the former primary Revisions from the stored memory.
func primaries(t *testing.T, entries *store.Store) (now string, former []string) {
	t.Helper()
	for _, o := range entries.All() {
		var m lifecycle.Memory
		if err := json.Unmarshal([]byte(o.Status.Memory), &m); err != nil {
			t.Fatal(err)
		}
		now = m.Primary
		for _, f := range m.Former {
			former = append(former, f.Name)
		}
	}
	return now, former
}

// This replica folds traffic splits while its ledger is stale: it does not know yet that
// another replica has announced the Service as deployed.
func TestSplitsFoldedWithAStaleLedger(t *testing.T) {
	for name, learns := range map[string]func(r *replica, entries *store.Store){
		"the informer catches up": func(r *replica, entries *store.Store) {
			for _, o := range entries.All() {
				r.l.Observe(o)
			}
		},
		"a write conflicts": func(*replica, *store.Store) {},
	} {
		t.Run(name, func(t *testing.T) {
			entries := store.New()
			first, second := newReplica(t, entries), newReplica(t, entries)
			first.lead()
			first.see("1", "cart-1", false)
			for _, o := range entries.All() {
				second.l.Observe(o)
			}
			second.see("1", "cart-1", false)
			first.see("2", "cart-1", true)
			second.lead()
			second.see("3", "cart-2", false) // not Ready while traffic moves
			second.see("4", "cart-3", false)
			learns(second, entries)
			second.see("5", "cart-4", true)
			second.fold()
			if now, former := primaries(t, entries); now != "cart-4" ||
				!slices.Equal(former, []string{"cart-1", "cart-2", "cart-3"}) {
				t.Errorf("primary %s, former primaries %q", now, former)
			}
		})
	}
}

// Updates that were folded but not saved are folded again when the lead is lost and comes
// back.
func TestSplitsFoldedBeforeTheLeadWasLost(t *testing.T) {
	entries := store.New()
	r := newReplica(t, entries)
	r.lead()
	r.see("1", "cart-1", false)
	r.see("2", "cart-2", false)
	r.see("3", "cart-3", false)
	r.ob.Demote(reconciler.UniversalBucket())
	if tr := r.ob.tracks[cart]; len(tr.updates) != 2 || len(tr.unsaved) > 0 || tr.applied != nil {
		t.Errorf("%d updates, %d unsaved, applied %v", len(tr.updates), len(tr.unsaved), tr.applied)
	}
	// Another replica announces the Service as deployed before it sees these updates.
	other := newReplica(t, entries)
	for _, o := range entries.All() {
		other.l.Observe(o)
	}
	other.lead()
	other.see("1", "cart-1", true)
	for _, o := range entries.All() {
		r.l.Observe(o)
	}
	r.lead()
	r.see("4", "cart-4", true)
	if now, former := primaries(t, entries); now != "cart-4" ||
		!slices.Equal(former, []string{"cart-1", "cart-2", "cart-3"}) {
		t.Errorf("primary %s, former primaries %q", now, former)
	}
}

// Updates that were merged to stay within bounds count again too when the lead is lost.
func TestMergedUpdatesAreRewound(t *testing.T) {
	for _, applied := range []bool{false, true} {
		t.Run(fmt.Sprintf("applied %v", applied), func(t *testing.T) {
			entries := store.New()
			r := newReplica(t, entries)
			r.lead()
			r.see("1", "cart-1", false)
			if applied {
				r.see("2", "cart-2", false)
			}
			// Nothing is folded for a while, because writes fail.
			r.ob.Update(cart, Part{Name: "service", Version: "3", Root: true, Owner: "uid-x", Value: lifecycle.Snapshot{
				Ready: true, Route: &lifecycle.Route{
					Effective: true,
					Traffic:   []lifecycle.Share{{Revision: "cart-3", Percent: 100}},
				},
				Revisions: map[string]*lifecycle.Revision{
					"cart-1": {Name: "cart-1", Template: "cart-1", Generation: 1, Ready: true},
					"cart-3": {Name: "cart-3", Template: "cart-3", Generation: 3, Ready: true},
				},
			}})
			for i := range maxHistory + 3 {
				r.ob.Update(cart, Part{Name: "revision/cart-3", Version: fmt.Sprint(10 + i), Value: i})
			}
			r.ob.Demote(reconciler.UniversalBucket())
			r.lead()
			r.fold()
			if now, _ := primaries(t, entries); now != "cart-3" {
				t.Errorf("all traffic goes to cart-3, but the ledger says %q", now)
			}
		})
	}
}

// If an update arrives after the lead is lost and before the rewind, old updates are merged
// into the base. The rewind leaves them there.
func TestForgottenUpdatesStayInTheBase(t *testing.T) {
	for _, old := range []bool{false, true} {
		tr, now := newTrack(""), time.Unix(1000, 0)
		tr.base.set(Part{Name: "route", Version: "1"})
		for i := 2; i <= 4; i++ {
			tr.add(Part{Name: "route", Version: fmt.Sprint(i), Value: i, Owner: "uid-a"}, now.Add(time.Duration(i)*time.Second))
			if i == 2 {
				tr.apply(map[uint64]bool{tr.serial: true}, now)
			}
		}
		from := now
		if old {
			from = now.Add(3500 * time.Millisecond)
		}
		tr.forget(from)
		tr.rewind()
		versions := []string{tr.base.parts()["route"].Version}
		for _, u := range tr.updates {
			versions = append(versions, u.part.Version)
		}
		want := []string{"1", "2", "3", "4"}
		if old {
			want = []string{"3", "4"}
		}
		if !slices.Equal(versions, want) {
			t.Errorf("old %v: the history is %q, want %q", old, versions, want)
		}
	}
}

func TestSpentUpdatesAreBounded(t *testing.T) {
	tr, now := newTrack(""), time.Unix(1000, 0)
	tr.add(root("a", "1"), now)
	for i := range 2 * maxHistory {
		tr.add(Part{Name: "route", Version: fmt.Sprint(i + 2), Value: i, Owner: "uid-a"}, now)
		tr.apply(map[uint64]bool{tr.serial: true}, now.Add(-time.Minute))
	}
	if n := len(tr.applied.updates); n != maxHistory {
		t.Errorf("%d updates are kept, want %d", n, maxHistory)
	}
	if tr.evictApplied(now.Add(time.Second)); tr.applied != nil {
		t.Errorf("%d updates are never dropped", len(tr.applied.updates))
	}
}
