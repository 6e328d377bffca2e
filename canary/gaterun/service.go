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
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// Service is the state of a Knative Service at one moment.
type Service struct {
	UID types.UID
	// Settled means that it is Ready for its latest generation.
	Settled bool
	// Effective means that the Route's split is in effect.
	Effective bool
	// Rollout means that Serving is changing the split step by step.
	Rollout bool
	// Moving means that the cluster is handing over shards.
	Moving bool
	// Misplaced says why shards are not where the plan for the split in effect wants them.
	Misplaced Misplacement
	// Plan is the placement plan that members follow; nil without one. Nothing in it may be changed.
	Plan      *v1alpha1.ShardPlacementStatus
	Revisions []Revision
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

// Revision is a Revision of a Service, with or without traffic.
type Revision struct {
	Name string
	UID  types.UID
	// Generation of the Configuration that created it. Only this orders Revisions.
	Generation int64
	// Percent of the traffic that the Route assigns to it.
	Percent int64
	// Stateful means that its pods also handle requests that entered at other pods.
	Stateful bool
}

// Split returns the percentage of each Revision with traffic, by name.
func (s *Service) Split() map[string]int64 {
	out := map[string]int64{}
	for _, r := range s.Revisions {
		if r.Percent > 0 {
			out[r.Name] = r.Percent
		}
	}
	return out
}

// Divided reports whether a split between several Revisions is in effect.
func (s *Service) Divided() bool { return s.Effective && len(s.Split()) > 1 }

// JudgedBy reports whether a run judged the split that is in effect, between the same Revisions. A
// Revision that was recreated under its name is another one.
func (s *Service) JudgedBy(run *v1alpha1.GateRun) bool {
	for _, o := range []*v1alpha1.GateObject{&run.Canary, run.Baseline} {
		if o == nil {
			continue
		}
		if r, ok := s.revision(o.UID); !ok || r.Name != o.Name {
			return false
		}
	}
	return s.splits(run.Split)
}

// splits reports whether the traffic is still split as it was. The steps of a gradual
// rollout count as one split.
func (s *Service) splits(was map[string]int64) bool {
	was = maps.Clone(was)
	maps.DeleteFunc(was, func(_ string, percent int64) bool { return percent <= 0 })
	return maps.EqualFunc(was, s.Split(), func(a, b int64) bool { return a == b || s.Rollout })
}

// Newest reports whether no other Revision has a later generation.
func (s *Service) Newest(r Revision) bool {
	return !slices.ContainsFunc(s.Revisions, func(other Revision) bool { return later(other, r) })
}

func (s *Service) revision(uid types.UID) (Revision, bool) {
	if i := slices.IndexFunc(s.Revisions, func(r Revision) bool { return r.UID == uid }); i >= 0 {
		return s.Revisions[i], true
	}
	return Revision{}, false
}
