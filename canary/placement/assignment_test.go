// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/canary/placement"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// Two pods of the stable Revision, one of the canary, and 100 shards: the moves of each step are half of what changes.
func TestRolloutMovesNoShardTwice(t *testing.T) {
	in := placement.Input{
		Members: []placement.Member{
			{Name: "a", Revision: "v1", Phase: placement.Up},
			{Name: "b", Revision: "v1", Phase: placement.Up},
			{Name: "c", Revision: "v2", Phase: placement.Up},
		},
		Owners: make([]string, 100),
	}
	for _, step := range []struct {
		percent int64
		moves   int
	}{{0, 0}, {5, 5}, {20, 15}, {50, 30}, {100, 50}, {0, 100}} {
		in.Shares = []lifecycle.Share{{Revision: "v1", Percent: 100 - step.percent}, {Revision: "v2", Percent: step.percent}}
		p := plan(t, in)
		if len(p.Moves) != step.moves || int64(p.Revisions["v2"]) != step.percent || p.Held != "" {
			t.Errorf("at %d %%: %d moves, want %d; shards %v; held: %q", step.percent, len(p.Moves), step.moves, p.Revisions,
				p.Held)
		}
		in.Owners = p.Owners
		if again := plan(t, in); len(again.Moves) != 0 || !slices.Equal(again.Owners, p.Owners) {
			t.Errorf("at %d %%: a second plan moves %d shards", step.percent, len(again.Moves))
		}
	}
}

func TestMovesArePaced(t *testing.T) {
	in := placement.Input{
		Shares: []lifecycle.Share{{Revision: "v2", Percent: 100}},
		Members: []placement.Member{
			{Name: "a", Revision: "v1", Phase: placement.Up},
			{Name: "b", Revision: "v2", Phase: placement.Up},
		},
		Owners: slices.Repeat([]string{"a"}, 40),
		Moving: map[int]string{7: "b"},
	}
	p := plan(t, in)
	for _, c := range []struct{ atOnce, want int }{{1, 0}, {2, 1}, {100, 3}, {0, 0}} {
		if got := p.Next(c.atOnce); len(got) != c.want {
			t.Errorf("%d at once, one is moving: %v, want %d", c.atOnce, got, c.want)
		}
	}
	if slices.ContainsFunc(p.Moves, func(m placement.Move) bool { return m.Shard == 7 }) || p.Owners[7] != "b" {
		t.Errorf("shard 7 is being handed over, but moves again: %v", p.Moves)
	}
}

func TestNothingMovesWhileTheClusterChanges(t *testing.T) {
	shares := []lifecycle.Share{{Revision: "v1", Percent: 50}, {Revision: "v2", Percent: 50}}
	member := func(name, revision string, phase placement.Phase) placement.Member {
		return placement.Member{Name: name, Revision: revision, Phase: phase}
	}
	for name, c := range map[string]struct {
		members []placement.Member
		held    string
		owners  string
	}{
		"a member joins": {[]placement.Member{
			member("a", "v1", placement.Up),
			member("b", "v2", placement.Up), member("c", "v2", placement.Joining),
		}, placement.MemberJoining, "aaaabbb"},
		"a member is unreachable": {[]placement.Member{
			member("a", "v1", placement.Unreachable),
			member("b", "v2", placement.Up),
		}, placement.MemberUnreachable, "aaaabbb"},
		"a member leaves": {[]placement.Member{
			member("a", "v1", placement.Leaving),
			member("b", "v2", placement.Up),
		}, "", "bbbbbbb"},
		"a member has gone": {[]placement.Member{member("b", "v2", placement.Up)}, "", "bbbbbbb"},
		"the share's Revision has no members": {
			[]placement.Member{member("x", "v0", placement.Up)},
			placement.NoMembers, "xxxxxxx",
		},
		"no member at all": {nil, placement.NoMembers, ""},
		"the only member up is of another Revision": {[]placement.Member{
			member("a", "v0", placement.Up),
			member("c", "v2", placement.Joining),
		}, placement.NoMembers, "aaaaaaa"},
	} {
		t.Run(name, func(t *testing.T) {
			owners := []string{"a", "a", "a", "a", "b", "", ""}
			p := plan(t, placement.Input{Shares: shares, Members: c.members, Owners: owners})
			if p.Held != c.held || len(p.Moves) > 0 || strings.Join(p.Owners, "") != c.owners {
				t.Errorf("held %q, owners %v, moves %v; want %q, %s", p.Held, p.Owners, p.Moves, c.held, c.owners)
			}
		})
	}
}

// Without a choice to move, the members that lack most get the shards without an owner, so that each lacks as many.
func TestFewShardsGoToThoseThatLackMost(t *testing.T) {
	in := placement.Input{Shares: []lifecycle.Share{{Revision: "v1", Percent: 50}, {Revision: "v2", Percent: 50}}}
	for _, name := range []string{"a", "b", "c", "d"} {
		in.Members = append(in.Members, placement.Member{
			Name: name, Revision: "v" + string("1122"[len(in.Members)]),
			Phase: placement.Up,
		})
	}
	in.Members[0].Phase = placement.Unreachable
	in.Owners = append(slices.Repeat([]string{"a"}, 60), slices.Repeat([]string{""}, 40)...)
	got := map[string]int{}
	for _, owner := range plan(t, in).Owners {
		got[owner]++
	}
	// Of 50 for b, and of 25 each for c and d, 20 are missing.
	if got["a"] != 60 || got["b"] != 30 || got["c"] != 5 || got["d"] != 5 {
		t.Errorf("%v", got)
	}
}

