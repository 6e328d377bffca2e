// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/canary/attribution"
	"github.com/knative-cdevents/knative-cdevents/canary/placement"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// twoRevisions is a cluster with a stable pod that holds all of a number of shards, and a canary's pod.
func twoRevisions(shards int) Layout {
	l := Layout{
		UID: "uid-cart",
		Declared: v1alpha1.Stateful{
			Runtime: v1alpha1.RuntimePekko, EntityTypes: []string{"Cart"}, Shards: shards,
			Placement: v1alpha1.PlacementEnforce,
		},
		Members: []LayoutMember{
			{Address: "pekko://cart@10.0.0.1:7355", Pod: "stable", Revision: "cart-00001", Status: "Up"},
			{Address: "pekko://cart@10.0.0.2:7355", Pod: "canary", Revision: "cart-00002", Status: "Up"},
		},
		Owners: map[string]map[string]string{"Cart": {}},
	}
	for i := range shards {
		l.Owners["Cart"][fmt.Sprint(i)] = l.Members[0].Address
	}
	return l
}

func split(canary int64) []lifecycle.Share {
	return []lifecycle.Share{{Revision: "cart-00002", Percent: canary}, {Revision: "cart-00001", Percent: 100 - canary}}
}

func TestPlanNamesAnOwnerForEachShard(t *testing.T) {
	t.Parallel()
	got, err := Plan(twoRevisions(100), split(5), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	cart := got.EntityTypes[0]
	canary := 0
	for _, o := range cart.Owners {
		canary += int(o)
	}
	if cart.Name != "Cart" || cart.Shards != 100 || !slices.Equal(cart.Quotas, []int32{95, 5}) ||
		len(cart.Owners) != 100 || canary != 5 {
		t.Errorf("got %+v", cart)
	}
	if got.Mode != v1alpha1.PlacementEnforce || got.Held != "" || got.Revisions[0].Name != "cart-00001" ||
		got.Revisions[1].Percent != 5 || got.Members[1].Pod != "canary" {
		t.Errorf("got %+v", got)
	}
	l := twoRevisions(100)
	l.Declared.Runtime = v1alpha1.RuntimeProtoActor
	if other, err := Plan(l, split(5), nil, nil); err != nil || !reflect.DeepEqual(other, got) {
		t.Errorf("the plan for another runtime: %+v, %v", other, err)
	}
}

func TestFreeFormShardsGetQuotasOnly(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"north", "-1", "100", "007", "+1"} {
		l := twoRevisions(100)
		l.Owners["Cart"] = map[string]string{"0": l.Members[0].Address, id: l.Members[0].Address}
		got, err := Plan(l, split(50), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if cart := got.EntityTypes[0]; cart.Owners != nil || cart.Shards != 2 || !slices.Equal(cart.Quotas, []int32{1, 1}) {
			t.Errorf("shard %q: %+v", id, cart)
		}
	}
}

func TestTheStatusOfAMember(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status      string
		unreachable bool
		held        string
		canary      int32
	}{
		{"Up", false, "", 20},
		{"Joining", false, placement.MemberJoining, 0},
		{"WeaklyUp", false, placement.MemberJoining, 0},
		{"Up", true, placement.MemberUnreachable, 0},
		{"Leaving", false, "", 0},
		{"Exiting", true, "", 0},
		{"Down", true, "", 0},
		{"Later", false, "", 0},
	} {
		l := twoRevisions(100)
		l.Members[1].Status, l.Members[1].Unreachable = c.status, c.unreachable
		got, err := Plan(l, split(20), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got.Held != c.held || got.EntityTypes[0].Quotas[1] != c.canary {
			t.Errorf("%s, unreachable %v: held %q, the canary gets %d", c.status, c.unreachable, got.Held,
				got.EntityTypes[0].Quotas[1])
		}
	}
}

// A plan must fit into an object.
func TestAPlanIsBounded(t *testing.T) {
	t.Parallel()
	l := twoRevisions(1)
	l.Declared.Shards, l.Declared.EntityTypes = v1alpha1.MaxShards, nil
	for i := range v1alpha1.MaxEntityTypes {
		l.Declared.EntityTypes = append(l.Declared.EntityTypes, fmt.Sprintf("Type%d", i))
	}
	got, err := Plan(l, split(20), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	owners := 0
	for _, e := range got.EntityTypes {
		owners += len(e.Owners)
		if n := len(e.Owners); n != 0 && n != v1alpha1.MaxShards || e.Shards != v1alpha1.MaxShards ||
			e.Quotas[0]+e.Quotas[1] != v1alpha1.MaxShards {
			t.Errorf("%s has %d owners, %d shards and the quotas %v; want all owners or none", e.Name, n, e.Shards, e.Quotas)
		}
	}
	if owners != 2*v1alpha1.MaxShards {
		t.Errorf("%d owners are named, want those of two types", owners)
	}
}

// A shard that no member names is being handed over. The next plan must not send it elsewhere.
func TestAShardInHandOverKeepsItsPlannedOwner(t *testing.T) {
	t.Parallel()
	l := twoRevisions(100)
	l.Members = append(l.Members, LayoutMember{
		Address: "pekko://cart@10.0.0.3:7355", Pod: "canary-2",
		Revision: "cart-00002", Status: "Up",
	})
	status, err := Plan(l, split(21), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	last := &v1alpha1.ShardPlacement{Status: status}
	for shard, owner := range status.EntityTypes[0].Owners {
		if owner > 0 {
			delete(l.Owners["Cart"], strconv.Itoa(shard))
		}
	}
	next, err := Plan(l, split(21), nil, last)
	if err != nil {
		t.Fatal(err)
	}
	if !SamePlan(next, status) {
		t.Errorf("the plan changes while its shards move:\n%v\n%v", status.EntityTypes, next.EntityTypes)
	}
}

// With shards of different load, those are chosen that bring the canary to its part of the requests.
func TestLoadDecidesWhichShardsAreMoved(t *testing.T) {
	t.Parallel()
	loads, all := map[attribution.ShardKey]float64{}, 0.0
	for s := range 100 {
		n := float64((s%10 + 1) * (s%10 + 1))
		loads[attribution.ShardKey{Entity: "Cart", Shard: strconv.Itoa(s)}] = n
		loads[attribution.ShardKey{Entity: "Order", Shard: strconv.Itoa(s)}] = 1e6 // of another type
		all += n
	}
	got, err := Plan(twoRevisions(100), split(5), loads, nil)
	if err != nil {
		t.Fatal(err)
	}
	canary, shards := 0.0, 0
	for s, owner := range got.EntityTypes[0].Owners {
		if got.Members[owner].Revision == "cart-00002" {
			shards++
			canary += loads[attribution.ShardKey{Entity: "Cart", Shard: strconv.Itoa(s)}]
		}
	}
	if shards != 5 || canary < .045*all || canary > .055*all {
		t.Errorf("the canary gets %d shards with %.1f %% of the load", shards, 100*canary/all)
	}
	if load(loads, "Other", true, 100) != nil {
		t.Error("there is a load without counts")
	}
	unnamed := map[attribution.ShardKey]float64{{Shard: "1"}: 7}
	if load(unnamed, "Cart", false, 2) != nil || !slices.Equal(load(unnamed, "Cart", true, 2), []float64{0, 7}) {
		t.Error("counts without an entity type are those of the only one")
	}
}
