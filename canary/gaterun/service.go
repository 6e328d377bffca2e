// SPDX-License-Identifier: Apache-2.0

// Package gaterun implements one run of a canary gate: it opens, chooses two Revisions,
// analyzes what they handle, and ends with a verdict.
//
// The package is pure: it has no clock, no client, and no state except the
// v1alpha1.GateRun. Its invariants:
//   - A GateRun contains everything that the run needs, so another process can continue
//     it with the same evidence.
//   - The two Revisions never change once they are chosen.
//   - A run that cannot continue says why, and never passes.
package gaterun

import (
	"maps"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// Service is the state of a Knative Service at one moment.
type Service struct {
	UID types.UID
	// Settled means that it is Ready for its latest generation.
	Settled bool
	// Route is zero without one. Its split is between known Revisions only.
	lifecycle.Route
	// Revisions holds those with and without traffic, by name. Nothing in them may be changed.
	Revisions map[string]*lifecycle.Revision
	// Moving means that the cluster is handing over shards, and MovingUnknown that it is not known: no poll has told yet,
	// or no pod answered the last one.
	Moving, MovingUnknown bool
	// Misplaced says why shards are not where the plan for the split in effect wants them.
	Misplaced Misplacement
	// Plan is the placement plan that members follow; nil without one. Nothing in it may be changed.
	Plan *v1alpha1.ShardPlacementStatus
}

// Misplacement is why a cluster does not follow its placement plan yet. It is zero if every shard is where
// the plan wants it, and without a plan that members follow.
type Misplacement struct {
	Reason verdict.Reason
	// Shards is how many shards are not where the plan wants them, with ShardsMisplaced.
	Shards int
}

// Reasons of a Misplacement.
const (
	// PlacementUnknown: it is not known where the shards are.
	PlacementUnknown verdict.Reason = "PlacementUnknown"
	// PlacementPlanMissing: there is no plan for this split yet.
	PlacementPlanMissing verdict.Reason = "PlacementPlanMissing"
	// ShardsMisplaced: shards are not where the plan wants them.
	ShardsMisplaced verdict.Reason = "ShardsMisplaced"
)

// JudgedBy reports whether a run stands for the split that is in effect, and compared these two Revisions. A split that
// ended and came back is another one, and so is a Revision that was recreated under its name. The steps of a gradual
// rollout share the Revisions that the run chose.
func (s *Service) JudgedBy(run *v1alpha1.GateRun, pair Pair) bool {
	if reason, _ := superseded(run, s); reason != "" || run.SplitEndTime != nil {
		return false
	}
	return s.Rollout || run.Canary == object(pair.Canary) &&
		(run.Baseline == nil || *run.Baseline == object(pair.Baseline))
}

// splits reports whether the traffic is still split as it was. The steps of a gradual
// rollout count as one split.
func (s *Service) splits(was lifecycle.Split) bool {
	return maps.EqualFunc(was.Percentages(), s.Traffic.Percentages(), func(a, b int64) bool { return a == b || s.Rollout })
}

// Newest reports whether no other Revision has a later generation.
func (s *Service) Newest(r lifecycle.Revision) bool {
	for _, other := range s.Revisions {
		if later(*other, r) {
			return false
		}
	}
	return true
}

// Revision returns the Revision with a UID; false if there is none.
func (s *Service) Revision(uid types.UID) (r lifecycle.Revision, exists bool) {
	for _, r := range s.Revisions {
		if r.UID == uid {
			return *r, true
		}
	}
	return lifecycle.Revision{}, false
}

// receivers returns the Revisions with traffic.
func (s *Service) receivers() []lifecycle.Revision {
	var out []lifecycle.Revision
	for _, share := range s.Traffic {
		if r := s.Revisions[share.Revision]; r != nil {
			out = append(out, *r)
		}
	}
	return out
}
