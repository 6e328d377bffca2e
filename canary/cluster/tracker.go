// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// When a cluster counts as settled. Runtimes move shards in rounds about ten seconds
// apart, so the period must be longer than the pause between two rounds.
const (
	stablePolls  = 3
	stablePeriod = 15 * time.Second
)

// confirmPolls is how many polls in a row must agree before trouble starts or ends: two
// nodes never answer at exactly the same moment.
const confirmPolls = 2

// movePatience is how long a member may take to join or leave, or a Ready pod to join.
const movePatience = 20 * time.Second

// Tracker compares each poll of a cluster with earlier polls. Its zero value is ready for use. It is not persisted: a
// new leader starts with an empty Tracker and needs several polls before it reports trouble.
type Tracker struct {
	members []string
	where   map[string]string
	// same counts the equal polls since the time in since.
	same  int
	since time.Time
	// lagging holds the time when each member or pod started to lag.
	lagging map[string]time.Time
	// reported is the confirmed trouble. candidate is what the last polls showed, and times
	// is how many of them in a row.
	reported, candidate map[lifecycle.Incident]*lifecycle.Trouble
	times               int
	regime              string
}

// Next returns the state of the cluster after an observation.
func (t *Tracker) Next(o Observation, now time.Time) lifecycle.Cluster {
	c := lifecycle.Cluster{ClusterStatus: o.seen}
	if o.seen.State == lifecycle.ClusterUnknown {
		// Without answers, trouble neither continues nor ends.
		t.same = 0
		return c
	}
	late := t.late(o, now)
	moved := t.moved(&o)
	if moved || t.same == 0 {
		t.same, t.since = 0, now
	}
	if o.complete {
		t.same++
	}
	t.remember(o)
	c.Trouble = t.trouble(o, late)
	c.Regime = t.regime
	if len(late) > 0 && o.split == nil && o.degraded == nil {
		c.State, c.Note = lifecycle.ClusterDegraded, strings.Join(late, ", ")
	}
	switch {
	case o.seen.State == lifecycle.ClusterScaledToZero:
		c.Settled = t.same >= confirmPolls
	case c.State != lifecycle.ClusterReady && c.State != lifecycle.ClusterUpgrading || !o.complete:
	case len(o.starting)+len(o.lagging) > 0:
		c.Note = few(o.starting, o.lagging)
	case t.same < stablePolls || now.Sub(t.since) < stablePeriod:
		c.Note = "members or shards have moved"
	default:
		c.Settled = true
		t.freeze(&c, o)
	}
	return c
}

// moved reports whether a member came or went, or a shard is new or has moved. A missing
// shard has not moved: a busy region omits its shards.
func (t *Tracker) moved(o *Observation) bool {
	moved := !slices.Equal(o.members, t.members)
	for shard, now := range o.where {
		was, known := t.where[shard]
		if known && was == now {
			continue
		}
		moved = true
		if known && o.seen.State == lifecycle.ClusterUpgrading && slices.Contains(o.members, was) &&
			slices.Contains(t.members, now) {
			// Both members were up before and after, so only rebalancing moves the shard.
			t.regime = lifecycle.RegimeRebalancing
		}
	}
	return moved
}

func (t *Tracker) remember(o Observation) {
	if o.seen.State != lifecycle.ClusterUpgrading {
		t.regime = ""
	}
	where := maps.Clone(o.where)
	for shard, was := range t.where {
		if _, seen := where[shard]; !seen && slices.Contains(o.members, was) {
			where[shard] = was
		}
	}
	t.where, t.members = where, o.members
}

// freeze detects a cluster that does not rebalance: it has settled, but the members of the
// newest Revision hold less than half of their share of the shards.
func (t *Tracker) freeze(c *lifecycle.Cluster, o Observation) {
	if c.State != lifecycle.ClusterUpgrading || t.regime != "" {
		return
	}
	shards, members := 0, 0
	for _, p := range c.Parts {
		if p.Shards == nil {
			return
		}
		shards, members = shards+*p.Shards, members+p.Members
	}
	for _, p := range c.Parts {
		if p.Revision == o.newest && p.Members > 0 && shards >= members && *p.Shards*members*2 < shards*p.Members {
			c.Regime = lifecycle.RegimeFrozen
		}
	}
}

// late describes what has lagged for too long.
func (t *Tracker) late(o Observation, now time.Time) []string {
	lagging := map[string]time.Time{}
	var out []string
	for _, id := range slices.Sorted(maps.Keys(o.lagging)) {
		since, known := t.lagging[id]
		if !known {
			since = now
		}
		lagging[id] = since
		if now.Sub(since) >= movePatience {
			out = append(out, o.lagging[id])
		}
	}
	t.lagging = lagging
	return out[:min(len(out), maxNamed)]
}

// maxNamed limits the pods and members that a message names.
const maxNamed = 8

// few joins the first descriptions.
func few(all ...map[string]string) string {
	var out []string
	for _, m := range all {
		out = append(out, slices.Collect(maps.Values(m))...)
	}
	slices.Sort(out)
	return strings.Join(out[:min(len(out), maxNamed)], ", ")
}

// named joins the first names and counts the others, because a pod may report any number of members.
func named(all []string) string {
	out := strings.Join(all[:min(len(all), maxNamed)], ", ")
	if more := len(all) - maxNamed; more > 0 {
		out += fmt.Sprintf(" and %d more", more)
	}
	return out
}

// trouble returns the confirmed trouble, or nil.
func (t *Tracker) trouble(o Observation, late []string) map[lifecycle.Incident]*lifecycle.Trouble {
	now := map[lifecycle.Incident]*lifecycle.Trouble{}
	switch {
	case o.split != nil:
		now[lifecycle.ClusterSplit] = o.split
	case o.degraded != nil:
		now[lifecycle.ClusterTrouble] = o.degraded
	case len(late) > 0:
		now[lifecycle.ClusterTrouble] = &lifecycle.Trouble{Reason: Lagging, Message: strings.Join(late, ", ")}
	}
	if !sameKinds(now, t.candidate) {
		t.times = 0
	}
	t.candidate = now
	if t.times++; t.times >= confirmPolls {
		t.reported = now
	}
	if len(t.reported) == 0 {
		return nil
	}
	return t.reported
}

func sameKinds(a, b map[lifecycle.Incident]*lifecycle.Trouble) bool {
	return slices.Equal(slices.Sorted(maps.Keys(a)), slices.Sorted(maps.Keys(b)))
}
