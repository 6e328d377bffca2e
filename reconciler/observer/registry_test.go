// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/reconciler"

	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
)

// of is a kind of a group, with one object.
type of struct {
	plain
	group string
}

func (o *of) APIVersion() string         { return o.group + "/v1" }
func (*of) Name() string                 { return "Cluster" }
func (*of) Keys() []types.NamespacedName { return []types.NamespacedName{cart} }

// keys records what is enqueued, for one kind.
type keys struct {
	kind string
	all  *[]string
}

func (k keys) EnqueueKey(key types.NamespacedName) { *k.all = append(*k.all, k.kind+" "+key.Name) }
func (k keys) EnqueueSlowKey(key types.NamespacedName) {
	*k.all = append(*k.all, k.kind+" slow "+key.Name)
}

// elections records what it is notified of.
type elections []string

func (e *elections) Promoted(reconciler.Bucket) { *e = append(*e, "promoted") }
func (e *elections) Demoted(reconciler.Bucket)  { *e = append(*e, "demoted") }

// All kinds lead for the same objects, those too that are found later.
func TestRegistryLeadsWithAllKinds(t *testing.T) {
	t.Parallel()
	r := NewRegistry()
	var got []string
	watch := func(group string) *Observer {
		return r.Observe(Options{Kind: &of{group: group}, Ledger: ledger.New(nil, nil, nil), Now: time.Now},
			keys{group, &got})
	}
	var notified elections
	r.OnElection(&notified)
	first := watch("a.example.com")
	if r.IsLeaderFor(cart) || first.IsLeaderFor(cart) {
		t.Error("it leads without an election")
	}
	if err := r.LeadAll(); err != nil {
		t.Fatal(err)
	}
	later := watch("b.example.com")
	if !r.IsLeaderFor(cart) || !first.IsLeaderFor(cart) || !later.IsLeaderFor(cart) {
		t.Error("not all lead")
	}
	if want := []string{"a.example.com slow cart", "b.example.com slow cart"}; !slices.Equal(got, want) {
		t.Errorf("after the promotion, %q are enqueued, want %q", got, want)
	}
	got = nil
	r.Notify(ledger.Key{Group: "b.example.com", Kind: "Cluster", Namespace: cart.Namespace, Name: cart.Name})
	r.Notify(ledger.Key{Group: "c.example.com", Kind: "Cluster", Namespace: cart.Namespace, Name: cart.Name})
	r.Requeue(func(key types.NamespacedName) bool { return key == cart })
	if want := []string{"b.example.com cart", "a.example.com slow cart", "b.example.com slow cart"}; !slices.Equal(got,
		want) {
		t.Errorf("%q are enqueued, want %q", got, want)
	}
	r.Demote(reconciler.UniversalBucket())
	if r.IsLeaderFor(cart) || first.IsLeaderFor(cart) || later.IsLeaderFor(cart) {
		t.Error("some still lead")
	}
	if want := []string{"promoted", "demoted"}; !slices.Equal(notified, want) {
		t.Errorf("notified of %q, want %q", notified, want)
	}
}

// slow calls a function when its keys are listed, as when a process begins to lead.
type slow struct {
	*of
	listed func()
}

func (k slow) Keys() []types.NamespacedName { k.listed(); return nil }

// The lead is lost while a kind is added. Its observer does not lead on.
func TestLeadLostWhileAKindIsAdded(t *testing.T) {
	r := NewRegistry()
	both := map[string]reconciler.Bucket{"even": named("even"), "odd": named("odd")}
	for _, b := range both {
		if err := r.Promote(b, func(reconciler.Bucket, types.NamespacedName) {}); err != nil {
			t.Fatal(err)
		}
	}
	first := true
	done := make(chan struct{})
	k := slow{&of{group: "example.com"}, func() {
		if !first {
			return
		}
		first = false
		go func() { // the election
			defer close(done)
			for _, b := range both {
				r.Demote(b)
			}
		}()
		select {
		case <-done:
		case <-time.After(50 * time.Millisecond):
		}
	}}
	ob := r.Observe(Options{Kind: k, Ledger: ledger.New(nil, nil, nil), Now: time.Now}, &enqueued{})
	<-done
	if key := (types.NamespacedName{Name: "x"}); ob.IsLeaderFor(key) && !r.IsLeaderFor(key) {
		t.Error("the observer leads for an object that this process does not lead for")
	}
}

type named string

func (n named) Name() string                { return string(n) }
func (named) Has(types.NamespacedName) bool { return true }
