// SPDX-License-Identifier: Apache-2.0

//nolint:contextcheck // what runs in a pod does not end with a request
package member

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/knative-cdevents/knative-cdevents/clients/placement"
)

var (
	firstSeed = flag.Uint64("sim.seed", 1, "the first seed of the simulation")
	seeds     = flag.Int("sim.seeds", 6, "how many seeds the simulation runs")
)

const (
	simShards  = 20
	simTimeout = 20 * time.Second // of a request
	simLease   = 12 * time.Second
)

// request is one that enters at a random pod. It is handled where the members say, as the proxy does.
func (w *world) request(ctx context.Context, shard int) bool {
	entry := w.pick()
	if entry == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	m := w.memberOf(entry)
	if m == nil {
		return false
	}
	address, version := m.Locate(shard)
	for ctx.Err() == nil && w.memberOf(entry) == m {
		var reply placement.Reply
		if at := w.at(entry, address); at != nil && w.thaw(ctx, at) {
			var done bool
			if done, reply = w.handle(ctx, at, shard, version); done {
				m.Remember(shard, address)
				return true
			}
		}
		m.Remember(shard, reply.Holder)
		if address, version = reply.Holder, max(version, reply.Version); address == "" {
			address, version = m.Locate(shard)
		}
		w.between(ctx, time.Millisecond, 100*time.Millisecond)
	}
	return false
}

func (w *world) memberOf(n *node) *Member {
	w.lock.Lock()
	defer w.lock.Unlock()
	return n.member
}

// at returns the node at an address, if the entry reaches it.
func (w *world) at(entry *node, address string) *node {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, n := range w.nodes {
		if n.address == address && n.member != nil && !n.dead && (n == entry || !n.cutPeers && !entry.cutPeers) {
			return n
		}
	}
	return nil
}

// handle is a visit. The container goes on until it has finished, whatever happens to the sidecar, but ends what the
// sidecar cuts.
func (w *world) handle(ctx context.Context, n *node, shard int, version int64) (bool, placement.Reply) {
	m := w.memberOf(n)
	if m == nil {
		return false, placement.Reply{}
	}
	visiting, cancel := context.WithCancel(n.running)
	defer cancel()
	stop := context.AfterFunc(ctx, cancel)
	visit, reply, err := m.Admit(visiting, shard, version)
	if err != nil || visit == nil {
		return false, reply
	}
	if !stop() {
		visit.End()
		return false, reply
	}
	w.begin(w, shard, n.name)
	took := time.Duration(w.n(2000)) * time.Millisecond
	if w.n(5) == 0 {
		took = time.Duration(w.n(int(simTimeout/time.Millisecond))) * time.Millisecond
	}
	select {
	case <-time.After(took):
	case <-n.running.Done():
	case <-visit.Context().Done():
	}
	w.end(shard, n.name)
	visit.End()
	return true, reply
}

