// SPDX-License-Identifier: Apache-2.0

package gaterun

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/canary/attribution"
	"github.com/knative-cdevents/knative-cdevents/canary/judge"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// What the canary should handle are the requests of the shards that the plan gives it, whoever handled them.
func TestPlannedShards(t *testing.T) {
	t.Parallel()
	type counts map[attribution.ShardKey]attribution.Shard
	shard := func(entity, id string) attribution.ShardKey { return attribution.ShardKey{Entity: entity, Shard: id} }
	one := &v1alpha1.ShardPlacementStatus{
		Members:     []v1alpha1.PlacementMember{{Revision: "cart-1"}, {Revision: "cart-2"}, {Revision: "cart-2"}},
		EntityTypes: []v1alpha1.PlacementEntityType{{Name: "Cart", Shards: 5, Owners: []int32{0, 1, 2, -1, 7}}},
	}
	two := one.DeepCopy()
	two.EntityTypes = append(two.EntityTypes, v1alpha1.PlacementEntityType{Name: "User", Shards: 1, Owners: []int32{1}})
	quotas := one.DeepCopy()
	quotas.EntityTypes[0].Owners = nil
	for name, c := range map[string]struct {
		plan             *v1alpha1.ShardPlacementStatus
		canary, baseline counts
		want             judge.Planned
	}{
		"no plan":                              {nil, counts{shard("Cart", "1"): {OK: 9}}, nil, judge.Planned{}},
		"only quotas":                          {quotas, counts{shard("Cart", "1"): {OK: 9}}, nil, judge.Planned{}},
		"where they must be":                   {one, counts{shard("Cart", "1"): {OK: 9}, shard("Cart", "2"): {Error: 1}}, counts{shard("Cart", "0"): {OK: 90}}, judge.Planned{Got: 10, Due: 10, All: 100}},
		"the baseline has one of the canary's": {one, counts{shard("Cart", "1"): {OK: 9}}, counts{shard("Cart", "0"): {OK: 90}, shard("Cart", "2"): {OK: 1}}, judge.Planned{Got: 9, Due: 10, All: 100}},
		"the canary has one of the baseline's": {one, counts{shard("Cart", "0"): {OK: 90}, shard("Cart", "1"): {OK: 9}}, nil, judge.Planned{Got: 99, Due: 9, All: 99}},
		"no entity type, and there is one":     {one, counts{shard("", "1"): {OK: 9}}, nil, judge.Planned{Got: 9, Due: 9, All: 9}},
		"no entity type, and there are two":    {two, counts{shard("", "1"): {OK: 9}}, nil, judge.Planned{}},
		"two types":                            {two, counts{shard("User", "0"): {OK: 9}}, counts{shard("Cart", "0"): {OK: 1}}, judge.Planned{Got: 9, Due: 9, All: 10}},
		"not in the plan": {one, counts{
			shard("Cart", "3"): {OK: 1}, shard("Cart", "4"): {OK: 1}, shard("Cart", "5"): {OK: 1}, shard("Cart", "01"): {OK: 1}, shard("Cart", "-1"): {OK: 1}, shard("Cart", "a"): {OK: 1}, shard("Other", "1"): {OK: 1},
		}, nil, judge.Planned{}},
	} {
		b := windowBuilder{
			service: &Service{Plan: c.plan, Revisions: map[string]*lifecycle.Revision{"cart-1": {Name: "cart-1", UID: "b"}, "cart-2": {Name: "cart-2", UID: "c"}}},
			delta:   attribution.Delta{Revisions: map[types.UID]attribution.Tally{"c": {Shards: c.canary}, "b": {Shards: c.baseline}}},
		}
		if got := b.planned("c"); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// The durations at entry tell how many requests are open there.
func TestTimeAtEntry(t *testing.T) {
	t.Parallel()
	for _, stateful := range []bool{false, true} {
		w := counting(stateful, attribution.Tally{EntryDurationSum: 7, DurationSum: 3}, attribution.Tally{}).window("c", "b")
		if w.Canary.EntryTook != 7 {
			t.Errorf("stateful %v: %v", stateful, w.Canary.EntryTook)
		}
	}
}
