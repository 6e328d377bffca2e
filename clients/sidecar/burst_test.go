// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A member that hands thousands of shards over at once does not send as many messages and hooks at once.
func TestManyShardsLeave(t *testing.T) {
	f := newFleet(t)
	const shards = 4000
	f.configure = func(c *Config) { c.Placement.Shards = shards }
	var releases, open, most atomic.Int64
	app := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, releasePath) {
			releases.Add(1)
			for now, high := open.Add(1), most.Load(); now > high && !most.CompareAndSwap(high, now); {
				high = most.Load()
			}
			time.Sleep(10 * time.Millisecond)
			open.Add(-1)
		}
	})
	a, b := f.start("stable", app), f.start("stable", app)
	f.together(2)
	held := 0
	for shard := range shards {
		visit, _, err := a.member.Admit(t.Context(), shard, 0)
		if err != nil {
			t.Fatal(err)
		}
		if visit != nil {
			held++
			visit.End()
		}
	}
	before, peak := runtime.NumGoroutine(), 0
	left := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			select {
			case <-left:
				return
			case <-time.After(time.Millisecond):
				peak = max(peak, runtime.NumGoroutine())
			}
		}
	})
	begun := time.Now()
	if err := a.member.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	took := time.Since(begun)
	f.until("the others have heard it", func() bool { return !b.member.Group().Members.Has(a.member.Address()) })
	close(left)
	watching.Wait()
	t.Logf("%d shards left in %s: %d goroutines before, at most %d; %d hooks at once", held, took, before, peak, most.Load())
	if held < shards/4 || releases.Load() != int64(held) {
		t.Errorf("%d shards, and %d hooks", held, releases.Load())
	}
	if peak > before+1000 || most.Load() > 100 {
		t.Errorf("there were %d goroutines, and %d hooks at once", peak, most.Load())
	}
}
