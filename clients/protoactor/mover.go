// SPDX-License-Identifier: Apache-2.0

package protoactor

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// evenAtOnce is how many shards of a kind are handed over at a time without a plan.
const evenAtOnce = 10

// lead looks for shards to move whenever this member is the one that leads: the first of all by address. If two members
// lead for a moment, more shards are handed over at a time, and still each is held by one member at most.
func (l *Lookup) lead(ctx context.Context) {
	// begun are shards that a member was told to take, and did not say whether it does.
	begun := map[shardID]time.Time{}
	for ctx.Err() == nil {
		pause := l.settings.tick
		if l.round(begun) > 0 {
			pause = min(pause, 100*time.Millisecond)
		}
		sleep(ctx, pause)
	}
}

// round starts as many moves as allowed, and returns how many shards are moving.
func (l *Lookup) round(begun map[shardID]time.Time) int {
	others, joined := l.members.others()
	if !joined || len(others) > 0 && slices.Min(others) < l.members.self {
		l.hear(nil)
		return 0
	}
	all := append(others, l.members.self)
	statuses := l.statuses(all)
	var silent []string
	for _, a := range all {
		if statuses[a] == nil {
			silent = append(silent, a)
		}
	}
	l.hear(silent)
	k := l.poller.now()
	if len(silent) > 0 || k.obstacle(time.Now(), l.settings.StaleAfter) != "" {
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
		moved += l.move(kind, k, statuses, begun)
	}
	return moved
}

func (l *Lookup) statuses(addresses []string) map[string]*status {
	var mu sync.Mutex
	var asking sync.WaitGroup
	out := map[string]*status{}
	for _, a := range addresses {
		asking.Go(func() {
			if got, err := call(l.system(), a, request{Status: true}, callWithin); err == nil && got.Status != nil {
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
func (l *Lookup) hear(silent []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silent = map[string]bool{}
	for _, a := range silent {
		l.silent[a] = true
	}
}

// move starts moves of a kind's shards, and returns how many are moving.
func (l *Lookup) move(kind string, k known, statuses map[string]*status, begun map[shardID]time.Time) int {
	atOnce := evenAtOnce
	if p := k.follow(); p != nil {
		atOnce = p.AtOnce
	}
	holders, busy := map[int]string{}, map[int]bool{}
	for address, s := range statuses {
		for number := range s.Shards[kind] {
			holders[number] = address
		}
		for _, number := range s.Busy[kind] {
			busy[number] = true
		}
	}
	targets := l.targets(kind, k)
	for id, at := range begun {
		switch {
		case id.Kind != kind:
		case time.Since(at) > 2*callWithin:
			delete(begun, id)
		default:
			busy[id.Shard] = true
		}
	}
	room := max(1, min(atOnce, l.settings.Shards/10)) - len(busy)
	moved := 0
	for _, number := range slices.Sorted(maps.Keys(holders)) {
		if room <= moved {
			break
		}
		holder := holders[number]
		if number >= len(targets) || targets[number] == holder || targets[number] == "" || busy[number] {
			continue
		}
		id := shardID{kind, number}
		moved++
		if _, err := call(l.system(), targets[number], request{Take: &take{id, holder, k.version}}, callWithin); err != nil {
			begun[id] = time.Now()
		}
	}
	return moved + len(busy)
}
