// SPDX-License-Identifier: Apache-2.0

package lifecycle

import "slices"

// Modes of a Placement.
const (
	// PlacementEnforce: the members are to follow the plan.
	PlacementEnforce = "enforce"
	// PlacementObserve: the plan only shows what would be right.
	PlacementObserve = "observe"
)

// Placement is how far a cluster follows the plan of which member must own each shard.
type Placement struct {
	// Mode is PlacementEnforce, PlacementObserve, or empty for a cluster without a plan.
	Mode string `json:"mode,omitempty"`
	// Pending counts the shards that are not where the plan wants them.
	Pending int `json:"pending"`
	// Moves counts the shards that moved from one living member to another since the plan is for
	// this split, as far as the poller observed them.
	Moves int `json:"moves"`
	// Split is the traffic split that the plan is for.
	Split Split `json:"split,omitempty"`
	// Coordinator is the Revision of the member that assigns the shards, if that Revision does not
	// declare PlacementEnforce. Empty if it does, or if the member is not known.
	Coordinator string `json:"coordinator,omitempty"`
}

// PlacementMemory is what the memory holds of the placement in a cluster.
type PlacementMemory struct {
	// Split is the last split whose placement was announced, or that was in place from the start. It is empty
	// once another split was announced.
	Split Split `json:"split,omitempty"`
	// Coordinator is that of the Placement.
	Coordinator string `json:"coordinator,omitempty"`
}

// placed announces, once for each change of the traffic split, that every shard is where the plan wants it.
func (b *builder) placed(c *ClusterMemory, v *Cluster) {
	p := v.Placement
	if p == nil {
		return // unknown
	}
	if p.Mode != PlacementEnforce {
		c.Placement = nil
		return
	}
	if !slices.Equal(p.Split, b.m.Traffic) || len(p.Split) == 0 {
		return // the plan or the traffic lags behind the other
	}
	var was PlacementMemory
	inherited := c.Placement == nil
	if !inherited {
		was = *c.Placement
	}
	c.Placement = &PlacementMemory{Split: was.Split, Coordinator: p.Coordinator}
	if p.Pending > 0 || slices.Equal(was.Split, p.Split) || !allHaveMembers(v, p.Split) {
		return
	}
	c.Placement.Split = p.Split
	if !inherited {
		b.emit(Transition{
			Type: ClusterRebalanced, Revision: b.newestMember(v), Links: b.m.Last.link(LinkPath),
			Cluster: b.clusterDetails(v.Settled),
		})
	}
}

// displace forgets the split that is in place if a transition announces another one: a return to it is a change too.
func (b *builder) displace(t Transition) {
	c := b.m.Cluster
	if t.Type != TrafficShifted && t.Type != Upgraded && t.Type != RolledBack || c.placement() == nil ||
		slices.Equal(c.Placement.Split, t.Traffic) {
		return
	}
	c.Placement = &PlacementMemory{Coordinator: c.Placement.Coordinator}
}

// allHaveMembers reports whether every Revision of a split has members.
func allHaveMembers(v *Cluster, split Split) bool {
	return !slices.ContainsFunc(split, func(s Share) bool {
		return !slices.ContainsFunc(v.Parts, func(p ClusterPart) bool { return p.Revision == s.Revision && p.Members > 0 })
	})
}

// mustSave reports whether a placement differs in what is not announced.
func (p *PlacementMemory) mustSave(saved *PlacementMemory) bool {
	if p == nil || saved == nil {
		return p != saved
	}
	return p.Coordinator != saved.Coordinator
}

// placement is what is remembered of the cluster's placement, or nil.
func (c *ClusterMemory) placement() *PlacementMemory {
	if c == nil {
		return nil
	}
	return c.Placement
}
