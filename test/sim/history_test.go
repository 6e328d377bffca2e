// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	seed    = flag.Uint64("seed", 0, "run one history again; 0 for all of them")
	fresh   = flag.Bool("fresh", false, "start with new random histories instead of the same ones each time")
	changes = flag.Int("changes", 50_000, "how many changes to simulate, over all random histories")
	further = flag.Int("further", 20_000, "how many more changes to simulate, over new random histories")
)

// history runs a few hundred random changes.
func history(seed uint64, size int, with chaos) *world {
	w := newWorld(seed, with)
	w.cluster.stateful = func(name string) bool { return name == "s0" || name == "s1" }
	if w.rng.IntN(2) == 0 {
		w.processes = append(w.processes, w.start())
	}
	for done := 0; done < size; {
		if w.rng.IntN(3) == 0 {
			w.change()
			done++
		}
		w.disturb()
		for range w.rng.IntN(6) {
			if n := len(w.processes); n > 0 {
				w.stepUnlessSuspended(w.processes[w.rng.IntN(n)])
			}
		}
	}
	w.settle()
	return w
}

func (w *world) change() {
	c := w.cluster
	c.tick()
	names := c.names()
	switch r := w.rng.IntN(22); {
	case r > 19:
		if !w.with.restores && w.cores == nil { // a backup has no environments, and cores do not look at them
			c.provision(w.rng)
		}
	case len(names) == 0 || r == 0 && len(names) < 4:
		name := fmt.Sprintf("s%d", w.rng.IntN(4))
		for _, had := range names {
			if had.Name == name {
				return
			}
		}
		c.create(name)
	case r == 1:
		c.remove(c.live[names[w.rng.IntN(len(names))]])
	case r == 4:
		c.remap(c.live[names[w.rng.IntN(len(names))]])
	case r == 5 && w.rng.IntN(2) == 0 && w.cores == nil:
		c.judge(c.live[names[w.rng.IntN(len(names))]])
	case r == 2 || r == 3:
		c.stir(c.live[names[w.rng.IntN(len(names))]])
	default:
		c.shift(c.live[names[w.rng.IntN(len(names))]])
	}
}

func check(t *testing.T, seed uint64, w *world) verdict {
	t.Helper()
	v := w.judge()
	for _, p := range w.problems {
		t.Errorf("seed %d: %s", seed, p)
	}
	if len(w.problems) > 0 {
		t.Fatalf("run again with: go test ./test/sim -run TestRandomHistories -seed %d", seed)
	}
	return v
}

// tally adds up many histories.
type tally struct {
	histories, changes, services, environments, events, crashes, doubles, pardoned, late, replayed, writes int
}

func (a *tally) add(b tally) {
	a.histories += b.histories
	a.changes += b.changes
	a.services += b.services
	a.environments += b.environments
	a.events += b.events
	a.crashes += b.crashes
	a.doubles += b.doubles
	a.pardoned += b.pardoned
	a.late += b.late
	a.replayed += b.replayed
	a.writes += b.writes
}

// size is the number of changes in one history.
const size = 250

func one(t *testing.T, seed uint64) tally {
	t.Helper()
	w := history(seed, size, chaosOf(seed))
	defer w.end()
	v := check(t, seed, w)
	if c := w.with; v.pardoned > 0 && len(w.watches) == 1 && w.crashes == 0 {
		t.Fatalf("seed %d: one leader that never died did not announce %d splits (%+v)", seed, v.pardoned, c)
	}
	return tally{
		histories: 1, changes: size, services: len(w.cluster.history), environments: len(w.cluster.fleet.history), events: v.events, crashes: w.crashes,
		doubles: w.doubles, pardoned: v.pardoned, late: v.late, replayed: v.replayed, writes: w.store.Writes(),
	}
}

func TestRandomHistories(t *testing.T) {
	first := uint64(1)
	if *fresh {
		first = now()
	}
	if *seed != 0 {
		one(t, *seed)
		return
	}
	many(t, first, *changes)
}

// A queue that is not shut down leaks a goroutine and a timer: 40,000 histories leaked 700,000.
func TestHistoryLeaksNoGoroutines(t *testing.T) {
	before := runtime.NumGoroutine()
	for seed := range uint64(5) {
		one(t, seed+1)
	}
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines after the histories, want at most %d", runtime.NumGoroutine(), before)
		}
	}
}

// firstSeed names the first seed of the further histories. "make test" sets a new one each
// time, so that a cached test result is not used.
const firstSeed = "SIM_SEED"

// The fixed histories catch regressions, but they find nothing new.
func TestFurtherHistories(t *testing.T) {
	first := now()
	if v := os.Getenv(firstSeed); v != "" {
		var err error
		if first, err = strconv.ParseUint(v, 10, 64); err != nil {
			t.Fatalf("%s: %v", firstSeed, err)
		}
	}
	many(t, first, *further)
}

func now() uint64 { return uint64(time.Now().UnixNano()) }

// inParallel runs histories of consecutive seeds, until one fails. What a history returns is called after it, one at a
// time.
func inParallel(t *testing.T, first, histories uint64, history func(t *testing.T, seed uint64) (add func())) {
	t.Helper()
	var mu sync.Mutex
	var next atomic.Uint64
	t.Run("all", func(t *testing.T) {
		for i := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				for n := next.Add(1) - 1; n < histories && !t.Failed(); n = next.Add(1) - 1 {
					add := history(t, first+n)
					mu.Lock()
					add()
					mu.Unlock()
				}
			})
		}
	})
}

// many runs the histories of consecutive seeds, starting with first.
func many(t *testing.T, first uint64, changes int) {
	t.Helper()
	end := uint64((changes + size - 1) / size) //nolint:gosec // it is not negative
	t.Logf("seeds %d to %d; to repeat one history: go test ./test/sim -run TestRandomHistories -seed N", first, first+end-1)
	start := time.Now()
	var total tally
	inParallel(t, first, end, func(t *testing.T, seed uint64) func() {
		got := one(t, seed)
		return func() { total.add(got) }
	})
	t.Logf("%d histories, %d changes, %d Services, %d environments, %d events, %d crashes in %s: "+
		"lost 0, invented 0, pardoned %d (%.2f %%), of deleted Services %d, replayed to the end %d, sent twice with the same bytes %d, writes per event %.2f",
		total.histories, total.changes, total.services, total.environments, total.events, total.crashes, time.Since(start).Round(time.Millisecond), total.pardoned,
		100*float64(total.pardoned)/float64(max(total.events, 1)), total.late, total.replayed, total.doubles, float64(total.writes)/float64(max(total.events, 1)))
}
