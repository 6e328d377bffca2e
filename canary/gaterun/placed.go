// SPDX-License-Identifier: Apache-2.0

package gaterun

import (
	"strconv"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/canary/attribution"
	"github.com/knative-cdevents/knative-cdevents/canary/judge"
)

// planned compares what a Revision handled with the shards that the placement plan gives it. It is empty if no plan is
// followed, if the plan names no owners, or if requests are not counted by shard.
func (b windowBuilder) planned(canary types.UID) judge.Planned {
	var out judge.Planned
	if b.service.Plan == nil {
		return out
	}
	ours, _ := b.service.Revision(canary)
	for uid, tally := range b.delta.Revisions {
		for id, s := range tally.Shards {
			n := s.Finished()
			owner, known := plannedOwner(b.service.Plan, id)
			if !known || n <= 0 {
				continue
			}
			if out.All += n; uid == canary {
				out.Got += n
			}
			if owner == ours.Name {
				out.Due += n
			}
		}
	}
	return out
}

// plannedOwner returns the name of the Revision that must own a shard; false if the plan does not say. A shard that is
// counted without an entity type is of the only one.
func plannedOwner(plan *v1alpha1.ShardPlacementStatus, id attribution.ShardKey) (revision string, known bool) {
	shard, err := strconv.Atoi(id.Shard)
	if err != nil || shard < 0 || strconv.Itoa(shard) != id.Shard {
		return "", false
	}
	for _, e := range plan.EntityTypes {
		if e.Name != id.Entity && (id.Entity != "" || len(plan.EntityTypes) > 1) || shard >= len(e.Owners) {
			continue
		}
		if member := int(e.Owners[shard]); member >= 0 && member < len(plan.Members) {
			return plan.Members[member].Revision, true
		}
	}
	return "", false
}
