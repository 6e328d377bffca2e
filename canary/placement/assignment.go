// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"math"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// Phase is how far a member is in its cluster. The phases are those of Akka and Pekko; other
// runtimes have fewer.
type Phase string

// The phases of a member.
const (
	// Up: it can own shards.
	Up Phase = "Up"
	// Joining: it is on its way, or WeaklyUp. Nothing moves until it is up.
	Joining Phase = "Joining"
	// Leaving: it hands its shards over, and gets none.
	Leaving Phase = "Leaving"
	// Unreachable: its owner does not know whether it lives. It keeps its shards, because they may
	// be active there, and nothing moves until it answers or is removed.
	Unreachable Phase = "Unreachable"
)

// Member is one process of the cluster.
type Member struct {
	// Name is its address, as the runtime gives it.
	Name string
	// Revision is the Knative Revision that its pod belongs to.
	Revision string
	Phase    Phase
}

// Input is what an assignment is made from.
type Input struct {
	// Shares are the effective traffic split, one for each Revision. A Revision that is not among them must handle
	// nothing.
	Shares  []lifecycle.Share
	Members []Member
	// Owners are the names of the members that own each shard now, by shard id. An empty name, or
	// that of a member that has gone, is a shard without an owner.
	Owners []string
	// Moving are the shards that are being handed over, and the member that gets each. They are
	// counted as that member's, and stay with it.
	Moving map[int]string
	// Planned are the owners that the last assignment names, by shard id, or nil. A shard without an owner, such as one
	// that is being handed over, keeps its planned owner while that one has room for it.
	Planned []string
	// Load is the rate of requests of each shard, by shard id, in any unit. Nil: not known.
	Load []float64
}

// Reasons why nothing moves.
const (
	// MemberJoining: a member is not up yet.
	MemberJoining = "MemberJoining"
	// MemberUnreachable: a member does not answer, and is not removed.
	MemberUnreachable = "MemberUnreachable"
	// NoMembers: no Revision with a share has a member that is up.
	NoMembers = "NoMembers"
)

// Assignment says which member must own each shard.
type Assignment struct {
	// Revisions is the number of shards that each Revision must own.
	Revisions map[string]int
	// Members is the number of shards that each member must own.
	Members map[string]int
	// Owners are the names of the members that must own each shard, by shard id. While nothing
	// moves, this is where the shards are, and where those without an owner go. A name is empty
	// only if no member can own a shard.
	Owners []string
	// Moves are the shards that must leave a member that stays, as few as possible. Shards whose
	// owner leaves or has gone move as well, but not by choice: they are not among them.
	Moves []Move
	// Held is the reason why nothing moves by choice. Empty: it may.
	Held string
	// moving is the number of shards that are being handed over.
	moving int
}

// Move is one shard that changes its owner.
type Move struct {
	Shard    int
	From, To string
}

// Assign divides the shards among the members. An input that contradicts itself is an error; it says what is wrong,
// and with which member, Revision or shard.
func Assign(in Input) (Assignment, error) {
	if err := in.check(); err != nil {
		return Assignment{}, err
	}
	c := newCluster(in)
	ready := c.ready(in.Shares)
	held := c.held(ready)
	c.divide(in.Shares, ready)
	p := Assignment{Revisions: map[string]int{}, Members: map[string]int{}, Held: held, moving: len(in.Moving)}
	for _, m := range c.members {
		p.Revisions[m.Revision] += m.quota
		p.Members[m.Name] = m.quota
	}
	p.Owners, p.Moves = c.assign(held != "", in)
	return p, nil
}

// Next returns the moves to begin now. At most atOnce shards are handed over at a time, and no more
// than a tenth of all of them, but always one.
func (a Assignment) Next(atOnce int) []Move {
	atOnce = max(1, min(atOnce, len(a.Owners)/10)) - a.moving
	return a.Moves[:max(0, min(atOnce, len(a.Moves)))]
}

func (in Input) check() error {
	total := int64(0)
	seen := map[string]bool{}
	for _, s := range in.Shares {
		if s.Percent < 0 || s.Percent > 100 {
			return fmt.Errorf("revision %q has %d %% of the traffic: it must be from 0 to 100", s.Revision, s.Percent)
		}
		if seen[s.Revision] {
			return fmt.Errorf("revision %q has two shares: there must be one, the sum", s.Revision)
		}
		seen[s.Revision] = true
		total += s.Percent
	}
	if total == 0 {
		return fmt.Errorf("none of %d Revisions has a share of the traffic: one must", len(in.Shares))
	}
	members := map[string]bool{}
	for _, m := range in.Members {
		if m.Name == "" || members[m.Name] {
			return fmt.Errorf("two members have the name %q, or one has none: names must be unique", m.Name)
		}
		members[m.Name] = true
		switch m.Phase {
		case Up, Joining, Leaving, Unreachable:
		default:
			return fmt.Errorf("member %q is %q: it must be %s, %s, %s or %s", m.Name, m.Phase, Up, Joining, Leaving, Unreachable)
		}
	}
	for s, to := range in.Moving {
		if s < 0 || s >= len(in.Owners) {
			return fmt.Errorf("shard %d moves to %q: there are only %d shards", s, to, len(in.Owners))
		}
	}
	if in.Load != nil && len(in.Load) != len(in.Owners) {
		return fmt.Errorf("the load of %d shards is known, but there are %d", len(in.Load), len(in.Owners))
	}
	if in.Planned != nil && len(in.Planned) != len(in.Owners) {
		return fmt.Errorf("the last plan has %d shards, but there are %d", len(in.Planned), len(in.Owners))
	}
	for s, l := range in.Load {
		if !(l >= 0) || math.IsInf(l, 1) {
			return fmt.Errorf("shard %d has a load of %v: it must be a rate of 0 or more", s, l)
		}
	}
	return nil
}
