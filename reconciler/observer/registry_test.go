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
