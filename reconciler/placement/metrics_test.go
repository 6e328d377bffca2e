package placement

import (
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/types"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	key := types.NamespacedName{Namespace: "shop", Name: "cart"}
	leads := true
	m := NewMetrics(func(types.NamespacedName) bool { return leads })
	l := twoRevisions(100)
	next, err := plan(l, split(5), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := func(pending, moves, converged string) {
		t.Helper()
		text := `
# HELP canary_placement_converged 1 if every shard that has an owner is where the plan wants it; 0 if not.
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
	m.saw(key, l, next)
	want("5", "0", "0")
	// Two shards have moved.
	moved, left := twoRevisions(100), 2
	for shard, owner := range next.EntityTypes[0].Owners {
		if owner == 1 && left > 0 {
			left--
			moved.Owners["Cart"][strconv.Itoa(shard)] = moved.Members[1].Address
		}
	}
	m.saw(key, moved, next)
	want("3", "2", "0")
	// The others are on their way, and have no owner.
	for shard, owner := range next.EntityTypes[0].Owners {
		if id := strconv.Itoa(shard); owner == 1 && moved.Owners["Cart"][id] == moved.Members[0].Address {
			delete(moved.Owners["Cart"], id)
		}
	}
	m.saw(key, moved, next)
	want("3", "2", "0")
	for shard, owner := range next.EntityTypes[0].Owners {
		moved.Owners["Cart"][strconv.Itoa(shard)] = moved.Members[owner].Address
	}
	m.saw(key, moved, next)
	want("0", "5", "1")
	leads = false
	if n := testutil.CollectAndCount(m); n != 0 {
		t.Errorf("a replica that does not lead exports %d series", n)
	}
}
