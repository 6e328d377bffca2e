// SPDX-License-Identifier: Apache-2.0

package protoactor

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// A rollout from 0 over 5, 20, 50 and 100 % and back moves exactly the shards that it must, under load.
func TestRollout(t *testing.T) {
	f := newFleet(t)
	a, b, canary := f.start("stable"), f.start("stable"), f.start("canary")
	f.together()
	owners := make([]*node, testShards)
	for s := range owners {
		owners[s] = []*node{a, b}[s%2]
	}
	owner := func(s int) *node { return owners[s] }
	f.controller.set(http.StatusOK, "", f.plan(owner))
	f.until("the plan", 5*time.Second, func() bool {
		return a.lookup.Version() > 0 && b.lookup.Version() > 0 && canary.lookup.Version() > 0
	})
	f.touch(a)
	f.owned(10*time.Second, owner)
	if n := f.moves(); n != 0 {
		t.Errorf("%d shards moved before there was a canary", n)
	}
	load, pace := f.load(), f.pace()
	for _, step := range []struct{ percent, moves int }{{5, 5}, {20, 15}, {50, 30}, {100, 50}, {0, 100}} {
		before := f.moves()
		for s := range owners {
			if s < step.percent {
				owners[s] = canary
			} else {
				owners[s] = []*node{a, b}[s%2]
			}
		}
		begun := time.Now()
		f.controller.set(http.StatusOK, "", f.plan(owner))
		f.owned(30*time.Second, owner)
		took := time.Since(begun)
		time.Sleep(200 * time.Millisecond) // a move too many would be seen
		if n := f.moves() - before; n != int64(step.moves) {
			t.Errorf("%d %%: %d shards moved, want %d", step.percent, n, step.moves)
		}
		t.Logf("%3d %%: %3d moves in %s", step.percent, step.moves, took.Round(time.Millisecond))
	}
	load.end()
	if load.unanswered.Load() > 0 {
		t.Errorf("%d requests had no answer", load.unanswered.Load())
	}
	if most := pace(); most > 10 || most < 2 {
		t.Errorf("at most %d shards were handed over at a time, want 2 to 10", most)
	}
}

// pace samples how many shards are being handed over at a time, until the returned function is called.
func (f *fleet) pace() func() int64 {
	var most atomic.Int64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
			}
			busy := map[int]bool{}
			for _, n := range f.nodes {
				if got, err := n.lookup.group.Status(f.Context()); err == nil {
					for _, s := range got.Busy["Cart"] {
						busy[s] = true
					}
				}
			}
			most.Store(max(most.Load(), int64(len(busy))))
		}
	}()
	return func() int64 { close(stop); <-stopped; return most.Load() }
}
