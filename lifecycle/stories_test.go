// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// rolling returns a Service in the middle of a gradual rollout.
func rolling(known map[string]*Revision, shares ...Share) Snapshot {
	x := routed(known, shares...)
	x.Ready, x.Route.Rollout = false, true
	return x
}

// A held step of a gradual rollout that is reverted before it was announced is never announced.
func TestRevertedHeldStepIsNotAnnounced(t *testing.T) {
	all := revs(r1, r2, r3)
	begin := func() *story {
		s := deployed(t)
		s.see(rolling(all, to("cart-1", 90), to("cart-2", 10)), RevisionReady, RevisionReady, TrafficShifted)
		return s
	}
	s := begin() // back to the last announced split
	s.see(rolling(all, to("cart-1", 80), to("cart-2", 20)))
	s.see(rolling(all, to("cart-1", 90), to("cart-2", 10)))
	s.seeAt(rolling(all, to("cart-1", 90), to("cart-2", 10)), s.at.Add(DefaultRules.ShiftedMinInterval))
	if s.m.Held != nil || !s.wake.IsZero() {
		t.Errorf("still held: %+v, wakes at %v", s.m.Held, s.wake)
	}
	s.see(rolling(all, to("cart-1", 70), to("cart-2", 30)), TrafficShifted)

	s = begin() // a canary that was never announced is withdrawn
	s.see(routed(all, to("cart-1", 100)), RolledBack)
	s.see(rolling(all, to("cart-1", 99), to("cart-3", 1)))
	s.see(routed(all, to("cart-1", 100)))

	s = begin() // of the withdrawn canaries, one was announced
	s.see(rolling(all, to("cart-1", 85), to("cart-2", 5), to("cart-3", 10)))
	s.see(routed(all, to("cart-1", 100)), RolledBack)
	if b := s.last(); b.Previous.Name != "cart-2" || b.PreviousTraffic.Percent("cart-2") != 10 {
		t.Errorf("RolledBack has %+v of %+v", b.Previous, b.PreviousTraffic)
	}
}

// The last step is announced even if the Service is removed while it is held.
func TestHeldStepIsAnnouncedBeforeRemoval(t *testing.T) {
	all := revs(r1, r2)
	s := deployed(t)
	s.see(rolling(all, to("cart-1", 90), to("cart-2", 10)), RevisionReady, TrafficShifted)
	s.see(rolling(all, to("cart-1", 80), to("cart-2", 20)))
	got := s.see(Snapshot{Gone: true}, TrafficShifted, Removed)
	if got[0].Traffic.Percent("cart-2") != 20 {
		t.Errorf("TrafficShifted has %+v", got[0].Traffic)
	}
}

// TestTrafficEventsAreContiguous checks random stories: each traffic event announces a change, and
// starts where the previous one ended.
func TestTrafficEventsAreContiguous(t *testing.T) {
	all := revs(r1, r2, r3, rev("cart-4", 4, "a"))
	for seed := range uint64(4000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		m, at, last := Memory{}, start, []Share(nil)
		for range 25 {
			at = at.Add(time.Duration(rng.IntN(6000)) * time.Millisecond)
			x := randomSplit(rng, all)
			for _, tr := range fold(&m, x, at) {
				switch tr.Type {
				case TrafficShifted, Upgraded, RolledBack:
					if slices.Equal(tr.PreviousTraffic, tr.Traffic) {
						t.Fatalf("seed %d: %s %s from %v to itself", seed, tr.Type, tr.Reason, tr.Traffic)
					}
					if last != nil && !slices.Equal(tr.PreviousTraffic, last) {
						t.Fatalf("seed %d: %s starts with %v, but %v was announced", seed, tr.Type, tr.PreviousTraffic, last)
					}
					if tr.Reason == ReasonWithdrawn && tr.PreviousTraffic.Percent(tr.Previous.Name) == 0 {
						t.Fatalf("seed %d: withdrawn %s had no traffic in %v", seed, tr.Previous.Name, tr.PreviousTraffic)
					}
					last = tr.Traffic
				case Deployed:
					last = tr.Traffic
				}
			}
		}
	}
}

// fold folds one snapshot into a memory.
func fold(m *Memory, x Snapshot, at time.Time) []Transition {
	r := Next(DefaultRules, *m, x, at)
	*m = r.Memory
	return r.Transitions
}

// randomSplit draws from few splits, so that they recur.
func randomSplit(rng *rand.Rand, known map[string]*Revision) Snapshot {
	name := func() string { return []string{"cart-1", "cart-2", "cart-3", "cart-4"}[rng.IntN(4)] }
	percent := []int64{100, 90, 80, 50}[rng.IntN(4)]
	shares := []Share{to(name(), percent), to(name(), 100-percent)}
	if split := NewSplit(shares); len(split) > 1 && rng.IntN(2) == 0 {
		return rolling(known, shares...)
	}
	return routed(known, shares...)
}
