// SPDX-License-Identifier: Apache-2.0

package doorbell

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// fakeCore answers rings as a test wants, in a bubble whose time is fake.
type fakeCore struct {
	mu    sync.Mutex
	rings []Key
	times []time.Time
	// answer is called for each ring.
	answer func(ctx context.Context, key Key) result
	most   int
	now    int
}

func (c *fakeCore) ring(ctx context.Context, key Key, _ Change) result {
	c.mu.Lock()
	c.rings, c.times = append(c.rings, key), append(c.times, time.Now())
	c.now++
	c.most = max(c.most, c.now)
	c.mu.Unlock()
	got := c.answer(ctx, key)
	c.mu.Lock()
	c.now--
	c.mu.Unlock()
	return got
}

func (c *fakeCore) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.rings)
}

func (c *fakeCore) atOnce() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.most
}

func says(kind resultKind) func(context.Context, Key) result {
	return func(context.Context, Key) result { return result{kind: kind, err: errors.New("as the test wants")} }
}

func service(name string) Key { return Key{Services, "shop", name} }

// inBubble runs a test with a ringer, whose goroutines end with it.
func inBubble(t *testing.T, parallel, most int, core *fakeCore, test func(t *testing.T, r *ringer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRinger(parallel, most, slog.New(slog.DiscardHandler), core.ring)
		ctx, cancel := context.WithCancel(t.Context())
		var ended sync.WaitGroup
		ended.Go(func() { r.Run(ctx) })
		defer ended.Wait()
		defer cancel()
		test(t, r)
	})
}

func mustRing(t *testing.T, r *ringer, keys ...Key) {
	t.Helper()
	for _, key := range keys {
		if err := r.Ring(t.Context(), key, Updated); err != nil {
			t.Fatal(err)
		}
	}
}

func TestChangesMeanwhileRingOnceMore(t *testing.T) {
	core := &fakeCore{answer: func(context.Context, Key) result { time.Sleep(time.Second); return result{kind: answered} }}
	inBubble(t, 4, 10, core, func(t *testing.T, r *ringer) {
		mustRing(t, r, service("cart"))
		synctest.Wait()
		before := r.Mark()
		mustRing(t, r, service("cart"), service("cart"), service("cart"))
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		if core.count() != 2 {
			t.Errorf("%d rings while the second is under way, want 2", core.count())
		}
		if !r.Answered(before) || r.Answered(r.Mark()) {
			t.Error("the first change must count as answered, the later ones not yet")
		}
		time.Sleep(time.Minute)
		if core.count() != 2 || core.atOnce() != 1 || !r.Answered(r.Mark()) {
			t.Errorf("%d rings, %d at once, answered %v; want 2, 1, true", core.count(), core.atOnce(), r.Answered(r.Mark()))
		}
	})
}

func TestRingsAreRepeatedMoreAndMoreRarely(t *testing.T) {
	core := &fakeCore{}
	core.answer = func(context.Context, Key) result {
		if core.count() < 12 {
			return result{kind: failed, err: errors.New("no")}
		}
		return result{kind: answered}
	}
	inBubble(t, 4, 10, core, func(t *testing.T, r *ringer) {
		mustRing(t, r, service("cart"))
		time.Sleep(time.Hour)
		if core.count() != 12 {
			t.Fatalf("%d rings, want 12", core.count())
		}
		for i := 1; i < 12; i++ {
			want := min(time.Second<<(i-1), lastBackoff)
			if got := core.times[i].Sub(core.times[i-1]); got < want*8/10 || got > want*12/10 {
				t.Errorf("%v between rings %d and %d, want %v ± 20 %%", got, i, i+1, want)
			}
		}
	})
}

func TestRetryAfter(t *testing.T) {
	core := &fakeCore{}
	core.answer = func(context.Context, Key) result {
		if core.count() == 1 {
			return result{kind: failed, after: 90 * time.Second, err: errors.New("busy")}
		}
		return result{kind: answered}
	}
	inBubble(t, 4, 10, core, func(t *testing.T, r *ringer) {
		mustRing(t, r, service("cart"))
		time.Sleep(time.Hour)
		if core.count() != 2 || core.times[1].Sub(core.times[0]) != 90*time.Second {
			t.Errorf("rings at %v, want two, 90s apart", core.times)
		}
	})
}

func TestRefusedIsGivenUp(t *testing.T) {
	core := &fakeCore{answer: says(refused)}
	inBubble(t, 4, 10, core, func(t *testing.T, r *ringer) {
		mustRing(t, r, service("cart"))
		time.Sleep(time.Hour)
		if s := r.state(); core.count() != 1 || s.waiting != 0 || s.results[refused] != 1 || !s.lastAnswered.IsZero() {
			t.Errorf("%d rings, then %+v", core.count(), s)
		}
		mustRing(t, r, service("cart"))
		synctest.Wait()
		if core.count() != 2 {
			t.Error("a later change of the same key is not rung")
		}
	})
}

// TestDownCoreIsNotHammered has ten thousand keys wait for a core that is down for an hour.
func TestDownCoreIsNotHammered(t *testing.T) {
	const keys = 10_000
	var up atomic.Bool
	core := &fakeCore{}
	core.answer = func(context.Context, Key) result {
		if up.Load() {
			return result{kind: answered}
		}
		return result{kind: failed, err: errors.New("connection refused")}
	}
	inBubble(t, 4, keys, core, func(t *testing.T, r *ringer) {
		for i := range keys {
			mustRing(t, r, service(strconv.Itoa(i)))
		}
		time.Sleep(time.Hour)
		if n := core.count(); n < 100 || n > 170 {
			t.Errorf("%d rings in an hour, want about one each %v", n, lastProbe)
		}
		if s := r.state(); !s.down || s.waiting != keys || time.Since(s.oldest) < time.Hour {
			t.Errorf("the state is %+v", s)
		}
		up.Store(true)
		time.Sleep(2 * lastProbe)
		if s := r.state(); s.waiting != 0 || s.down {
			t.Errorf("%d keys wait although the core is up again", s.waiting)
		}
		if most := core.atOnce(); most > 4 {
			t.Errorf("%d rings at once, want at most 4", most)
		}
	})
}

