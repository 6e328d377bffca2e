// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// waiting returns a world in which an upgrade of a stateful Service waits for its
// cluster. Only the ledger records that it waits.
func waiting(t *testing.T) *world {
	t.Helper()
	w, leads, standsBy := pair(t)
	w.kill(standsBy)
	w.cluster.stateful = func(string) bool { return true }
	w.cluster.create("cart")
	w.cluster.to("cart", 100, 1)
	w.rest(leads)
	w.cluster.revise(w.cluster.of("cart")) // it joins, and shards move
	for range 2 {
		w.round(leads)
	}
	w.cluster.to("cart", 100, 2) // in a reconcile of its own, which announces nothing
	for range 3 {
		w.round(leads)
	}
	w.kill(leads)
	return w
}

var before = []string{"created", "ready", "cluster.formed", "cluster.settled", "deployed", "published"}

func TestPendingUpgradeSurvivesItsLeader(t *testing.T) {
	w := waiting(t)
	got := w.told()
	slices.Sort(got[:4]) // the order of the informers is random
	want := slices.Clone(before)
	slices.Sort(want[:4])
	if !slices.Equal(got[:6], want) || slices.Contains(got, "upgraded") {
		t.Fatalf("announced %q", got)
	}
	w.cluster.to("cart", 100, 1) // while no process watches
	w.processes = []*process{w.start()}
	w.settle()
	if got := w.told(); !slices.Contains(got, "upgraded") || !slices.Contains(got, "rolledback") {
		t.Errorf("announced %q", got)
	}
	w.judge()
	report(t, w, "after the change of leader")
}

func TestPendingUpgradeIsAnnouncedBeforeTheDeletion(t *testing.T) {
	w := waiting(t)
	w.cluster.remove(w.cluster.of("cart"))
	w.processes = []*process{w.start()}
	w.settle()
	if got := w.told(); !slices.Equal(got[len(got)-3:], []string{"upgraded", "cluster.removed", "removed"}) {
		t.Errorf("announced %q", got)
	}
}

// A leader that loses the lead during a poll must not undo what the next leader has
// announced.
func TestPollOfFormerLeader(t *testing.T) {
	w, old, next := pair(t)
	w.cluster.stateful = func(string) bool { return true }
	w.cluster.create("cart")
	w.cluster.to("cart", 100, 1)
	w.rest(old)
	cart := w.cluster.of("cart")
	cart.split = true
	old.begin(cart)
	old.tell()
	detected := func() bool { return slices.Contains(w.told(), "detected") }
	for range 60 {
		if next.leads = false; !detected() {
			w.round(old)
		}
	}
	if !detected() {
		t.Fatalf("announced %q", w.told())
	}
	old.begin(cart) // still split
	cart.split = false
	next.lead() // and the old leader does not know yet
	w.rest(next)
	if got := w.told(); got[len(got)-1] != "resolved" {
		t.Fatalf("announced %q", got)
	}
	stale := old.looks[0].view
	if stale.Trouble[lifecycle.ClusterSplit] == nil {
		t.Fatal("the former leader has seen something else")
	}
	old.tell()
	for range 60 {
		w.cluster.tick()
		old.follow(all)
		old.queue[cart.key] = true
		old.reconcile()
		old.deliver()
	}
	if got := w.told(); got[len(got)-1] != "resolved" {
		t.Errorf("a process that does not lead announced %q", got)
	}
}
