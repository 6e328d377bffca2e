// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// evenAtOnce is how many shards of a kind are handed over at a time without a plan.
const evenAtOnce = 10

// lead looks for shards to move whenever this member is the one that leads: the first by address of those that stay. If
// two members lead for a moment, more shards are handed over at a time, and still each is held by one member at most.
func (g *Group) lead(ctx context.Context) {
	// begun are shards that a member was told to take, and did not say whether it does.
	begun := map[ShardID]time.Time{}
	for ctx.Err() == nil {
		pause := g.settings.Tick
		if g.round(begun) > 0 {
			pause = min(pause, 100*time.Millisecond)
		}
		sleep(ctx, pause)
	}
}

// round starts as many moves as allowed, and returns how many shards are moving.
func (g *Group) round(begun map[ShardID]time.Time) int {
	others, joined := g.Members.Others()
	if !joined || g.Members.leader() != g.Members.self {
		g.hear(nil)
		return 0
	}
	all := append(others, g.Members.self)
	statuses := g.statuses(all)
	var silent []string
	for _, a := range all {
		if statuses[a] == nil {
			silent = append(silent, a)
		}
	}
	g.hear(silent)
	k := g.Poller.Known()
	if len(silent) > 0 || k.obstacle(time.Now(), g.settings.StaleAfter) != "" {
		return 0
	}
	kinds := map[string]bool{}
	for _, s := range statuses {
		if s.Version > k.version {
			return 0 // another member knows better
		}
		for kind := range s.Shards {
			kinds[kind] = true
		}
	}
	moved := 0
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		moved += g.move(kind, k, statuses, begun)
	}
	return moved
}

func (g *Group) statuses(addresses []string) map[string]*Status {
	var mu sync.Mutex
	var asking sync.WaitGroup
	out := map[string]*Status{}
	for _, a := range addresses {
		asking.Go(func() {
			if got, err := g.call(g.running, a, Request{Status: true}); err == nil && got.Status != nil {
				mu.Lock()
				defer mu.Unlock()
				out[a] = got.Status
			}
		})
	}
	asking.Wait()
	return out
}

// hear remembers who did not answer.
func (g *Group) hear(silent []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.silent = map[string]bool{}
	for _, a := range silent {
		g.silent[a] = true
	}
}

// move starts moves of a kind's shards, and returns how many are moving. What members that leave hand over does not
// count: they may have to wait long for what is active there.
func (g *Group) move(kind string, k Known, statuses map[string]*Status, begun map[ShardID]time.Time) int {
	atOnce := evenAtOnce
	if p := k.Follow(); p != nil {
		atOnce = p.AtOnce
	}
	// busy are the shards that are being handed over, and whether each counts.
	holders, busy := map[int]string{}, map[int]bool{}
	stay, _ := g.Members.able(kind)
	for address, s := range statuses {
		for number := range s.Shards[kind] {
			holders[number] = address
		}
		for _, number := range s.Busy[kind] {
			busy[number] = busy[number] || slices.Contains(stay, address)
		}
	}
	targets := g.targets(kind, k)
	for id, at := range begun {
		switch {
		case id.Kind != kind:
		case time.Since(at) > 2*callWithin:
			delete(begun, id)
		default:
			busy[id.Shard] = true
		}
	}
	moving := 0
	for _, counts := range busy {
		if counts {
			moving++
		}
	}
	room := max(1, min(atOnce, g.settings.Shards/10)) - moving
	moved := 0
	for _, number := range slices.Sorted(maps.Keys(holders)) {
		if room <= moved {
			break
		}
		holder := holders[number]
		_, is := busy[number]
		if is || number >= len(targets) || targets[number] == holder || targets[number] == "" {
			continue
		}
		id := ShardID{kind, number}
		moved++
		if _, err := g.call(g.running, targets[number], Request{Take: &Take{id, holder, k.version}}); err != nil {
			begun[id] = time.Now()
		}
	}
	return moved + moving
}
