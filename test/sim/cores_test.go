// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

var cored = flag.Int("cores", 2000, "how many random histories of one-shot cores to simulate")

// coreSize is how many changes a history of cores has. Many short ones find more than few long ones in the same time: a
// look knows nothing of the one before it but what the ledger has.
const coreSize = 30

// coreChaos spreads what may fail over seeds, and how many cores run at once.
func coreChaos(seed uint64) (with chaos, most int) {
	with = chaosOf(seed)
	with.leaders, with.restores, with.vandals = false, false, false
	return with, 1 + int(seed%3)
}

// coreHistory is a history with cores only.
func coreHistory(seed uint64, size int, with chaos, most int) *world {
	w := newWorld(seed, with)
	w.startCores(most, seed%2 == 0)
	if w.rng.IntN(2) == 0 {
		w.finish(w.ask(nil)) // the first sweep takes the baseline
	}
	asleep := false
	for done := 0; done < size; {
		if w.rng.IntN(3) == 0 {
			w.change()
			done++
		}
		w.disturbSinks()
		if w.with.downtime && w.rng.IntN(20) == 0 {
			asleep = !asleep
		}
		if asleep {
			continue
		}
		w.wakes()
		if w.cores.lossy && w.rng.IntN(40) == 0 && len(w.cores.calls) < w.cores.most {
			w.ask(nil)
		}
		for range w.rng.IntN(40) {
			w.coreStep()
		}
	}
	w.settleCores()
	return w
}

// coreTally adds up many histories.
type coreTally struct {
	tally
	looks, requests, answered int
}

func oneCoreHistory(t *testing.T, seed uint64) coreTally {
	t.Helper()
	with, most := coreChaos(seed)
	w := coreHistory(seed, coreSize, with, most)
	v := w.judge()
	for _, p := range w.problems {
		t.Errorf("seed %d (%+v, %d cores, lossy %v): %s", seed, with, most, w.cores.lossy, p)
	}
	if len(w.problems) > 0 {
		t.Fatalf("run again with: go test ./test/sim -run TestCores -seed %d", seed)
	}
	out := coreTally{looks: w.cores.looks, requests: w.cores.requests, answered: w.cores.answered}
	out.tally = tally{
		histories: 1, changes: coreSize, services: len(w.cluster.history), events: v.events, crashes: w.crashes, doubles: w.doubles,
		pardoned: v.pardoned, late: v.late, replayed: v.replayed, writes: w.store.Writes(),
	}
	return out
}

// Cores that know nothing of each other, rings that are lost, come twice or in another order, crashes between any two
// requests, sinks that fail: every state that a look has seen is announced, and nothing else.
func TestCores(t *testing.T) {
	if *seed != 0 {
		oneCoreHistory(t, *seed)
		return
	}
	start, first, end := time.Now(), uint64(1), uint64(*cored) //nolint:gosec // it is not negative
	if *fresh {
		first = now()
	}
	var total coreTally
	inParallel(t, first, end, func(t *testing.T, seed uint64) func() {
		got := oneCoreHistory(t, seed)
		return func() {
			total.add(got.tally)
			total.looks, total.requests, total.answered = total.looks+got.looks, total.requests+got.requests, total.answered+got.answered
		}
	})
	t.Logf("%d histories, %d changes, %d Services, %d events, %d looks with %d requests, %d answers, %d crashes in %s: lost 0 of what a look "+
		"saw, invented 0, unseen %d, of deleted Services %d, replayed to the end %d, sent twice with the same bytes %d, writes per event %.2f",
		total.histories, total.changes, total.services, total.events, total.looks, total.requests, total.answered, total.crashes,
		time.Since(start).Round(time.Millisecond), total.pardoned, total.late, total.replayed, total.doubles,
		float64(total.writes)/float64(max(total.events, 1)))
}

// answer answers all rings, one after the other.
func (w *world) answer() {
	for len(w.cores.rings) > 0 {
		key := w.cores.rings[0]
		w.cores.rings = slices.DeleteFunc(w.cores.rings, func(o types.NamespacedName) bool { return o == key })
		w.finish(w.ask(&key))
	}
}

// playCores runs the script with cores, which die at these side effects.
func playCores(seed uint64, each bool, deaths ...int) *world {
	w := newWorld(seed, chaos{sources: 1 + int(seed%2)})
	w.startCores(1, false)
	w.finish(w.ask(nil))
	for _, change := range script {
		w.cluster.tick()
		change(w.cluster)
		for each && len(w.cores.rings) > 0 {
			for w.dieIn == 0 && len(deaths) > 0 {
				w.dieIn, deaths = deaths[0], deaths[1:]
			}
			key := w.cores.rings[0]
			w.cores.rings = slices.DeleteFunc(w.cores.rings, func(o types.NamespacedName) bool { return o == key })
			w.finish(w.ask(&key))
		}
	}
	for len(deaths) > 0 {
		w.dieIn, deaths = deaths[0], deaths[1:]
		w.answer()
	}
	w.settleCores()
	return w
}

