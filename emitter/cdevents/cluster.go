// SPDX-License-Identifier: Apache-2.0

package cdevents

import (
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// Cluster describes, in our events, the stateful cluster that the pods of a Service form, across
// all its Revisions.
type Cluster struct {
	// Runtime is the declared runtime.
	Runtime string `json:"runtime,omitempty"`
	// State is Forming, Ready, Upgrading, Degraded, Split, ScaledToZero or Unknown.
	State string `json:"state,omitempty"`
	// Regime is Rebalancing or Frozen, if it could be determined.
	Regime string `json:"regime,omitempty"`
	// Members lists the members of each Revision.
	Members []ClusterPart `json:"members,omitempty"`
	// Note says what could not be determined, or what has not settled.
	Note string `json:"note,omitempty"`
	// Placement is absent without a plan of which member must own each shard.
	Placement *Placement `json:"placement,omitempty"`
}

// Placement is how far a cluster follows its plan.
type Placement struct {
	// Mode is enforce or observe.
	Mode string `json:"mode"`
	// Pending counts the shards that are not where the plan wants them.
	Pending int `json:"pending"`
	// Moves counts the shards that moved from one living member to another for this traffic split.
	Moves int `json:"moves"`
}

// ClusterPart is one Revision's part of a cluster.
type ClusterPart struct {
	Revision string `json:"revision"`
	Pods     int    `json:"pods"`
	Members  int    `json:"members"`
	// Shards is absent if unknown.
	Shards *int `json:"shards,omitempty"`
	// RequiredShards is how many the plan gives to the Revision; absent without a plan.
	RequiredShards *int `json:"requiredShards,omitempty"`
}

// maxMembers bounds the number of Revisions in an event.
const maxMembers = 32

func cluster(t lifecycle.Transition, n *notes) (c *Cluster, settled *bool) {
	if t.Cluster == nil {
		return nil, nil
	}
	from := *t.Cluster
	c = &Cluster{Runtime: from.Runtime, State: string(from.State), Regime: from.Regime, Note: from.Note}
	if p := from.Placement; p != nil {
		c.Placement = &Placement{Mode: p.Mode, Pending: p.Pending, Moves: p.Moves}
	}
	for i, p := range from.Parts {
		if i == maxMembers {
			n.add("customData.cluster.members", "Revisions after the first %d left out", maxMembers)
			break
		}
		c.Members = append(c.Members, ClusterPart(p))
	}
	if t.Type == lifecycle.ClusterRemoved {
		return c, nil
	}
	return c, &from.Settled
}
