// SPDX-License-Identifier: Apache-2.0

package cluster

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

// AddTo adds the placement to the state of a cluster. It adds nothing if p is nil: the placement is unknown.
func (p *Placement) AddTo(c *lifecycle.Cluster) {
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

// LayoutOf returns the location of all shards. The observation of these answers must be Whole.
func LayoutOf(uid types.UID, pods []*Pod, answers map[string]Answer) Layout {
	members, unreachable, oldest := map[string]Member{}, map[string]bool{}, map[string]bool{}
	for _, a := range answers {
		if len(a.Members.Members) == 0 {
			continue // it has not joined
		}
		oldest[a.Members.Oldest] = true
		for _, m := range a.Members.Members {
			if was, known := members[m.Node]; !known || order(m.Status) > order(was.Status) {
				members[m.Node] = m
			}
		}
		for _, u := range a.Members.Unreachable {
			unreachable[u.Node] = true
		}
	}
	maps.DeleteFunc(members, func(_ string, m Member) bool { return m.Status == "Removed" })
	l := Layout{UID: uid, Declared: Newest(joined(pods, members)).Declared}
	if l.Declared.Placement == "" {
		return l
	}
	l.Owners = map[string]map[string]string{}
	addresses := map[string]string{}
	for _, address := range slices.Sorted(maps.Keys(members)) {
		for _, s := range pods {
			if s.IP == "" || s.IP != host(address) {
				continue
			}
			one := LayoutMember{
				Address: address, Pod: s.Name, Revision: s.Revision, Status: members[address].Status,
				Unreachable: unreachable[address], Placement: s.Declared.Placement,
			}
			if s.Deleting {
				one.Status = "Leaving"
			}
			addresses[s.IP] = address
			l.Members = append(l.Members, one)
			break
		}
	}
	for ip, a := range answers {
		for entityType, held := range a.Shards {
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

// joined returns the pods that are members; all if none is. A Revision that never starts has no say in the plan of
// those that run.
func joined(pods []*Pod, members map[string]Member) []*Pod {
	addresses := map[string]bool{}
	for address := range members {
		addresses[host(address)] = true
	}
	out := slices.DeleteFunc(slices.Clone(pods), func(s *Pod) bool { return !addresses[s.IP] })
	if len(out) == 0 {
		return pods
	}
	return out
}

// order orders the statuses of a member. Nodes learn of a change at different times, but a status never
// goes back.
func order(status string) int {
	return slices.Index([]string{"Joining", "WeaklyUp", "Up", "Leaving", "Exiting", "Down", "Removed"}, status)
}
