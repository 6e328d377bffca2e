// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"testing"
	"time"
)

// rest lets a process do all its work.
func (w *world) rest(p *process) {
	for w.round(p) {
	}
}

// pair starts a leader and a standby, and takes the baseline.
func pair(t *testing.T) (w *world, leads, standsBy *process) {
	t.Helper()
	w = newWorld(1, chaos{sources: 1})
	leads, standsBy = w.start(), w.start()
	w.processes = []*process{leads, standsBy}
	standsBy.demote()
	if _, err := leads.ob.Since(leads.ctx); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		w.cluster.tick()
	}
	return w, leads, standsBy
}

func (w *world) told() []string {
	var out []string
	for _, d := range w.got[w.sources[0].UID] {
		out = append(out, short(d.typ))
	}
	return out
}

// Its clock may be wrong.
func TestStandbyAnnouncesWhatCameAndWent(t *testing.T) {
	for _, skew := range []time.Duration{0, time.Hour, -time.Hour} {
		w, leads, standsBy := pair(t)
		standsBy.skew = skew
		w.kill(leads)
		w.cluster.create("cart")
		w.cluster.to("cart", 100, 1)
		w.rest(standsBy)
		w.cluster.remove(w.cluster.of("cart"))
		w.rest(standsBy)
		if got := w.told(); len(got) > 0 {
			t.Fatalf("a standby announced %q", got)
		}
		standsBy.lead()
		w.rest(standsBy)
		if got, want := w.told(), []string{"created", "ready", "deployed", "published", "removed"}; !slices.Equal(got, want) {
			t.Errorf("with a clock that is wrong by %s: announced %q, want %q", skew, got, want)
		}
		report(t, w, "after the change of leader")
	}
}

// DomainMappings come and go. The standby has seen each change, and the leader has
// announced all of them.
func TestChangeOfLeaderPublishesNothingTwice(t *testing.T) {
	w, leads, standsBy := pair(t)
	c := w.cluster
	c.create("cart")
	c.to("cart", 100, 1)
	for _, change := range []func(){
		func() { c.point("d0.example.org", c.of("cart"), true) },
		func() { c.point("d1.example.org", c.of("cart"), true) },
		func() { c.unmap("d0.example.org") },
	} {
		for _, p := range []*process{leads, standsBy} {
			w.rest(p)
		}
		change()
	}
	for _, p := range []*process{leads, standsBy} {
		w.rest(p)
	}
	told := w.told()
	if want := []string{"created", "ready", "deployed", "published", "published", "published", "published"}; !slices.Equal(told, want) {
		t.Fatalf("announced %q, want %q", told, want)
	}
	w.kill(leads)
	standsBy.lead()
	w.rest(standsBy)
	if got := w.told(); !slices.Equal(got, told) {
		t.Errorf("announced %q, and then %q", told, got)
	}
	// One mapping is deleted while no process watches, and the caches lag behind the creation of another.
	c.unmap("d1.example.org")
	w.kill(standsBy)
	next := w.start()
	w.processes = []*process{next}
	next.lead()
	w.rest(next)
	if got := w.told(); len(got) != len(told)+1 {
		t.Errorf("announced %q, and then %q", told, got)
	}
	w.judge()
	report(t, w, "after the changes of leader")
}

// The history of the standby also contains what the leader has announced.
func TestChangeOfLeaderAnnouncesNothingTwice(t *testing.T) {
	w, leads, standsBy := pair(t)
	w.cluster.create("cart")
	w.cluster.to("cart", 100, 1)
	w.cluster.revise(w.cluster.of("cart"))
	w.cluster.to("cart", 50, 1, 50, 2)
	w.cluster.to("cart", 100, 2)
	for _, p := range []*process{leads, standsBy} {
		w.rest(p)
	}
	told := w.told()
	w.kill(leads)
	standsBy.lead()
	w.rest(standsBy)
	if got := w.told(); !slices.Equal(got, told) {
		t.Errorf("announced %q, and then %q", told, got)
	}
}