// fault makes one thing go wrong, or ends it.
func (w *world) fault(ctx context.Context) {
	n := w.pick()
	if n == nil {
		w.addPod()
		return
	}
	set := func(f func()) { w.lock.Lock(); defer w.lock.Unlock(); f() }
	later := func(most time.Duration, f func()) {
		d := time.Duration(w.n(int(most)))
		go func() {
			pause(ctx, d)
			f()
		}()
	}
	switch w.n(14) {
	case 0, 1, 2:
		w.replan()
	case 3:
		if len(w.nodes) < 6 {
			w.addPod()
		}
	case 4: // a graceful end
		m := w.memberOf(n)
		go func() {
			w.leave(n, m)
			w.between(n.running, 0, 5*time.Second) // the container ends after its preStop
			w.kill(n)
			later(20*time.Second, func() { w.gone(n) })
		}()
	case 5: // a kill
		w.kill(n)
		later(40*time.Second, func() { w.gone(n) })
	case 6: // the sidecar restarts, and the container does not
		w.crash(n)
		later(5*time.Second, func() {
			if n.running.Err() == nil && w.memberOf(n) == nil {
				w.startSidecar(n)
			}
		})
	case 7:
		peers, controller := w.n(4) > 0, w.n(2) == 0
		set(func() { n.cutPeers, n.cutController = peers, controller })
		if w.strict && peers && controller && w.n(2) == 0 {
			// The stated case: the API says that the pod is gone, which its node does not know. Its address may be free then.
			reused := w.n(2) == 0
			later(20*time.Second, func() {
				if w.gone(n); reused {
					w.addPodAt(n.address)
				}
			})
			later(90*time.Second, func() { w.kill(n) })
			return
		}
		later(40*time.Second, func() { set(func() { n.cutPeers, n.cutController = n.gone, n.gone }) })
	case 8:
		d := time.Duration(w.n(int(15 * time.Second)))
		if w.strict {
			d = min(d, 2*time.Second) // a process that is suspended longer than the rest of the lease is the other stated case
		}
		set(func() { n.frozen = time.Now().Add(d) })
	case 9:
		set(func() { w.away = true })
		later(60*time.Second, func() { set(func() { w.away = false }) })
	case 10:
		set(func() { n.cutController = true })
		later(60*time.Second, func() { set(func() { n.cutController = n.gone }) })
	case 11: // the sidecar restarts, and is told to end while it registers
		w.crash(n)
		go func() {
			w.between(n.running, 0, 2*time.Second)
			if n.running.Err() != nil || w.memberOf(n) != nil {
				return
			}
			w.startSidecar(n)
			w.between(n.running, 0, 200*time.Millisecond)
			w.leave(n, w.memberOf(n))
			w.between(n.running, 0, simTimeout)
			w.kill(n)
			later(20*time.Second, func() { w.gone(n) })
		}()
	case 12: // the controller says that the pod is being deleted
		w.deleting(n)
		go func() {
			w.between(n.running, simTimeout, 2*simTimeout)
			w.kill(n)
			later(20*time.Second, func() { w.gone(n) })
		}()
	case 13: // the sidecar leaves and ends, and another one begins
		m := w.memberOf(n)
		go func() {
			w.leave(n, m)
			if n.running.Err() != nil || w.memberOf(n) != m {
				return
			}
			w.crash(n)
			w.between(n.running, 0, time.Second)
			if n.running.Err() == nil && w.memberOf(n) == nil {
				w.startSidecar(n)
			}
		}()
	}
}

func (w *world) run(minutes int) {
	ctx, cancel := context.WithCancel(context.Background())
	w.began = time.Now()
	w.lock.Lock()
	w.store(func(*placement.Plan) {})
	w.lock.Unlock()
	for range 3 {
		w.addPod()
	}
	loading, stop := context.WithCancel(ctx)
	var load sync.WaitGroup
	for range 12 {
		load.Go(func() {
			for loading.Err() == nil {
				w.request(loading, w.n(simShards))
				w.between(loading, time.Millisecond, 400*time.Millisecond)
			}
		})
	}
	for end := time.Now().Add(time.Duration(minutes) * time.Minute); time.Now().Before(end); {
		w.between(ctx, 100*time.Millisecond, 8*time.Second)
		w.fault(ctx)
	}
	// All is well again, and so each shard is handled.
	pause(ctx, 2*time.Minute)
	w.lock.Lock()
	for _, n := range w.nodes {
		n.cutPeers, n.cutController = n.gone, n.gone
	}
	w.away = false
	w.lock.Unlock()
	w.addPod()
	pause(ctx, time.Minute)
	for _, n := range w.nodes {
		if n.gone {
			w.kill(n)
		}
	}
	stop()
	load.Wait()
	for shard := range simShards {
		answered := false
		for range 10 {
			answered = answered || w.request(ctx, shard)
		}
		if !answered {
			w.Errorf("shard %d is not handled at the end", shard)
		}
	}
	for _, n := range w.nodes {
		n.end()
	}
	cancel()
	pause(context.Background(), 5*time.Minute)
}

// TestSimulation runs pods, a controller and a network that fail in all the ways that are not excluded, in simulated
// time. Run it with -sim.seeds=1000 for more.
func TestSimulation(t *testing.T) {
	t.Parallel()
	for i := range *seeds {
		seed := *firstSeed + uint64(i)
		for _, strict := range []bool{false, true} {
			t.Run(fmt.Sprintf("seed=%d/strict=%v", seed, strict), func(t *testing.T) {
				dir := t.TempDir()
				if err := os.WriteFile(filepath.Join(dir, "token"), []byte("secret"), 0o600); err != nil {
					t.Fatal(err)
				}
				synctest.Test(t, func(t *testing.T) {
					w := &world{
						T: t, dir: dir, strict: strict, random: rand.New(rand.NewPCG(seed, 0)),
						nodes: map[string]*node{}, goneSince: map[string]time.Time{}, referee: referee{active: map[int]map[string]int{}},
					}
					w.run(10)
					t.Logf("%d requests were handled; %d plans", w.handled, len(w.plans))
					if len(w.overlaps) > 0 {
						t.Errorf("%d overlaps; the first ones: %v", len(w.overlaps), w.overlaps[:min(5, len(w.overlaps))])
					}
				})
			})
		}
	}
}
