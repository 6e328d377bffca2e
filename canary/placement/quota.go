// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"
	"strings"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// member is what is known of a member while a plan is made.
type member struct {
	Member
	// shards are those it owns, in the order of their ids.
	shards []int
	// planned are the shards without an owner that the last plan gives it, and pending those of its own that the last
	// plan gives to another member.
	planned []int
	pending []pendingMove
	// incoming is how many pending moves lead to it.
	incoming int
	// quota is how many it must own.
	quota int
	// share is the part of all the load that it must handle.
	share float64
}

type pendingMove struct {
	shard int
	to    *member
}

// stays reports whether the member keeps shards if nothing moves.
func (m *member) stays() bool { return m.Phase != Leaving }

func (m *member) owned() int { return len(m.shards) }

// expected is how many shards it will own by the last plan.
func (m *member) expected() int {
	return len(m.shards) + len(m.planned) - len(m.pending) + m.incoming
}

// cluster is the input, seen from the members.
type cluster struct {
	// members are in the order in which they are served: a larger part first.
	members []*member
	// orphans are the shards without an owner that stays.
	orphans []int
	shards  int
}

func newCluster(in Input) *cluster {
	c := &cluster{shards: len(in.Owners)}
	byName := make(map[string]*member, len(in.Members))
	for _, m := range in.Members {
		n := &member{Member: m}
		byName[m.Name] = n
		c.members = append(c.members, n)
	}
	for s, owner := range in.Owners {
		if to, moving := in.Moving[s]; moving {
			owner = to
		}
		m, planned := byName[owner], (*member)(nil)
		if in.Planned != nil {
			if planned = byName[in.Planned[s]]; planned != nil && planned.Phase != Up {
				planned = nil
			}
		}
		switch {
		case m == nil || !m.stays():
			c.orphans = append(c.orphans, s)
			if planned != nil {
				planned.planned = append(planned.planned, s)
			}
			continue
		case planned != nil && planned != m:
			m.pending = append(m.pending, pendingMove{s, planned})
			planned.incoming++
		}
		m.shards = append(m.shards, s)
	}
	slices.SortFunc(c.members, compareMembers)
	return c
}

// compareMembers puts the member that owns most first. Names decide only between members that own nothing.
func compareMembers(a, b *member) int {
	return cmp.Or(
		cmp.Compare(b.owned(), a.owned()),
		slices.Compare(a.shards, b.shards),
		strings.Compare(a.Revision, b.Revision),
		strings.Compare(a.Name, b.Name),
	)
}

// held returns why nothing may move by choice.
func (c *cluster) held(ready map[string][]*member) string {
	if len(ready) == 0 {
		return NoMembers
	}
	for _, phase := range []struct {
		Phase
		reason string
	}{{Unreachable, MemberUnreachable}, {Joining, MemberJoining}} {
		if slices.ContainsFunc(c.members, func(m *member) bool { return m.Phase == phase.Phase }) {
			return phase.reason
		}
	}
	return ""
}

// ready returns the members that are up, by Revision. Only Revisions with a share are among them.
func (c *cluster) ready(shares []lifecycle.Share) map[string][]*member {
	ready := map[string][]*member{}
	for _, s := range shares {
		for _, m := range c.members {
			if s.Percent > 0 && m.Revision == s.Revision && m.Phase == Up {
				ready[s.Revision] = append(ready[s.Revision], m)
			}
		}
	}
	return ready
}

// divide sets the quota of each member. What a Revision without members cannot handle goes to the others, in
// proportion. If no Revision with a share has members, every member gets an equal part.
func (c *cluster) divide(shares []lifecycle.Share, ready map[string][]*member) {
	if len(ready) == 0 {
		all := &party{weight: 1}
		for _, m := range c.members {
			if m.Phase == Up {
				all.members = append(all.members, m)
			}
		}
		if len(all.members) > 0 {
			all.seat(c.shards, 1)
		}
		return
	}
	var parties []*party
	weights, total := []int{}, 0
	for _, s := range shares {
		if len(ready[s.Revision]) > 0 {
			parties = append(parties, &party{weight: int(s.Percent), members: ready[s.Revision]})
			weights = append(weights, int(s.Percent))
			total += int(s.Percent)
		}
	}
	numbers := apportion(weights, c.shards, func(a,
		b int,
	) int {
		return compareParties(parties[a], parties[b], c.shards, total)
	})
	for i, p := range parties {
		p.seat(numbers[i], float64(p.weight)/float64(total))
	}
}

// party is a Revision that gets shards.
type party struct {
	weight  int
	members []*member
}

// quota is how many of a number of shards the i-th member gets.
func (p *party) quota(i, number int) int {
	if i < number%len(p.members) {
		return number/len(p.members) + 1
	}
	return number / len(p.members)
}

// seat divides a number of shards among the members. The extra ones go to those that own more than the others get, so
// that the fewest shards move, and then to those that will own most, so that the last plan stays.
func (p *party) seat(number int, share float64) {
	p.order(number / len(p.members))
	for i, m := range p.members {
		m.quota = p.quota(i, number)
		if number > 0 {
			m.share = share * float64(m.quota) / float64(number)
		}
	}
}

// surplus returns how many shards the members would have to give if they had a number in all.
func (p *party) surplus(number int) int {
	p.order(number / len(p.members))
	surplus := 0
	for i, m := range p.members {
		surplus += max(0, m.owned()-p.quota(i, number))
	}
	return surplus
}

// order puts the members first that get the extra shards, if all get that many.
func (p *party) order(all int) {
	more := func(m *member) int {
		if m.owned() > all {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(p.members, func(a, b *member) int {
		return cmp.Or(cmp.Compare(more(b), more(a)), cmp.Compare(b.expected(), a.expected()), compareMembers(a, b))
	})
}

func (p *party) expected() int {
	expected := 0
	for _, m := range p.members {
		expected += m.expected()
	}
	return expected
}

// compareParties decides which of two Revisions with the same remainder gets one shard more: the one that would have
// to give one up, then the one that by the last plan will own more than all get, so that the plan stays.
func compareParties(a, b *party, shards, total int) int {
	floor := func(p *party) int { return p.weight * shards / total }
	gain := func(p *party) int { return p.surplus(floor(p)) - p.surplus(floor(p)+1) }
	return cmp.Or(
		cmp.Compare(gain(b), gain(a)),
		cmp.Compare(b.expected()-floor(b), a.expected()-floor(a)),
		compareMembers(a.members[0], b.members[0]),
	)
}