// TestFailingKeysDoNotStopOthers: what is wrong with some keys must not look like a core that is down.
func TestFailingKeysDoNotStopOthers(t *testing.T) {
	core := &fakeCore{answer: func(_ context.Context, key Key) result {
		if key.Name[0] == 'x' {
			return result{kind: failed, err: errors.New("this one never works")}
		}
		return result{kind: answered}
	}}
	inBubble(t, 2, 100, core, func(t *testing.T, r *ringer) {
		for i := range 20 {
			mustRing(t, r, service("x"+strconv.Itoa(i)))
		}
		time.Sleep(10 * time.Minute)
		began := time.Now()
		mustRing(t, r, service("cart"))
		for r.keysHas(service("cart")) {
			time.Sleep(time.Second)
		}
		if took := time.Since(began); took > 2*lastProbe {
			t.Errorf("a key that works waited %v for the others", took)
		}
		mustRing(t, r, service("order"))
		synctest.Wait()
		if r.keysHas(service("order")) {
			t.Error("the next one waits, although the core has answered")
		}
	})
}

func (r *ringer) keysHas(key Key) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.keys[key] != nil
}

func TestRingBlocksWhileTooManyWait(t *testing.T) {
	core := &fakeCore{answer: func(context.Context, Key) result { time.Sleep(time.Second); return result{kind: answered} }}
	inBubble(t, 1, 2, core, func(t *testing.T, r *ringer) {
		began := time.Now()
		mustRing(t, r, service("a"), service("b"), service("b"), Sweep)
		if time.Since(began) != 0 {
			t.Error("a key that waits already, and the sweep, must always have room")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := r.Ring(ctx, service("c"), Updated); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a third key: got error %v", err)
		}
		mustRing(t, r, service("c"))
		if waited := time.Since(began); waited < time.Second {
			t.Errorf("a third key waited %v, want until one is answered", waited)
		}
		time.Sleep(time.Minute)
		if r.keysHas(service("c")) {
			t.Error("it was not rung")
		}
	})
}

func TestUnansweredRingsAtTheEnd(t *testing.T) {
	core := &fakeCore{answer: func(ctx context.Context, _ Key) result {
		<-ctx.Done()
		return result{kind: failed, err: ctx.Err()}
	}}
	synctest.Test(t, func(t *testing.T) {
		r := newRinger(4, 10, slog.New(slog.DiscardHandler), core.ring)
		ctx, cancel := context.WithCancel(t.Context())
		mustRing(t, r, service("cart"))
		var ended sync.WaitGroup
		ended.Go(func() { r.Run(ctx) })
		synctest.Wait()
		cancel()
		ended.Wait()
		if s := r.state(); r.Answered(r.Mark()) || s.results[failed] != 0 {
			t.Errorf("what the end interrupts must stay unanswered, and is no failure: %+v", s)
		}
	})
}

// TestEachChangeIsRungAfterIt changes keys at random, with a core that fails at random: each change must be followed by
// an answered ring that began after it, and a mark must never be answered too early.
func TestEachChangeIsRungAfterIt(t *testing.T) {
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 0))
		answeredFrom := map[Key]time.Time{}
		core := &fakeCore{}
		core.answer = func(_ context.Context, key Key) result {
			began := time.Now()
			core.mu.Lock()
			fails, takes := random.IntN(3) == 0, time.Duration(random.IntN(3000))*time.Millisecond
			core.mu.Unlock()
			time.Sleep(takes)
			if fails {
				return result{kind: failed, err: errors.New("at random")}
			}
			core.mu.Lock()
			answeredFrom[key] = began
			core.mu.Unlock()
			return result{kind: answered}
		}
		inBubble(t, 3, 8, core, func(t *testing.T, r *ringer) {
			changed := map[Key]time.Time{}
			marks := map[uint64]map[Key]time.Time{}
			for range 300 {
				core.mu.Lock()
				key, pause := service(strconv.Itoa(random.IntN(12))), time.Duration(random.IntN(500))*time.Millisecond
				core.mu.Unlock()
				time.Sleep(pause)
				at := time.Now()
				mustRing(t, r, key)
				changed[key] = at
				snapshot := map[Key]time.Time{}
				for k, v := range changed {
					snapshot[k] = v
				}
				marks[r.Mark()] = snapshot
				for mark, of := range marks {
					if !r.Answered(mark) {
						continue
					}
					delete(marks, mark)
					core.mu.Lock()
					for k, at := range of {
						if answeredFrom[k].Before(at) {
							t.Errorf("seed %d: mark %d counts as answered, but %v changed at %v and was last rung at %v", seed, mark, k, at, answeredFrom[k])
						}
					}
					core.mu.Unlock()
				}
			}
			time.Sleep(time.Hour)
			core.mu.Lock()
			defer core.mu.Unlock()
			for key, at := range changed {
				if answeredFrom[key].Before(at) {
					t.Errorf("seed %d: %v changed at %v, and was last rung at %v", seed, key, at, answeredFrom[key])
				}
			}
			if core.most > 3 {
				t.Errorf("seed %d: %d rings at once, want at most 3", seed, core.most)
			}
		})
	}
}
