// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
)

// deletedByHand deletes the entry of a Service with pending events, while a leader and a standby run.
func deletedByHand(t *testing.T) (w *world, leads, standsBy *process) {
	t.Helper()
	w, leads, standsBy = pair(t)
	c := w.cluster
	c.create("cart")
	c.to("cart", 100, 1)
	for _, p := range []*process{leads, standsBy} {
		w.rest(p)
	}
	w.down[w.sources[0].UID] = true
	c.revise(c.of("cart"))
	c.to("cart", 100, 2)
	for range 50 {
		leads.next(logRoutes)
		leads.next(logRevisions)
		leads.reconcile()
		leads.deliver()
	}
	leads.follow(all)
	standsBy.follow(all)
	o := w.entry(c.of("cart").uid)
	if o == nil || len(o.Status.Journal) == 0 || slices.Contains(w.told(), "upgraded") {
		t.Fatalf("nothing is pending: %+v, announced %q", o, w.told())
	}
	w.store.Remove(o.Name)
	return w, leads, standsBy
}

// restored checks that everything was announced once, and that the entry is there.
func (w *world) restored(t *testing.T, how string) {
	t.Helper()
	if got := w.told(); !slices.Equal(got, wholeLife) {
		t.Errorf("%s: announced %q, want %q", how, got, wholeLife)
	}
	if o := w.entry(w.cluster.of("cart").uid); o == nil || o.Status.Sequence != int64(len(wholeLife)) ||
		o.Status.Created == nil {
		t.Errorf("%s: the entry is %+v, want a restored one", how, o)
	}
	report(t, w, how)
}

var wholeLife = []string{"created", "ready", "deployed", "published", "ready", "upgraded"}

func TestEntryDeletedByHandUnderALeader(t *testing.T) {
	w, leads, _ := deletedByHand(t)
	w.processes = []*process{leads}
	w.settle()
	w.restored(t, "with a leader")
}

// The leader dies before it has seen that the entry is gone. The standby has.
func TestEntryDeletedByHandUnderADyingLeader(t *testing.T) {
	for name, sees := range map[string]func(*process){
		"before it leads": func(p *process) { p.follow(all); p.flush() }, "when it leads": func(*process) {},
	} {
		w, leads, standsBy := deletedByHand(t)
		w.kill(leads)
		sees(standsBy)
		w.settle()
		w.restored(t, name)
	}
}

// No process sees the deletion. What was pending is lost with the entry: a limit that docs/delivery.md states.
// The Service is announced in its present state, as a new one is, and everything after that as usual.
func TestEntryDeletedByHandWithoutAController(t *testing.T) {
	w, leads, standsBy := deletedByHand(t)
	told := len(w.told())
	w.kill(leads)
	w.kill(standsBy)
	w.settle()
	again := w.told()[told:]
	for _, typ := range []string{"created", "deployed", "published"} {
		if !slices.Contains(again, typ) {
			t.Errorf("announced %q afterwards, without %s", again, typ)
		}
	}
	if slices.Contains(again, "upgraded") {
		t.Errorf("announced %q afterwards", again)
	}
	if o := w.entry(w.cluster.of("cart").uid); o == nil || o.Name != ledger.Name(o.Spec) || len(o.Status.Journal) > 0 {
		t.Errorf("the entry is %+v", o)
	}
}
