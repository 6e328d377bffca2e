// Package gaterun is the life of one judgement of a canary: it is opened, finds its two
// Revisions, looks at what they did, and ends with a verdict.
//
// It is pure: no clock, no client, no state beside the v1alpha1.GateRun that it is
// given. Its invariants: everything that a trial needs to go on stands in its
// GateRun, so that whoever reads that goes on with the same evidence; which
// Revisions are compared does not change once they are found; and a trial that
// cannot go on says why, and never passes.
package gaterun

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// Service is what is known of a Knative Service at one moment.
type Service struct {
	UID types.UID
	// Settled: it is Ready, for its newest generation. What was asked for has come.
	Settled bool
	// Effective: the split is in force.
	Effective bool
	// Rollout: Serving changes the split step by step by itself.
	Rollout bool
	// Moving: the shards of its cluster are being handed over.
	Moving    bool
	Revisions []Revision
}

// Revision is one of a Service, with traffic or without.
type Revision struct {
	Name string
	UID  types.UID
	// Generation of the Configuration that made it: it alone orders Revisions.
	Generation int64
	// Percent that the Route gives it.
	Percent int64
	// Stateful: its pods handle what others took in.
	Stateful bool
}

// Split is the percentage of each Revision that has any, by name.
func (s *Service) Split() map[string]int64 {
	out := map[string]int64{}
	for _, r := range s.Revisions {
		if r.Percent > 0 {
			out[r.Name] = r.Percent
		}
	}
	return out
}

// Divided says whether a split between several Revisions is in force.
func (s *Service) Divided() bool { return s.Effective && len(s.Split()) > 1 }

// JudgedBy says whether a run was about the split that is in force, between the same
// Revisions: one that is made again under its name is another one.
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

// splits says whether traffic is split as it was. The steps of a rollout that Serving
// makes by itself change percentages only, and count as one split.
func (s *Service) splits(was map[string]int64) bool {
	was = maps.Clone(was)
	maps.DeleteFunc(was, func(_ string, percent int64) bool { return percent <= 0 })
	return maps.EqualFunc(was, s.Split(), func(a, b int64) bool { return a == b || s.Rollout })
}

// Newest says whether no Revision is newer.
func (s *Service) Newest(r Revision) bool {
	return !slices.ContainsFunc(s.Revisions, func(other Revision) bool { return newer(other, r) })
}

func (s *Service) revision(uid types.UID) (Revision, bool) {
	if i := slices.IndexFunc(s.Revisions, func(r Revision) bool { return r.UID == uid }); i >= 0 {
		return s.Revisions[i], true
	}
	return Revision{}, false
}
