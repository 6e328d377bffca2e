// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// script is the life of two Services, with everything that can happen to one.
var script = []func(*cluster){
	func(c *cluster) { c.create("cart") },
	func(c *cluster) { c.to("cart", 100, 1) },
	func(c *cluster) { c.revise(c.of("cart")); c.to("cart", 90, 1, 10, 2) },
	func(c *cluster) { c.create("shop"); c.to("shop", 100, 1) },
	func(c *cluster) { c.to("cart", 50, 1, 50, 2) },
	func(c *cluster) { c.to("cart", 100, 2) },
	func(c *cluster) { c.to("cart", 100, 1) },
	func(c *cluster) { c.remove(c.of("shop")) },
	func(c *cluster) { c.create("shop"); c.to("shop", 100, 1) },
	func(c *cluster) { c.revise(c.of("shop")); c.to("shop", 100, 2) },
	func(c *cluster) { c.to("shop", 100, 1) },
	func(c *cluster) { c.remove(c.of("cart")) },
}

func (c *cluster) of(name string) *service {
	return c.live[types.NamespacedName{Namespace: "ns", Name: name}]
}

// to moves traffic to Revisions, given by number.
func (c *cluster) to(name string, percentAndRevision ...int) {
	s := c.of(name)
	var targets []lifecycle.Share
	for pair := range slices.Chunk(percentAndRevision, 2) {
		targets = append(targets, lifecycle.Share{Percent: int64(pair[0]), Revision: s.revisions[pair[1]-1]})
	}
	c.route(s, targets...)
}

// pace is how much of its work the controller does between two changes.
type pace struct {
	name string
	work func(*world)
	// exact: the controller sees everything before the next change, so that no event
	// may be missing.
	exact bool
}

var paces = []pace{
	{"at rest", func(w *world) {
		for w.act(func(p *process) bool { return w.round(p) }) {
		}
	}, true},
	{"all at once", func(*world) {}, false},
	{"half done", func(w *world) {
		for range 8 {
			w.act(func(p *process) bool { w.step(p); return true })
		}
	}, false},
}

// act lets the leader do something; if it dies, the next leader takes over.
func (w *world) act(f func(*process) bool) bool {
	if len(w.processes) == 0 {
		w.processes = append(w.processes, w.start())
	}
	busy := true
	w.alive(w.processes[0], func() { busy = f(w.processes[0]) })
	return busy
}

// play runs the script. The process dies at the first of the given side effects, and its
// successor at the second, counted from its own start.
func play(seed uint64, p pace, deaths ...int) *world {
	w := newWorld(seed, chaos{sources: 1})
	w.cluster.stateful = func(name string) bool { return name == "cart" && seed%2 == 0 }
	w.processes = append(w.processes, w.start())
	// Take the baseline before the first change.
	p.work(w)
	w.round(w.processes[0])
	for _, change := range script {
		w.cluster.tick()
		change(w.cluster)
		for w.dieIn == 0 && len(deaths) > 0 {
			w.dieIn, deaths = deaths[0], deaths[1:]
		}
		p.work(w)
	}
	w.deaths(deaths)
	w.settle()
	return w
}

// deaths lets the remaining deaths happen during the last work.
func (w *world) deaths(left []int) {
	for {
		for w.dieIn == 0 && len(left) > 0 {
			w.dieIn, left = left[0], left[1:]
		}
		if !w.act(func(p *process) bool { return w.round(p) }) {
			return
		}
	}
}

func TestCrashAfterEverySideEffect(t *testing.T) {
	start := time.Now()
	runs, crashes, events := 0, 0, 0
	for _, p := range paces {
		for seed := uint64(1); seed <= 4; seed++ {
			all := play(seed, p).effects
			for n := 0; n <= all; n++ {
				w := play(seed, p, n)
				v := w.judge()
				report(t, w, fmt.Sprintf("%s, seed %d, crash at side effect %d", p.name, seed, n))
				if p.exact && v.pardoned > 0 {
					t.Fatalf("%s, seed %d, crash at side effect %d: %d splits were not announced", p.name, seed, n, v.pardoned)
				}
				runs, crashes, events = runs+1, crashes+w.crashes, events+v.events
			}
		}
	}
	t.Logf("%d runs, %d crashes, %d events in %s", runs, crashes, events, time.Since(start).Round(time.Millisecond))
}

// TestTwoCrashes also lets the second leader die at every side effect.
func TestTwoCrashes(t *testing.T) {
	p := paces[0]
	all := play(1, p).effects
	runs := 0
	for first := 1; first <= all; first += 3 {
		for second := 1; second <= 24; second++ {
			w := play(1, p, first, second)
			v := w.judge()
			report(t, w, fmt.Sprintf("crashes at side effects %d and %d", first, second))
			if v.pardoned > 0 {
				t.Fatalf("crashes at side effects %d and %d: %d splits were not announced", first, second, v.pardoned)
			}
			runs++
		}
	}
	t.Logf("%d runs with two crashes", runs)
}

func report(t *testing.T, w *world, what string) {
	t.Helper()
	for _, p := range w.problems {
		t.Errorf("%s: %s", what, p)
	}
	if len(w.problems) > 0 {
		t.FailNow()
	}
}
