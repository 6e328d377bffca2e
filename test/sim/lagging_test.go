// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// The last leader has written what it saw in a version that its successor's cache does not have yet, and that shows
// nothing new. No update leads to a decision then. What has to last for some time is announced all the same.
func TestSuccessorWithAnOlderCacheAnnouncesWhatWaits(t *testing.T) {
	w, leads, standsBy := pair(t)
	w.rest(leads)
	c := w.cluster
	key := types.NamespacedName{Namespace: "ns", Name: "e0"}
	for c.fleet.live[key] == nil {
		c.provision(w.rng)
	}
	f := c.fleet.live[key]
	wait := func(d time.Duration) {
		for until := c.now.Add(d); c.now.Before(until); {
			w.rest(leads)
			w.rest(standsBy)
			c.tick()
		}
	}
	f.finish(c.now)
	c.note(f, false)
	wait(10 * time.Second)
	f.asked, f.gen, f.ready, f.since, f.changes = 2, 2, false, c.now, 1
	c.note(f, false)
	wait(20 * time.Second)
	f.finish(c.now)
	c.note(f, false)
	for standsBy.environments.next() {
	}
	c.note(f, false) // as for a heartbeat
	for leads.environments.next() {
	}
	for !slices.Contains(w.told(), "resolved") {
		leads.environments.reconcile()
		leads.deliver()
	}
	if slices.Contains(w.told(), modifiedEnvironment) {
		t.Fatalf("announced %q before the change has lasted", w.told())
	}
	w.kill(leads)
	standsBy.follow(all)
	standsBy.lead()
	standsBy.environments.reconcile()
	w.settle()
	if got := w.told(); !slices.Contains(got, modifiedEnvironment) {
		t.Errorf("announced %q, and not the change", got)
	}
	report(t, w, "after the change of leader")
}
