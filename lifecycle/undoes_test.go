package lifecycle

import "testing"

// undone is the transition that the last one takes back, by its number.
func (s *story) undone() int64 {
	for _, l := range s.last().Links {
		if l.Kind == LinkUndoes {
			return l.Sequence
		}
	}
	return 0
}

// A canary comes and goes. When the primary is taken back later, what is undone is
// its upgrade, not the rollback of the canary.
func TestAWithdrawnCanaryIsNotHowThePrimaryArrived(t *testing.T) {
	s := deployed(t)
	all := revs(r1, r2, r3)
	s.see(routed(revs(r1, r2), to("cart-2", 100)), RevisionReady, Upgraded)
	upgrade := s.last().Sequence
	s.see(routed(all, to("cart-2", 90), to("cart-3", 10)), RevisionReady, TrafficShifted)
	s.see(routed(all, to("cart-2", 100)), RolledBack)
	s.see(routed(all, to("cart-1", 100)), RolledBack)
	if got := s.undone(); got != upgrade {
		t.Errorf("it undoes %d, want the upgrade %d", got, upgrade)
	}
}

// Each Revision that gets traffic arrives by the transition that says so, whatever
// else that one says.
func TestWhatARollbackUndoes(t *testing.T) {
	all := revs(r1, r2, r3)
	// One canary stands in for the other.
	s := deployed(t)
	s.see(routed(revs(r1, r2), to("cart-1", 90), to("cart-2", 10)), RevisionReady, TrafficShifted)
	s.see(routed(all, to("cart-1", 90), to("cart-3", 10)), RevisionReady, TrafficShifted)
	swap := s.last().Sequence
	s.see(routed(all, to("cart-1", 100)), RolledBack)
	if got := s.undone(); got != swap {
		t.Errorf("it undoes %d, want %d", got, swap)
	}
	// Two come at once, and the older one goes first.
	s = deployed(t)
	s.see(routed(all, to("cart-1", 80), to("cart-2", 10), to("cart-3", 10)), RevisionReady, RevisionReady, TrafficShifted)
	both := s.last().Sequence
	s.see(routed(all, to("cart-1", 90), to("cart-3", 10)), RolledBack)
	if got := s.undone(); got != both {
		t.Errorf("it undoes %d, want %d", got, both)
	}
}

// A third Revision comes while the second one is rolled out, and grows at its cost.
// Nobody goes back.
func TestARolloutThatIsOvertaken(t *testing.T) {
	all := revs(r1, r2, r3)
	s := deployed(t)
	s.see(rolling(all, to("cart-1", 70), to("cart-2", 30)), RevisionReady, RevisionReady, TrafficShifted)
	s.see(rolling(all, to("cart-1", 70), to("cart-2", 20), to("cart-3", 10)))
	s.seeAt(rolling(all, to("cart-1", 70), to("cart-3", 30)), s.at.Add(DefaultRules.ShiftedMinInterval), TrafficShifted)
	s.see(routed(all, to("cart-3", 100)), Upgraded)

	// The rollout itself is taken back, and Serving does that step by step, too.
	s = deployed(t)
	s.see(rolling(all, to("cart-1", 60), to("cart-2", 30), to("cart-3", 10)), RevisionReady, RevisionReady, TrafficShifted)
	s.see(rolling(all, to("cart-1", 70), to("cart-2", 30)), RolledBack)
}
