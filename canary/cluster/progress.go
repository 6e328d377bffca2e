// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// HandOverTimeout is the longest that a shard that no member names counts as being handed over. Akka and Pekko give
// up after 60 s (hand-off-timeout); polls are at most 15 s apart. After that, the shard has ended.
const HandOverTimeout = 75 * time.Second

// Target is a Revision and an entity type.
type Target struct{ Revision, EntityType string }

// Progress is how far a cluster follows its plan. Its zero value is that of a cluster that was not observed yet. It
// is never changed: Next returns another one.
type Progress struct {
	// Targets are the shards that each Revision must own.
	Targets map[Target]int
	// Pending are the shards that are not where the plan wants them, and Moves those that moved from one living member to
	// another, by entity type.
	Pending, Moves map[string]int
	// Unknown says that shards may be moving that no member lists, so that it is not known whether the plan is
	// followed.
	Unknown bool

	members map[string]bool
	// owners are the members that held each shard last, by entity type and shard id, and missing is since when no member
	// names a shard that one held.
	owners  map[string]map[string]string
	missing map[string]map[string]time.Time
	// inherited is when this process first observed a cluster that had a plan already; zero if it had none.
	inherited time.Time
	// split is the one that the plan is for, and earlier the moves for other ones.
	split   lifecycle.Split
	earlier int
}

// Next compares a poll of a cluster with its plan, and with the last poll. The placement says how far the cluster
// follows the plan; it is nil if that is unknown. inherited says whether the cluster had a plan before this process
// made one: then the last shards may be on their way.
func (p *Progress) Next(
	l Layout, plan v1alpha1.ShardPlacementStatus, inherited bool, at time.Time,
) (next *Progress, placement *Placement) {
	was := p
	if was == nil {
		was = &Progress{}
		if inherited {
			was.inherited = at
		}
	}
	now := &Progress{
		Targets: map[Target]int{}, Pending: map[string]int{}, Moves: map[string]int{}, members: map[string]bool{},
		owners: map[string]map[string]string{}, missing: map[string]map[string]time.Time{}, inherited: was.inherited,
	}
	maps.Copy(now.Moves, was.Moves)
	for _, member := range l.Members {
		now.members[member.Address] = true
	}
	for _, e := range plan.EntityTypes {
		for i, quota := range e.Quotas {
			now.Targets[Target{plan.Members[i].Revision, e.Name}] += int(quota)
		}
		now.remember(was, e.Name, l.Owners[e.Name], at)
		now.Pending[e.Name] = pending(now.owners[e.Name], plan, e)
		for id, owner := range now.owners[e.Name] {
			if before, known := was.owners[e.Name][id]; known && before != owner && now.members[before] && was.members[owner] {
				now.Moves[e.Name]++
			}
		}
	}
	now.split, now.earlier = splitOf(plan), was.earlier
	if !slices.Equal(now.split, was.split) {
		now.earlier = now.moves()
	}
	out := &Placement{Required: map[string]int{}}
	out.Mode, out.Split, out.Moves, out.Coordinator = string(plan.Mode), now.split, now.moves()-now.earlier, coordinator(l)
	for _, n := range now.Pending {
		out.Pending += n
	}
	for of, n := range now.Targets {
		out.Required[of.Revision] += n
	}
	if now.Unknown = out.Pending == 0 && now.unowned(plan) && at.Sub(now.inherited) < HandOverTimeout; now.Unknown {
		return now, nil
	}
	return now, out
}

// moves is how many shards moved while this process watched.
func (p *Progress) moves() int {
	n := 0
	for _, moves := range p.Moves {
		n += moves
	}
	return n
}

func splitOf(plan v1alpha1.ShardPlacementStatus) lifecycle.Split {
	var out []lifecycle.Share
	for _, r := range plan.Revisions {
		out = append(out, lifecycle.Share{Revision: r.Name, Percent: int64(r.Percent)})
	}
	return lifecycle.NewSplit(out)
}

// coordinator returns the Revision of the oldest member if it does not declare that plans are followed.
func coordinator(l Layout) string {
	for _, m := range l.Members {
		if m.Address == l.Oldest && m.Placement != v1alpha1.PlacementEnforce {
			return m.Revision
		}
	}
	return ""
}

// remember stores the owners of the shards of an entity type. A shard that no member names is being handed over, and
// keeps its last owner for a while.
func (p *Progress) remember(was *Progress, entityType string, named map[string]string, at time.Time) {
	owners, missing := maps.Clone(named), map[string]time.Time{}
	if owners == nil {
		owners = map[string]string{}
	}
	for id, owner := range was.owners[entityType] {
		if _, is := named[id]; is || !p.members[owner] {
			continue
		}
		since, known := was.missing[entityType][id]
		if !known {
			since = at
		}
		if at.Sub(since) < HandOverTimeout {
			owners[id], missing[id] = owner, since
		}
	}
	p.owners[entityType], p.missing[entityType] = owners, missing
}

// unowned reports whether a shard that the plan names has no owner that is known: it was never used, or is being
// handed over.
func (p *Progress) unowned(plan v1alpha1.ShardPlacementStatus) bool {
	return slices.ContainsFunc(plan.EntityTypes, func(e v1alpha1.PlacementEntityType) bool {
		return len(p.owners[e.Name]) < len(e.Owners)
	})
}

// pending returns how many shards are not where the plan wants them. With quotas only, these are the shards above a
// member's quota; and so they are while nothing moves, because the plan then names the present owners.
func pending(owners map[string]string, plan v1alpha1.ShardPlacementStatus, e v1alpha1.PlacementEntityType) int {
	n := 0
	if e.Owners == nil || plan.Held != "" {
		owned := map[string]int{}
		for _, owner := range owners {
			owned[owner]++
		}
		for i, quota := range e.Quotas {
			n += max(0, owned[plan.Members[i].Address]-int(quota))
		}
		return n
	}
	for shard, want := range e.Owners {
		if have := owners[strconv.Itoa(shard)]; have != "" && (want < 0 || plan.Members[want].Address != have) {
			n++
		}
	}
	return n
}
