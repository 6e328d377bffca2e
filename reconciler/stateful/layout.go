// SPDX-License-Identifier: Apache-2.0

package stateful

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// Layout is the location of all shards of a cluster, from one poll of all members.
type Layout struct {
	// UID of the Service.
	UID types.UID
	// Declared is what the newest Revision declares.
	Declared v1alpha1.Stateful
	// Members are sorted by address. They and Owners are only known of a cluster that asks for a plan.
	Members []LayoutMember
	// Owners are the addresses of the members that hold each shard, by entity type and shard id.
	Owners map[string]map[string]string
	// Oldest is the address of the oldest member, whose coordinator assigns the shards; empty if the members
	// disagree, or do not say.
	Oldest string
}

// LayoutMember is a member of the cluster whose pod belongs to the Service.
type LayoutMember struct {
	Address, Pod, Revision string
	// Status is that of the runtime: Joining, WeaklyUp, Up, Leaving, Exiting or Down. It is Leaving as
	// soon as the pod is being deleted, even if the member has not noticed yet.
	Status      string
	Unreachable bool
	// Placement is what its Revision declares.
	Placement v1alpha1.PlacementMode
}

// Placement is how far a cluster follows its plan.
type Placement struct {
	lifecycle.Placement
	// Required is the number of shards that the plan gives to each Revision.
	Required map[string]int
}

// in adds the placement to a cluster.
func (p *Placement) in(c *lifecycle.Cluster) {
	if p == nil {
		return
	}
	c.Placement = &p.Placement
	for i, part := range c.Parts {
		if n, ok := p.Required[part.Revision]; ok {
			c.Parts[i].RequiredShards = &n
		}
	}
}

// layout returns the location of all shards. The answers must be complete and from one cluster.
func layout(uid types.UID, subjects []subject, answers map[string]answer) Layout {
	l := Layout{UID: uid, Declared: newest(subjects).declared}
	if l.Declared.Placement == "" {
		return l
	}
	l.Owners = map[string]map[string]string{}
	members, unreachable, oldest := map[string]Member{}, map[string]bool{}, map[string]bool{}
	for _, a := range answers {
		oldest[a.members.Oldest] = true
		for _, m := range a.members.Members {
			if was, known := members[m.Node]; !known || progress(m.Status) > progress(was.Status) {
				members[m.Node] = m
			}
		}
		for _, u := range a.members.Unreachable {
			unreachable[u.Node] = true
		}
	}
	addresses := map[string]string{}
	for _, address := range slices.Sorted(maps.Keys(members)) {
		if members[address].Status == "Removed" {
			continue
		}
		for _, s := range subjects {
			if s.pod.IP == "" || s.pod.IP != host(address) {
				continue
			}
			one := LayoutMember{Address: address, Pod: s.pod.Name, Revision: s.pod.Revision, Status: members[address].Status, Unreachable: unreachable[address], Placement: s.declared.Placement}
			if !s.pod.Deleting.IsZero() {
				one.Status = "Leaving"
			}
			addresses[s.pod.IP] = address
			l.Members = append(l.Members, one)
			break
		}
	}
	for ip, a := range answers {
		for entityType, held := range a.shards {
			if l.Owners[entityType] == nil {
				l.Owners[entityType] = map[string]string{}
			}
			for _, id := range held {
				l.Owners[entityType][id] = addresses[ip]
			}
		}
	}
	if len(oldest) == 1 {
		l.Oldest = slices.Collect(maps.Keys(oldest))[0]
	}
	return l
}

// progress orders the statuses of a member. Nodes learn of a change at different times, but a status never
// goes back.
func progress(status string) int {
	return slices.Index([]string{"Joining", "WeaklyUp", "Up", "Leaving", "Exiting", "Down", "Removed"}, status)
}
