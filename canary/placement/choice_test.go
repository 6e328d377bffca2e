// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"slices"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/canary/placement"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// twoMembers is a cluster of two Revisions with one member each. All shards are in the first.
func twoMembers(shards, percent int) placement.Input {
	return placement.Input{
		Shares: []lifecycle.Share{
			{Revision: "v1", Percent: int64(100 - percent)},
			{Revision: "v2", Percent: int64(percent)},
		},
		Members: []placement.Member{
			{Name: "a", Revision: "v1", Phase: placement.Up},
			{Name: "b", Revision: "v2", Phase: placement.Up},
		},
		Owners: slices.Repeat([]string{"a"}, shards),
	}
}

// Of the loads of shards, the one that is closest to what a member lacks is chosen, whether it is above or below.
func TestTheClosestLoadIsChosen(t *testing.T) {
	for name, c := range map[string]struct {
		load []float64
		want int
	}{
		"the closest is below":     {[]float64{36, 5, 24, 35}, 2},
		"the closest is above":     {[]float64{11, 49, 30, 10}, 2},
		"none is above":            {[]float64{24.9, 25, 25, 25.1}, 1},
		"all below are much lower": {[]float64{1, 2, 48, 49}, 2},
	} {
		in := twoMembers(4, 25)
		in.Load = c.load
		p := plan(t, in)
		if len(p.Moves) != 1 || in.Load[p.Moves[0].Shard] != in.Load[c.want] {
			t.Errorf("%s: %v of %v, want shard %d", name, p.Moves, in.Load, c.want)
		}
	}
}

// Ids of shards often mean something, such as a tenant or an age. The shards that move, and those that move first,
// come from everywhere.
func TestMovesAreAFairSample(t *testing.T) {
	for name, load := range map[string][]float64{
		"no load is known":       nil,
		"all loads are the same": slices.Repeat([]float64{3}, 100),
	} {
		in := twoMembers(100, 50)
		in.Load = load
		p := plan(t, in)
		low := func(moves []placement.Move) int {
			return len(slices.DeleteFunc(slices.Clone(moves), func(m placement.Move) bool { return m.Shard >= 50 }))
		}
		if n := low(p.Moves); len(p.Moves) != 50 || n < 15 || n > 35 {
			t.Errorf("%s: %d of %d moves are of the lower half", name, n, len(p.Moves))
		}
		if n := low(p.Next(100)); len(p.Next(100)) != 10 || n < 2 || n > 8 {
			t.Errorf("%s: %d of the first ten moves are of the lower half: %v", name, n, p.Next(100))
		}
	}
}

// Of the moves to several members, none waits for all of another's.
func TestMembersGetTheirShardsTogether(t *testing.T) {
	in := twoMembers(100, 50)
	in.Members = append(in.Members, placement.Member{Name: "c", Revision: "v2", Phase: placement.Up})
	first, toB := plan(t, in).Next(100), 0
	for _, m := range first {
		if m.To == "b" {
			toB++
		}
	}
	if len(first) != 10 || toB < 2 || toB > 8 {
		t.Errorf("%d of the first ten moves are to one of two members: %v", toB, first)
	}
}

// Two Revisions have the same remainder. The one that gets the extra shard by the last plan keeps it, although the
// other one has more of its shards by now: if it passed to that one, shards would move that the first plan left.
func TestTheExtraShardStaysWhileShardsMove(t *testing.T) {
	in := placement.Input{
		Shares: []lifecycle.Share{{Revision: "v1", Percent: 35}, {Revision: "v2", Percent: 65}},
		Members: []placement.Member{
			{Name: "old", Revision: "v0", Phase: placement.Up},
			{Name: "a", Revision: "v1", Phase: placement.Up},
			{Name: "b", Revision: "v2", Phase: placement.Up},
		},
		Owners: slices.Repeat([]string{"old"}, 10),
	}
	first := plan(t, in)
	in.Planned = first.Owners
	for _, to := range []string{"b", "a"} {
		for _, m := range first.Moves {
			if m.To != to {
				continue
			}
			in.Owners[m.Shard] = to
			if again := plan(t, in); !slices.Equal(again.Owners, first.Owners) {
				t.Fatalf("shard %d has moved to %s, and the plan changed from %v to %v", m.Shard, to, first.Members, again.Members)
			}
		}
	}
}
