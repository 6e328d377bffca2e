// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"flag"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/canary/placement"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

var sequences = flag.Int("sequences", 20_000, "how many random sequences of joins, leaves and splits to try")

// Each plan of a cluster that changes at random gives every shard one owner, and moves as few shards as any other plan
// with the same quotas would.
func TestSequences(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for range *sequences {
		in := randomInput(rng)
		for range 4 {
			p := plan(t, in)
			judge(t, in, p)
			in = change(rng, in, p)
			if t.Failed() {
				return
			}
		}
	}
}

// change begins some moves of the plan, and changes the cluster.
func change(rng *rand.Rand, in placement.Input, p placement.Assignment) placement.Input {
	next := randomInput(rng)
	next.Owners, next.Planned, next.Moving = slices.Clone(p.Owners), p.Owners, map[int]string{}
	for i, m := range p.Moves {
		switch {
		case i >= len(p.Next(3)):
			next.Owners[m.Shard] = m.From
		case rng.IntN(2) == 0:
			next.Owners[m.Shard], next.Moving[m.Shard] = m.From, m.To
		case rng.IntN(2) == 0:
			next.Owners[m.Shard] = "" // neither member names it
		}
	}
	switch rng.IntN(3) {
	case 0:
		next.Members = in.Members // another split
	case 1:
		next.Shares = in.Shares // other members
	}
	return next
}

// judge compares a plan with every plan there is.
func judge(t *testing.T, in placement.Input, p placement.Assignment) {
	t.Helper()
	members := map[string]placement.Member{}
	up := 0
	for _, m := range in.Members {
		members[m.Name] = m
		if m.Phase == placement.Up {
			up++
		}
	}
	byChoice := 0
	for s, owner := range p.Owners {
		if owner == "" && up == 0 {
			continue
		}
		before := in.Owners[s]
		to, moving := in.Moving[s]
		if moving {
			before = to
		}
		m, known := members[owner]
		if !known || owner != before && m.Phase != placement.Up {
			t.Errorf("shard %d goes to %q, which is not up: %+v", s, owner, in)
		}
		if stays(members, before) && owner != before {
			byChoice++
			if moving {
				t.Errorf("shard %d moves again: %+v", s, in)
			}
		}
	}
	if byChoice != len(p.Moves) || p.Held != "" && byChoice > 0 {
		t.Errorf("%d shards move, %d moves are named, held %q: %+v", byChoice, len(p.Moves), p.Held, in)
	}
	if p.Held != "" || len(in.Moving) > 0 {
		return
	}
	if best := optimum(in, members); byChoice != best {
		t.Errorf("%d moves, %d suffice: %+v\n%+v", byChoice, best, in, p)
	}
	owned := map[string]int{}
	for _, owner := range p.Owners {
		owned[owner]++
	}
	for name, n := range p.Members {
		if owned[name] != n {
			t.Errorf("member %q gets %d shards, its quota is %d: %+v", name, owned[name], n, in)
		}
	}
}

func stays(members map[string]placement.Member, name string) bool {
	m, known := members[name]
	return known && m.Phase != placement.Leaving
}

// optimum tries all numbers of shards for all members, and returns the fewest moves of those that keep the quotas:
// each Revision within Hamilton's method, ties either way, and its members as even as they can be.
func optimum(in placement.Input, members map[string]placement.Member) int {
	owned := map[string]int{}
	for _, o := range in.Owners {
		if stays(members, o) {
			owned[o]++
		}
	}
	weights, total := map[string]int{}, 0
	var up []placement.Member
	for _, m := range in.Members {
		i := slices.IndexFunc(in.Shares, func(s lifecycle.Share) bool { return s.Revision == m.Revision && s.Percent > 0 })
		if i < 0 || m.Phase != placement.Up {
			continue
		}
		up = append(up, m)
		if weights[m.Revision] == 0 {
			weights[m.Revision] = int(in.Shares[i].Percent)
			total += int(in.Shares[i].Percent)
		}
	}
	best := len(in.Owners) + 1
	numbers := make([]int, len(up))
	var try func(i, left int)
	try = func(i, left int) {
		if i < len(up) {
			for n := range left + 1 {
				numbers[i] = n
				try(i+1, left-n)
			}
			return
		}
		if left > 0 || !fair(up, numbers, weights, total, len(in.Owners)) {
			return
		}
		moves := 0
		for name, n := range owned {
			quota := 0
			if i := slices.IndexFunc(up, func(m placement.Member) bool { return m.Name == name }); i >= 0 {
				quota = numbers[i]
			}
			moves += max(0, n-quota)
		}
		best = min(best, moves)
	}
	try(0, len(in.Owners))
	return best
}

// fair reports whether no seat could pass from one Revision to another with a larger remainder (which is what makes
// Hamilton's method the one that minimises the sum of squared errors), and members of one Revision differ by one at
// most.
func fair(up []placement.Member, numbers []int, weights map[string]int, total, shards int) bool {
	of := map[string]int{}
	for i, m := range up {
		of[m.Revision] += numbers[i]
		for j, other := range up {
			if other.Revision == m.Revision && numbers[j] < numbers[i]-1 {
				return false
			}
		}
	}
	for r, n := range of {
		for s, k := range of {
			// One seat from r to s must not bring both closer to their exact parts.
			if r != s && n > 0 && squared(n, weights[r], total, shards)+squared(k, weights[s], total, shards) >
				squared(n-1, weights[r], total, shards)+squared(k+1, weights[s], total, shards) {
				return false
			}
		}
	}
	return true
}

func squared(n, weight, total, shards int) int {
	d := n*total - weight*shards
	return d * d
}
