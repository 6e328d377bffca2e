// SPDX-License-Identifier: Apache-2.0

package attribution

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
	"github.com/knative-cdevents/knative-cdevents/canary/scrape"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// world is a Service whose truth is known: its pods handle requests, die, restart and lie.
type world struct {
	rng  *rand.Rand
	now  time.Time
	pods map[types.UID]*worldPod
	next int
	// truth is what each Revision really handled. unseen is the part that no process could read,
	// because the pod died or restarted first.
	truth, unseen map[types.UID]float64
	tells         bool
	// nobody reads what steps return.
	nobody bool
}

type worldPod struct {
	revision types.UID
	counts   map[string]float64
	unread   float64
	start    float64
	restarts int
	lied     bool
}

func (p *worldPod) target(uid types.UID) scrape.Target {
	return scrape.Target{Pod: uid, Container: fmt.Sprint(p.restarts)}
}

// newWorld is deterministic for a seed. In half of the worlds processes export their start time.
func newWorld(seed uint64) *world {
	return &world{
		rng: rand.New(rand.NewPCG(seed, 1)), now: time.Unix(1e9, 0), pods: map[types.UID]*worldPod{},
		truth: map[types.UID]float64{}, unseen: map[types.UID]float64{}, tells: seed%2 == 0,
	}
}

func (w *world) facts() Facts {
	f := Facts{Revisions: []Revision{
		{Revision: &lifecycle.Revision{UID: "r1", Name: "cart-1", Stateful: "pekko"}},
		{Revision: &lifecycle.Revision{UID: "r2", Name: "cart-2", Stateful: "pekko"}},
	}}
	for uid, p := range w.pods {
		f.Pods = append(f.Pods, Pod{
			UID: uid, Revision: p.revision, Restarts: p.restarts, Ready: true,
		})
	}
	return f
}

// step makes something happen and returns the readings after it.
func (w *world) step() []scrape.Reading {
	w.now = w.now.Add(15 * time.Second)
	if len(w.pods) < 6 && w.rng.IntN(3) == 0 {
		w.next++
		w.pods[types.UID(fmt.Sprint("pod-", w.next))] = &worldPod{
			revision: types.UID(fmt.Sprint("r", 1+w.rng.IntN(2))), counts: map[string]float64{}, start: float64(w.now.Unix()),
		}
	}
	var out []scrape.Reading
	for uid, p := range w.pods {
		for range w.rng.IntN(20) {
			p.counts[[]string{"ok", "ok", "ok", "error"}[w.rng.IntN(4)]]++
			p.unread++
			w.truth[p.revision]++
		}
		switch w.rng.IntN(12) {
		case 0: // the pod dies
			w.unseen[p.revision] += p.unread
			delete(w.pods, uid)
			continue
		case 1: // the process restarts
			w.unseen[p.revision] += p.unread
			p.counts, p.unread, p.start = map[string]float64{}, 0, float64(w.now.Unix())
			p.restarts++
		}
		r := scrape.Reading{Target: p.target(uid), At: w.now}
		if w.rng.IntN(10) == 0 {
			r.Err = &scrape.ReadError{Class: scrape.Timeout, Err: errors.New("slow")}
			out = append(out, r)
			continue
		}
		values := map[mapping.Key]float64{}
		lied := false
		for outcome, n := range p.counts {
			// A process that keeps lying is believed in the end. So is one without a start time,
			// because its reset shows only as a fall.
			switch w.rng.IntN(40) {
			case 0:
				if w.tells && !p.lied {
					n, lied = 0, true
				}
			case 1:
				if w.tells && !p.lied {
					n, lied = 1e17, true
				}
			}
			values[finishedKey(outcome)] = n
		}
		if p.lied = lied; !lied && !w.nobody {
			p.unread = 0
		}
		r.Exposition = expose(mapping.NeutralName, 0, values)
		if w.tells {
			r.Start = p.start
		}
		out = append(out, r)
	}
	return out
}

// quiet reads every pod twice without a lie.
func (w *world) quiet() []scrape.Reading {
	w.now = w.now.Add(15 * time.Second)
	var out []scrape.Reading
	for uid, p := range w.pods {
		values := map[mapping.Key]float64{}
		for outcome, n := range p.counts {
			values[finishedKey(outcome)] = n
		}
		r := scrape.Reading{Target: p.target(uid), At: w.now, Exposition: expose(mapping.NeutralName, 0, values)}
		if w.tells {
			r.Start = p.start
		}
		p.unread = 0
		out = append(out, r)
	}
	return out
}

// Whatever pods do, totals never fall, nothing is counted twice, and only what no process could read is
// missing.
func TestTotalsEqualTheTruth(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		w := newWorld(seed)
		key := types.NamespacedName{Namespace: "shop", Name: "cart"}
		counts := NewCounts(func(types.NamespacedName) Facts { return w.facts() }, func() time.Time { return w.now })
		counts.Begin(key, true)
		before := map[types.UID]float64{}
		for i := range 100 {
			if i < 97 {
				counts.Read(key, w.step())
			} else {
				counts.Read(key, w.quiet())
			}
			now, _ := counts.Snapshot(key)
			for uid, tally := range now.Revisions() {
				got := tally.Total()
				if got < before[uid] {
					t.Fatalf("seed %d, step %d: %s fell from %v to %v", seed, i, uid, before[uid], got)
				}
				if got > w.truth[uid] {
					t.Fatalf("seed %d, step %d: %s counted %v of %v", seed, i, uid, got, w.truth[uid])
				}
				before[uid] = got
			}
		}
		for uid, got := range before {
			if got < w.truth[uid]-w.unseen[uid] {
				t.Errorf("seed %d: %s counted %v; the truth is %v, of which %v could not be seen", seed, uid, got, w.truth[uid],
					w.unseen[uid])
			}
		}
	}
}
