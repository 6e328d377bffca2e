// SPDX-License-Identifier: Apache-2.0

package lifecycle

import "testing"

// undone returns the sequence number of the transition that the last one undoes.
func (s *story) undone() int64 {
	for _, l := range s.last().Links {
		if l.Kind == LinkUndoes {
			return l.Sequence
		}
	}
	return 0
}

// A canary comes and goes. Rolling back the primary later undoes its upgrade, not the rollback of
// the canary.
func TestWithdrawnCanaryKeepsTheArrivalOfThePrimary(t *testing.T) {
	s := deployed(t)
	all := revs(r1, r2, r3)
	s.see(routed(revs(r1, r2), to("cart-2", 100)), RevisionReady, Upgraded)
	upgrade := s.last().Sequence
	s.see(routed(all, to("cart-2", 90), to("cart-3", 10)), RevisionReady, TrafficShifted)
	s.see(routed(all, to("cart-2", 100)), RolledBack)
	s.see(routed(all, to("cart-1", 100)), RolledBack)
	if got := s.undone(); got != upgrade {
		t.Errorf("undoes %d, want the upgrade %d", got, upgrade)
	}
}

// Each Revision arrives with the transition that first shows its traffic, whatever the type.
func TestRollbackRefersToTheUndoneTransition(t *testing.T) {
	all := revs(r1, r2, r3)
	// One canary replaces another.
	s := deployed(t)
	s.see(routed(revs(r1, r2), to("cart-1", 90), to("cart-2", 10)), RevisionReady, TrafficShifted)
	s.see(routed(all, to("cart-1", 90), to("cart-3", 10)), RevisionReady, TrafficShifted)
	swap := s.last().Sequence
	s.see(routed(all, to("cart-1", 100)), RolledBack)
	if got := s.undone(); got != swap {
		t.Errorf("undoes %d, want %d", got, swap)
	}
	// Two canaries start together, and the older one goes first.
	s = deployed(t)
	s.see(routed(all, to("cart-1", 80), to("cart-2", 10), to("cart-3", 10)), RevisionReady, RevisionReady, TrafficShifted)
	both := s.last().Sequence
	s.see(routed(all, to("cart-1", 90), to("cart-3", 10)), RolledBack)
	if got := s.undone(); got != both {
		t.Errorf("undoes %d, want %d", got, both)
	}
}

// A third Revision starts while the second is rolled out, and grows at its cost. This is not a
// rollback.
func TestRolloutIsOvertaken(t *testing.T) {
	all := revs(r1, r2, r3)
	s := deployed(t)
	s.see(rolling(all, to("cart-1", 70), to("cart-2", 30)), RevisionReady, RevisionReady, TrafficShifted)
	s.see(rolling(all, to("cart-1", 70), to("cart-2", 20), to("cart-3", 10)))
	s.seeAt(rolling(all, to("cart-1", 70), to("cart-3", 30)), s.at.Add(DefaultRules.ShiftedMinInterval), TrafficShifted)
	s.see(routed(all, to("cart-3", 100)), Upgraded)

	// The rollout itself is reverted, which Serving also does step by step.
	s = deployed(t)
	s.see(rolling(all, to("cart-1", 60), to("cart-2", 30), to("cart-3", 10)), RevisionReady, RevisionReady, TrafficShifted)
	s.see(rolling(all, to("cart-1", 70), to("cart-2", 30)), RolledBack)
}
