// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/canary/attribution"
	"github.com/knative-cdevents/knative-cdevents/canary/placement"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// maxOwners is how many shards, of all types, a plan names an owner for. A plan of that size has half a megabyte;
// the API server takes 1.5.
const maxOwners = 150_000

// AtOnce is how many shards are handed over at a time. Each is unavailable while it moves.
const AtOnce = 10

// Plan returns the content of a plan, without its version and the time of its issue. Shards without an owner stay
// where the last plan, if any, wants them.
func Plan(
	l Layout, shares []lifecycle.Share, loads map[attribution.ShardKey]float64, last *v1alpha1.ShardPlacement,
) (v1alpha1.ShardPlacementStatus, error) {
	shares = slices.SortedFunc(slices.Values(shares),
		func(a, b lifecycle.Share) int { return strings.Compare(a.Revision, b.Revision) })
	out := v1alpha1.ShardPlacementStatus{Mode: l.Declared.Placement, AtOnce: AtOnce}
	for _, s := range shares {
		out.Revisions = append(out.Revisions, v1alpha1.PlacementRevision{Name: s.Revision, Percent: int32(s.Percent)}) //nolint:gosec // 100 at most
	}
	index := map[string]int32{"": -1}
	var members []placement.Member
	for _, m := range l.Members {
		index[m.Address] = int32(len(out.Members)) //nolint:gosec // as many as there are pods
		out.Members = append(out.Members, v1alpha1.PlacementMember{Address: m.Address, Pod: m.Pod, Revision: m.Revision})
		members = append(members, placement.Member{Name: m.Address, Revision: m.Revision, Phase: phase(m)})
	}
	left := maxOwners
	for _, name := range l.Declared.EntityTypes {
		owners, numbered := byNumber(l.Owners[name], l.Declared.Shards)
		in := placement.Input{Shares: shares, Members: members, Owners: owners, Planned: planned(last, name, len(owners))}
		if numbered {
			in.Load = load(loads, name, len(l.Declared.EntityTypes) == 1, len(owners))
		}
		p, err := placement.Assign(in)
		if err != nil {
			return out, fmt.Errorf("planning entity type %s: %w", name, err)
		}
		out.Held = p.Held
		one := v1alpha1.PlacementEntityType{Name: name, Shards: int32(len(owners))} //nolint:gosec // 65,536 at most
		for _, m := range out.Members {
			one.Quotas = append(one.Quotas, int32(p.Members[m.Address])) //nolint:gosec // as above
		}
		if numbered && len(owners) <= left {
			left -= len(owners)
			for _, owner := range p.Owners {
				one.Owners = append(one.Owners, index[owner])
			}
		}
		out.EntityTypes = append(out.EntityTypes, one)
	}
	return out, nil
}

// load returns the load of shards 0 to n-1 of an entity type, or nil if none is known. Counts that name no entity
// type are those of the only one.
func load(loads map[attribution.ShardKey]float64, entityType string, only bool, n int) []float64 {
	out, known := make([]float64, n), false
	for s := range out {
		id := strconv.Itoa(s)
		out[s] = loads[attribution.ShardKey{Entity: entityType, Shard: id}]
		if only {
			out[s] += loads[attribution.ShardKey{Shard: id}]
		}
		known = known || out[s] > 0
	}
	if !known {
		return nil
	}
	return out
}

// planned returns the owners of an entity type in the last plan; nil if it names none, or has another number of shards.
func planned(last *v1alpha1.ShardPlacement, entityType string, shards int) []string {
	if last == nil {
		return nil
	}
	for _, e := range last.Status.EntityTypes {
		if e.Name != entityType || len(e.Owners) != shards {
			continue
		}
		owners := make([]string, shards)
		for s, member := range e.Owners {
			if member >= 0 && int(member) < len(last.Status.Members) {
				owners[s] = last.Status.Members[member].Address
			}
		}
		return owners
	}
	return nil
}

// byNumber returns the owners of shards 0 to n-1. If the ids are not these numbers, it returns the owners in any
// order, and false: then only quotas follow from them.
func byNumber(owners map[string]string, n int) ([]string, bool) {
	out := make([]string, n)
	for id, owner := range owners {
		i, err := strconv.Atoi(id)
		if err != nil || i < 0 || i >= n || strconv.Itoa(i) != id {
			unnumbered := make([]string, 0, len(owners))
			for _, id := range slices.Sorted(maps.Keys(owners)) {
				unnumbered = append(unnumbered, owners[id])
			}
			return unnumbered, false
		}
		out[i] = owner
	}
	return out, true
}

func phase(m LayoutMember) placement.Phase {
	switch {
	case m.Status != "Up" && m.Status != "Joining" && m.Status != "WeaklyUp":
		return placement.Leaving
	case m.Unreachable:
		return placement.Unreachable
	case m.Status != "Up":
		return placement.Joining
	}
	return placement.Up
}

// SamePlan compares plans without what each plan has anew: its version, and the time of its issue.
func SamePlan(a, b v1alpha1.ShardPlacementStatus) bool {
	a.Version, a.IssuedAt = b.Version, b.IssuedAt
	return equality.Semantic.DeepEqual(a, b)
}
