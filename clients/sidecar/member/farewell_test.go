// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/knative-cdevents/knative-cdevents/clients/placement"
)

// newWorld returns a world without pods, in which nothing goes wrong by itself.
func newWorld(t *testing.T, dir string) *world {
	t.Helper()
	w := &world{
		T: t, dir: dir, random: rand.New(rand.NewPCG(1, 2)), nodes: map[string]*node{}, goneSince: map[string]time.Time{},
		referee: referee{active: map[int]map[string]int{}}, began: time.Now(),
	}
	w.store(func(*placement.Plan) {})
	return w
}

// A process that registered, and ends before it has the answer, does not know whether the container still handles what a
// process before it began. It must not say that nothing is left.
func TestAProcessThatEndsWhileItRegisters(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, dir)
		w.addPod()
		n := w.pick()
		pause(t.Context(), 2*time.Second)
		w.crash(n) // its container goes on
		n.cutController = true
		w.startSidecar(n)
		m := w.memberOf(n)
		pause(t.Context(), time.Second)
		w.lock.Lock()
		w.register(n, placement.Registration{Address: n.address, Pin: m.key.pin})
		n.cutController = false
		w.lock.Unlock()
		ctx, cancel := context.WithTimeout(t.Context(), simTimeout)
		defer cancel()
		_ = m.Leave(ctx)
		pause(t.Context(), simTimeout)
		if p := w.plans[len(w.plans)-1].Peers[0]; p.Pin != m.key.pin || p.Restarts != 1 || p.Left {
			t.Errorf("%+v", p)
		}
		w.kill(n)
	})
}
