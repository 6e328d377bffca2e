// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/canary/cluster"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

var start = time.Unix(1.8e9, 0)

// leader leads for all Services while a variable is true.
type leader struct{ leads *bool }

func (l leader) IsLeaderFor(types.NamespacedName) bool { return *l.leads }

var always = leader{new(true)}

// twoRevisions is a cluster with a stable pod that holds all of 100 shards, and a canary's pod.
func twoRevisions() cluster.Layout {
	const shards = 100
	l := cluster.Layout{
		UID: "uid-cart",
		Declared: v1alpha1.Stateful{
			Runtime: v1alpha1.RuntimePekko, EntityTypes: []string{"Cart"}, Shards: shards, Placement: v1alpha1.PlacementEnforce,
		},
		Members: []cluster.LayoutMember{
			{Address: "pekko://cart@10.0.0.1:7355", Pod: "stable", Revision: "cart-00001", Status: "Up"},
			{Address: "pekko://cart@10.0.0.2:7355", Pod: "canary", Revision: "cart-00002", Status: "Up"},
		},
		Owners: map[string]map[string]string{"Cart": {}},
	}
	for i := range shards {
		l.Owners["Cart"][strconv.Itoa(i)] = l.Members[0].Address
	}
	return l
}

func split(canary int64) []lifecycle.Share {
	return []lifecycle.Share{{Revision: "cart-00002", Percent: canary}, {Revision: "cart-00001", Percent: 100 - canary}}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	key := types.NamespacedName{Namespace: "shop", Name: "cart"}
	leads := true
	m := NewMetrics(leader{&leads})
	l := twoRevisions()
	next, err := cluster.Plan(l, split(5), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := func(pending, moves, converged string) {
		t.Helper()
		text := `
# HELP canary_placement_converged 1 if every shard that has an owner is where the plan wants it; 0 if not. Absent while a new leader cannot know.
# TYPE canary_placement_converged gauge
canary_placement_converged{k8s_namespace_name="shop",kn_service_name="cart"} ` + converged + `
# HELP canary_placement_moves_total Shards that moved from one living member to another, as seen by this replica, by entity type.
# TYPE canary_placement_moves_total counter
canary_placement_moves_total{entity_type="Cart",k8s_namespace_name="shop",kn_service_name="cart"} ` + moves + `
# HELP canary_placement_pending_moves Shards that are not where the plan wants them, by entity type.
# TYPE canary_placement_pending_moves gauge
canary_placement_pending_moves{entity_type="Cart",k8s_namespace_name="shop",kn_service_name="cart"} ` + pending + `
# HELP canary_placement_target_shards Shards that the Revision must own according to the plan, by entity type.
# TYPE canary_placement_target_shards gauge
canary_placement_target_shards{entity_type="Cart",k8s_namespace_name="shop",kn_revision_name="cart-00001",kn_service_name="cart"} 95
canary_placement_target_shards{entity_type="Cart",k8s_namespace_name="shop",kn_revision_name="cart-00002",kn_service_name="cart"} 5
`
		if err := testutil.CollectAndCompare(m, strings.NewReader(text)); err != nil {
			t.Error(err)
		}
	}
	l.Oldest, l.Members[0].Placement = l.Members[0].Address, v1alpha1.PlacementEnforce
	following := func(of cluster.Layout, pending, moves int) {
		t.Helper()
		p := m.Update(key, of, next, false, start)
		if p.Pending != pending || p.Moves != moves || p.Coordinator != "" || p.Required["cart-00001"] != 95 ||
			p.Required["cart-00002"] != 5 {
			t.Errorf("got %+v, want %d pending and %d moves", p, pending, moves)
		}
		if split := []lifecycle.Share{
			{Revision: "cart-00001", Percent: 95},
			{Revision: "cart-00002", Percent: 5},
		}; !slices.Equal(p.Split, split) {
			t.Errorf("the plan is for %v, want %v", p.Split, split)
		}
	}
	following(l, 5, 0)
	want("5", "0", "0")
	// Two shards have moved.
	moved, left := twoRevisions(), 2
	for shard, owner := range next.EntityTypes[0].Owners {
		if owner == 1 && left > 0 {
			left--
			moved.Owners["Cart"][strconv.Itoa(shard)] = moved.Members[1].Address
		}
	}
	following(moved, 3, 2)
	want("3", "2", "0")
	// The others are on their way, and have no owner.
	for shard, owner := range next.EntityTypes[0].Owners {
		if id := strconv.Itoa(shard); owner == 1 && moved.Owners["Cart"][id] == moved.Members[0].Address {
			delete(moved.Owners["Cart"], id)
		}
	}
	following(moved, 3, 2)
	want("3", "2", "0")
	for shard, owner := range next.EntityTypes[0].Owners {
		moved.Owners["Cart"][strconv.Itoa(shard)] = moved.Members[owner].Address
	}
	following(moved, 0, 5)
	want("0", "5", "1")
	// The next split begins to count anew, and its coordinator does not follow plans.
	if next, err = cluster.Plan(moved, split(20), nil, nil); err != nil {
		t.Fatal(err)
	}
	moved.Oldest, moved.Members[1].Placement = moved.Members[1].Address, v1alpha1.PlacementObserve
	if p := m.Update(key, moved, next, false, start); p.Pending != 15 || p.Moves != 0 || p.Coordinator != "cart-00002" {
		t.Errorf("after the split has changed: %+v", p)
	}
	leads = false
	if n := testutil.CollectAndCount(m); n != 0 {
		t.Errorf("a replica that does not lead exports %d series", n)
	}
}

// Nothing moves while a member joins. The plan then names the present owners, but the Revisions do not have their
// shares yet.
func TestAHeldPlanIsNotFollowed(t *testing.T) {
	t.Parallel()
	for _, free := range []bool{false, true} {
		l := twoRevisions()
		l.Members = append(l.Members, cluster.LayoutMember{
			Address: "pekko://cart@10.0.0.3:7355", Pod: "third",
			Revision: "cart-00002", Status: "Joining",
		})
		if free {
			delete(l.Owners["Cart"], "0")
			l.Owners["Cart"]["north"] = l.Members[0].Address
		}
		next, err := cluster.Plan(l, split(5), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		m := NewMetrics(always)
		if p := m.Update(types.NamespacedName{Namespace: "shop", Name: "cart"}, l, next, false, start); p.Pending != 5 {
			t.Errorf("held %q, free-form ids %v: %d pending, want 5", next.Held, free, p.Pending)
		}
	}
}

// A pod may name any shard in one poll, and omit it in the next one.
func TestAShardThatIsNoNumberIsNamedOnce(t *testing.T) {
	t.Parallel()
	key := types.NamespacedName{Namespace: "shop", Name: "cart"}
	m := NewMetrics(always)
	l := twoRevisions()
	for _, owned := range []map[string]string{
		{"0": l.Members[0].Address, "north": l.Members[0].Address},
		{"0": l.Members[0].Address},
	} {
		l.Owners["Cart"] = owned
		next, err := cluster.Plan(l, split(100), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if p := m.Update(key, l, next, false, start); p.Pending != len(owned) {
			t.Errorf("%d pending, want %d", p.Pending, len(owned))
		}
	}
}

// A shard that no member names any more has ended, not moved. This goes for free-form ids, and for numbers that a
// runtime names only while they have entities.
func TestAShardThatEndedIsNotPending(t *testing.T) {
	t.Parallel()
	for _, ended := range []string{"north", "7"} {
		m := NewMetrics(always)
		l := twoRevisions()
		l.Owners["Cart"] = map[string]string{ended: l.Members[0].Address}
		pending := func(after time.Duration) int {
			next, err := cluster.Plan(l, split(100), nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			return m.Update(types.NamespacedName{Namespace: "shop", Name: "cart"}, l, next, false, start.Add(after)).Pending
		}
		if n := pending(0); n != 1 {
			t.Errorf("shard %s: %d pending, want 1", ended, n)
		}
		l.Owners["Cart"] = map[string]string{}
		if n := pending(5 * time.Second); ended == "7" && n != 1 {
			t.Errorf("shard %s may be on its way: %d pending, want 1", ended, n)
		}
		for _, after := range []time.Duration{70 * time.Second, 80 * time.Second, 1000 * time.Second} {
			if n := pending(after); n != 0 && after >= 80*time.Second {
				t.Errorf("shard %s, %s later: %d pending, want 0", ended, after, n)
			}
		}
	}
}

// A new leader finds that the last shards have no owner: they are on their way, or were never used. It cannot tell
// these apart until a hand-over would be over.
func TestANewLeaderWaitsForShardsOnTheirWay(t *testing.T) {
	t.Parallel()
	key := types.NamespacedName{Namespace: "shop", Name: "cart"}
	l := twoRevisions()
	next, err := cluster.Plan(l, split(5), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for shard, owner := range next.EntityTypes[0].Owners {
		if owner == 1 {
			delete(l.Owners["Cart"], strconv.Itoa(shard))
		}
	}
	for _, inherited := range []bool{true, false} {
		m := NewMetrics(always)
		if p := m.Update(key, l, next, inherited, start); (p == nil) != inherited {
			t.Errorf("the cluster had a plan: %v; got %+v", inherited, p)
		}
		if p := m.Update(key, l, next, inherited, start.Add(time.Minute)); (p == nil) != inherited {
			t.Errorf("a minute later: %+v", p)
		}
		if n := testutil.CollectAndCount(m, "canary_placement_converged"); (n == 0) != inherited {
			t.Errorf("the cluster had a plan: %v; %d metrics say whether it follows it", inherited, n)
		}
		if p := m.Update(key, l, next, inherited, start.Add(cluster.HandOverTimeout)); p == nil || p.Pending != 0 {
			t.Errorf("shards that were never used: %+v", p)
		}
		if n := testutil.CollectAndCount(m, "canary_placement_converged"); n != 1 {
			t.Errorf("after a hand-over would be over, %d metrics say whether it follows its plan", n)
		}
	}
	m := NewMetrics(always)
	m.Update(key, l, next, true, start)
	for shard, owner := range next.EntityTypes[0].Owners {
		l.Owners["Cart"][strconv.Itoa(shard)] = l.Members[owner].Address
	}
	if p := m.Update(key, l, next, true, start.Add(5*time.Second)); p == nil || p.Pending != 0 {
		t.Errorf("all are in place: %+v", p)
	}
}
