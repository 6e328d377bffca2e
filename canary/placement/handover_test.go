// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/canary/placement"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// A shard that is being handed over has no owner when the members are polled. It lands where the plan wanted it when
// it left, so a later plan must not send it elsewhere.
func TestNoShardMovesTwice(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	for range 300 {
		in := sixMembers()
		for _, percent := range []int64{5, 20, 50, 100, 0} {
			in.Shares = []lifecycle.Share{{Revision: "v0", Percent: 100 - percent}, {Revision: "v1", Percent: percent}}
			first := plan(t, in)
			moved := rollout(t, rng, &in, false)
			for s, n := range moved {
				if n > 1 {
					t.Fatalf("to %d %%: shard %d moves %d times", percent, s, n)
				}
			}
			if len(moved) != len(first.Moves) {
				t.Fatalf("to %d %%: %d shards move, %d are enough", percent, len(moved), len(first.Moves))
			}
		}
	}
}

// sixMembers is a cluster of two Revisions, with all shards in the first.
func sixMembers() placement.Input {
	in := placement.Input{Owners: make([]string, 100)}
	for i := range 6 {
		in.Members = append(in.Members, placement.Member{
			Name: fmt.Sprintf("m%d", i), Revision: fmt.Sprintf("v%d", i/3),
			Phase: placement.Up,
		})
	}
	for s := range in.Owners {
		in.Owners[s] = fmt.Sprintf("m%d", s%3)
	}
	return in
}

// The loads of shards are measured anew for each plan. What is pending must not change with them: members follow the
// last plan for a moment, and what they begin to move by it would have to move again.
func TestPendingMovesStayIfLoadsChange(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 16))
	for range 300 {
		in := sixMembers()
		in.Load = make([]float64, 100)
		for _, percent := range []int64{5, 20, 50, 100, 0} {
			in.Shares = []lifecycle.Share{{Revision: "v0", Percent: 100 - percent}, {Revision: "v1", Percent: percent}}
			first := plan(t, in)
			in.Planned = first.Owners
			want := map[int]string{}
			for _, m := range first.Moves {
				want[m.Shard] = m.To
			}
			moved := rollout(t, rng, &in, true)
			for s := range moved {
				if want[s] == "" {
					t.Fatalf("to %d %%: shard %d moves, and the first plan left it", percent, s)
				}
			}
			if len(moved) != len(want) {
				t.Fatalf("to %d %%: %d shards move, %d are enough", percent, len(moved), len(want))
			}
		}
	}
}

// Two Revisions have the same remainder, and the last plan gave the extra shard to the smaller one.
func TestTheExtraShardStaysWithItsRevision(t *testing.T) {
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
	if again := plan(t, in); !slices.Equal(again.Owners, first.Owners) {
		t.Errorf("nothing changed, and the plan did: from %v to %v", first.Members, again.Members)
	}
}

// rollout moves shards by the plan, ten at a time, until none has to move. Some are polled while they are on their way.
func rollout(t *testing.T, rng *rand.Rand, in *placement.Input, loaded bool) map[int]int {
	t.Helper()
	moved, flying := map[int]int{}, map[int]string{}
	for {
		for s := range in.Load {
			if loaded {
				in.Load[s] = rng.ExpFloat64()
			}
		}
		p := plan(t, *in)
		in.Planned = p.Owners
		if len(p.Moves)+len(flying) == 0 {
			return moved
		}
		for s, to := range flying {
			if rng.IntN(2) == 0 {
				in.Owners[s] = to
				delete(flying, s)
			}
		}
		for _, m := range p.Moves[:min(len(p.Moves), 10-len(flying))] {
			moved[m.Shard]++
			flying[m.Shard], in.Owners[m.Shard] = m.To, ""
		}
	}
}