// A core dies before and after each request that writes or sends, and the one that comes next continues.
func TestCoreCrashAfterEverySideEffect(t *testing.T) {
	runs, crashes := 0, 0
	for _, each := range []bool{true, false} {
		for seed := uint64(1); seed <= 4; seed++ {
			all := playCores(seed, each).effects
			for n := 1; n <= all; n++ {
				w := playCores(seed, each, n, 1+n%7)
				v := w.judge()
				what := fmt.Sprintf("after each change: %v, seed %d, crash at side effect %d", each, seed, n)
				report(t, w, what)
				if each && v.pardoned > 0 {
					t.Fatalf("%s: %d splits were not announced", what, v.pardoned)
				}
				runs, crashes = runs+1, crashes+w.crashes
			}
		}
	}
	t.Logf("%d runs, %d crashes", runs, crashes)
}

// advance changes something, and some time passes, in which a sink may fail or recover.
func (w *world) advance(rng *rand.Rand, change func(*cluster)) {
	w.cluster.tick()
	change(w.cluster)
	if rng.IntN(3) == 0 {
		s := w.sources[rng.IntN(2)].UID
		w.down[s] = !w.down[s]
	}
	w.cluster.now = w.cluster.now.Add(time.Duration(rng.IntN(10)) * time.Second)
}

// announcesAll checks a history whose last state was announced, and in which no split was missed.
func (w *world) announcesAll(t *testing.T, seed uint64) {
	t.Helper()
	v := w.judge()
	report(t, w, fmt.Sprintf("seed %d", seed))
	if v.pardoned > 0 {
		t.Errorf("seed %d: %d splits were not announced", seed, v.pardoned)
	}
}

// Residents and cores take turns, while sinks fail. Whoever comes next continues from the ledger.
func TestHandOverBetweenResidentAndCores(t *testing.T) {
	runs, turns := 0, 0
	for seed := uint64(1); seed <= 60; seed++ {
		w := newWorld(seed, chaos{sources: 2})
		rng := rand.New(rand.NewPCG(seed, 11))
		w.startCores(1, false)
		w.finish(w.ask(nil))
		for _, change := range script {
			w.advance(rng, change)
			if rng.IntN(2) == 0 {
				w.answer()
				continue
			}
			turns++
			w.cores.rings = nil // nobody is rung while a resident watches
			p := w.start()
			w.processes = append(w.processes, p)
			for range 40 {
				w.round(p)
			}
			w.kill(p)
		}
		w.finish(w.ask(nil)) // what a resident owes, only it knows: whoever comes after it sweeps
		w.settleCores()
		w.announcesAll(t, seed)
		runs++
	}
	t.Logf("%d runs, in which a resident took over %d times", runs, turns)
}

// While an installation is switched, a resident and cores run at once: the doorbell rings already, or still, and the
// resident has not gone to sleep yet. Then it ends, with what it keeps in memory. It ends anywhere, and starts again.
func TestResidentAndCoresAtOnce(t *testing.T) {
	runs := 0
	for seed := uint64(1); seed <= 60; seed++ {
		w := newWorld(seed, chaos{sources: 2})
		rng := rand.New(rand.NewPCG(seed, 12))
		w.startCores(1, false)
		w.finish(w.ask(nil))
		var p *process
		for _, change := range script {
			w.advance(rng, change)
			if p == nil && rng.IntN(3) == 0 {
				p = w.start()
				w.processes = append(w.processes, p)
			}
			for range rng.IntN(20) {
				if p != nil {
					w.round(p)
				}
				if rng.IntN(4) == 0 {
					w.answer()
				}
			}
			w.answer()
			if p != nil && rng.IntN(4) == 0 {
				w.kill(p)
				p = nil
			}
		}
		if p != nil {
			w.kill(p)
		}
		w.settleCores()
		w.announcesAll(t, seed)
		runs++
	}
	t.Logf("%d runs", runs)
}

// If no ring is lost, the last state of each Service is announced without a sweep, however looks overlap.
func TestLastStateNeedsNoSweep(t *testing.T) {
	events := 0
	for n := range uint64(*cored) / 3 { //nolint:gosec // it is not negative
		seed := 2*n + 1 // with an odd seed, no ring is lost
		w := coreHistory(seed, 12, chaos{sources: 1, crashes: seed%3 == 0}, 3)
		events += w.judge().events
		report(t, w, fmt.Sprintf("seed %d", seed))
	}
	t.Logf("%d histories, %d events", *cored/3, events)
}