func TestBadInputIsNamed(t *testing.T) {
	up := placement.Member{Name: "a", Revision: "v1", Phase: placement.Up}
	all := []lifecycle.Share{{Revision: "v1", Percent: 100}}
	for want, in := range map[string]placement.Input{
		`revision "v1" has 101 %`:              {Shares: []lifecycle.Share{{Revision: "v1", Percent: 101}}},
		`revision "v1" has two shares`:         {Shares: append(all, all...)},
		"none of 1 Revisions has a share":      {Shares: []lifecycle.Share{{Revision: "v1"}}},
		`two members have the name "a"`:        {Shares: all, Members: []placement.Member{up, up}},
		`member "a" is "Asleep": it must be`:   {Shares: all, Members: []placement.Member{{Name: "a", Phase: "Asleep"}}},
		`shard 3 moves to "a": there are only`: {Shares: all, Owners: make([]string, 3), Moving: map[int]string{3: "a"}},
		"the load of 1 shards is known":        {Shares: all, Owners: make([]string, 3), Load: []float64{1}},
		"shard 0 has a load of NaN":            {Shares: all, Owners: make([]string, 1), Load: []float64{math.NaN()}},
	} {
		if _, err := placement.Assign(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// The load of shards often is as uneven as Zipf's law. The canary must handle its percentage of the requests,
// which as many shards taken at random do not.
func TestLoadDecidesWhichShardsMove(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, percent := range []int{5, 10, 20, 50} {
		worst := 0.0
		for range 200 {
			in := placement.Input{
				Shares: []lifecycle.Share{
					{Revision: "v1", Percent: int64(100 - percent)},
					{Revision: "v2", Percent: int64(percent)},
				},
				Members: []placement.Member{
					{Name: "a", Revision: "v1", Phase: placement.Up},
					{Name: "b", Revision: "v2", Phase: placement.Up},
				},
				Owners: slices.Repeat([]string{"a"}, 100),
			}
			total, canary := 0.0, 0.0
			for _, rank := range rng.Perm(100) {
				in.Load = append(in.Load, 1000/float64(rank+1))
				total += 1000 / float64(rank+1)
			}
			p := plan(t, in)
			if len(p.Moves) != percent {
				t.Fatalf("%d shards move, want %d", len(p.Moves), percent)
			}
			for s, owner := range p.Owners {
				if owner == "b" {
					canary += in.Load[s]
				}
			}
			worst = max(worst, math.Abs(canary/total-float64(percent)/100))
		}
		if worst > 0.01 {
			t.Errorf("at %d %%, the canary's part of the load is off by up to %.4f, want at most 0.01", percent, worst)
		}
	}
}

// Renaming members renames them in the plan, and the order in which they are listed means nothing.
func TestNamesAndOrderMeanNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 20_000 {
		in := randomInput(rng)
		p := plan(t, in)
		names := map[string]string{"": ""}
		other := in
		other.Members, other.Owners, other.Moving = nil, nil, map[int]string{}
		fresh := rng.Perm(len(in.Members))
		for i, j := range rng.Perm(len(in.Members)) {
			m := in.Members[j]
			names[m.Name] = fmt.Sprintf("renamed-%d", fresh[i])
			m.Name = names[m.Name]
			other.Members = append(other.Members, m)
		}
		for _, o := range in.Owners {
			other.Owners = append(other.Owners, names[o])
		}
		for s, to := range in.Moving {
			other.Moving[s] = names[to]
		}
		q := plan(t, other)
		if len(p.Moves) != len(q.Moves) {
			t.Fatalf("%d moves, but %d with other names:\n%+v\n%+v", len(p.Moves), len(q.Moves), in, other)
		}
		for i := range p.Moves {
			if p.Moves[i].Shard != q.Moves[i].Shard || names[p.Moves[i].From] != q.Moves[i].From {
				t.Fatalf("moves %v, but %v with other names", p.Moves, q.Moves)
			}
		}
		for revision, n := range p.Revisions {
			if q.Revisions[revision] != n {
				t.Fatalf("shards %v, but %v with other names", p.Revisions, q.Revisions)
			}
		}
	}
}

func plan(t *testing.T, in placement.Input) placement.Assignment {
	t.Helper()
	p, err := placement.Assign(in)
	if err != nil {
		t.Fatalf("%v\n%+v", err, in)
	}
	return p
}

// randomInput is a cluster of at most three Revisions and six members, some of them not up.
func randomInput(rng *rand.Rand) placement.Input {
	in := placement.Input{Moving: map[int]string{}}
	left := 100
	for r := range 1 + rng.IntN(3) {
		percent := rng.IntN(left + 1)
		if r == 0 {
			percent = 1 + rng.IntN(left)
		}
		left -= percent
		in.Shares = append(in.Shares, lifecycle.Share{Revision: fmt.Sprintf("v%d", r), Percent: int64(percent)})
	}
	for m := range rng.IntN(7) {
		phase := placement.Up
		if rng.IntN(12) == 0 {
			phase = []placement.Phase{placement.Joining, placement.Leaving, placement.Unreachable}[rng.IntN(3)]
		}
		in.Members = append(in.Members, placement.Member{
			Name:     fmt.Sprintf("m%d", m),
			Revision: fmt.Sprintf("v%d", rng.IntN(3)), Phase: phase,
		})
	}
	for s := range rng.IntN(13) {
		owner := ""
		if len(in.Members) > 0 && rng.IntN(5) > 0 {
			owner = in.Members[rng.IntN(len(in.Members))].Name
		}
		in.Owners = append(in.Owners, owner)
		if owner != "" && rng.IntN(15) == 0 {
			in.Moving[s] = in.Members[rng.IntN(len(in.Members))].Name
		}
	}
	return in
}
