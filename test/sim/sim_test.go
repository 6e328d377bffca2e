package sim

import (
	"flag"
	"fmt"
	"testing"
	"time"
)

var (
	seed    = flag.Uint64("seed", 0, "run one history again; 0 for all of them")
	fresh   = flag.Bool("fresh", false, "begin with histories that nobody has run before, instead of the same ones each time")
	changes = flag.Int("changes", 20_000, "how many changes to simulate over all random histories")
)

// chaos says what may go wrong in a history.
type chaos struct {
	crashes, leaders, outages, downtime bool
}

// history runs random changes, a few hundred of them.
func history(seed uint64, size int, with chaos) *world {
	w := newWorld(seed)
	if w.rng.IntN(2) == 0 {
		w.processes = append(w.processes, w.start())
	}
	for done := 0; done < size; {
		if w.rng.IntN(3) == 0 {
			w.change()
			done++
		}
		w.disturb(with)
		for range w.rng.IntN(6) {
			if n := len(w.processes); n > 0 {
				w.step(w.processes[w.rng.IntN(n)])
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
	switch r := w.rng.IntN(20); {
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
	default:
		c.shift(c.live[names[w.rng.IntN(len(names))]], w.processes)
	}
}

func (w *world) disturb(with chaos) {
	if with.crashes && w.dieIn == 0 && w.rng.IntN(40) == 0 {
		w.dieIn = 1 + w.rng.IntN(12)
	}
	if with.outages && w.rng.IntN(30) == 0 {
		w.sinkDown, w.flaky = !w.sinkDown, true
	}
	limit := 1
	if with.leaders {
		limit = 2
	}
	down := with.downtime && w.rng.IntN(10) != 0
	if len(w.processes) < limit && !down && (len(w.processes) == 0 || w.rng.IntN(30) == 0) {
		w.processes = append(w.processes, w.start())
	}
	if with.leaders && len(w.processes) > 1 && w.rng.IntN(30) == 0 {
		w.kill(w.processes[w.rng.IntN(len(w.processes))])
	}
}

func check(t *testing.T, seed uint64, w *world) verdict {
	t.Helper()
	v := w.judge()
	for _, p := range w.problems {
		t.Errorf("seed %d: %s", seed, p)
	}
	if len(w.problems) > 0 {
		t.Fatalf("run again with: go test ./test/sim -run %s -seed %d", t.Name(), seed)
	}
	return v
}

func TestRandomHistories(t *testing.T) {
	start := time.Now()
	var total verdict
	var crashes, doubles, writes, services, done int
	first := uint64(1)
	if *fresh {
		first = uint64(time.Now().UnixNano())
	}
	for n := uint64(0); done < *changes; n++ {
		s := first + n
		if *seed != 0 {
			s, done = *seed, *changes
		}
		with := chaos{crashes: s%5 != 0, leaders: s%3 == 0, outages: s%2 == 0, downtime: s%7 == 0}
		const size = 250
		w := history(s, size, with)
		v := check(t, s, w)
		total.events += v.events
		total.pardoned += v.pardoned
		crashes += w.crashes
		doubles += w.doubles
		writes += w.store.Writes()
		services += len(w.cluster.history)
		done += size
	}
	t.Logf("%d changes, %d Services, %d events, %d crashes in %s: lost 0, invented 0, pardoned %d (%.3f %%), sent twice with the same bytes %d, writes per event %.2f",
		done, services, total.events, crashes, time.Since(start).Round(time.Millisecond), total.pardoned,
		100*float64(total.pardoned)/float64(max(total.events, 1)), doubles, float64(writes)/float64(max(total.events, 1)))
}
