package lifecycle

import (
	"encoding/json"
	"testing"
	"time"
)

// ahead is a story that a leader has told whose clock was wrong, as the next one
// finds it in the ledger. Its own clock shows the time of the story.
func ahead(t *testing.T, s *story, by time.Duration, told func(*story)) {
	t.Helper()
	at := s.at
	s.at = at.Add(by)
	told(s)
	raw, err := json.Marshal(s.m)
	if err != nil {
		t.Fatal(err)
	}
	s.m, s.at = Memory{}, at
	if err := json.Unmarshal(raw, &s.m); err != nil {
		t.Fatal(err)
	}
}

// The clock of a leader was wrong, once. No wait of the next one is longer for it, and
// no time goes back.
func TestWaitsDoNotDependOnAnotherClock(t *testing.T) {
	both := revs(r1, r2)
	for _, by := range []time.Duration{30 * time.Minute, -30 * time.Minute} {
		s := deployed(t) // an outage
		ahead(t, s, by, func(s *story) {
			s.see(routed(both, to("cart-1", 90), to("cart-2", 10)), RevisionReady, TrafficShifted)
		})
		began, last := s.at.Add(time.Second), s.last().Time
		ill := with(routed(both, to("cart-1", 90), to("cart-2", 10)), Outage)
		s.seeAt(ill, began)
		if got := s.wake.Sub(began); got != s.rules.OutageAfter {
			t.Errorf("clock wrong by %s: it wakes after %s", by, got)
		}
		s.seeAt(ill, s.wake, IncidentDetected)
		if got := s.last(); got.Time.Before(last) || !got.Incident.Since.Equal(began) {
			t.Errorf("clock wrong by %s: told at %s, since %s", by, got.Time, got.Incident.Since)
		}

		s = deployed(t) // a gradual rollout
		ahead(t, s, by, func(s *story) {
			s.see(rolling(both, to("cart-1", 99), to("cart-2", 1)), RevisionReady, TrafficShifted)
			s.see(rolling(both, to("cart-1", 90), to("cart-2", 10)))
		})
		began = s.at
		step := rolling(both, to("cart-1", 90), to("cart-2", 10))
		s.see(step)
		s.seeAt(step, s.wake, TrafficShifted)
		if late := s.at.Sub(began); late > s.rules.ShiftedMinInterval+time.Second {
			t.Errorf("clock wrong by %s: the step is told after %s", by, late)
		}

		s = newStory(t) // stabilisation
		s.rules.Stabilization = time.Minute
		ok := routed(revs(r1), to("cart-1", 100))
		ahead(t, s, by, func(s *story) { s.see(ok, Created, RevisionReady) })
		s.see(ok)
		if got := s.wake.Sub(s.at); got != time.Minute {
			t.Errorf("clock wrong by %s: it must be stable for %s more", by, got)
		}

		s = newStory(t) // a cluster that does not settle
		all := routed(revs(s1), to("cart-1", 100))
		ahead(t, s, by, func(s *story) {
			s.see(all, Created, RevisionReady)
			s.see(s.look(all, false, "cart-1"), ClusterFormed)
		})
		s.see(s.look(all, false, "cart-1"))
		if got := s.wake.Sub(s.at); got != s.rules.SettleWithin {
			t.Errorf("clock wrong by %s: it is waited for %s more", by, got)
		}
		s.seeAt(s.look(all, false, "cart-1"), s.wake, ClusterUnsettled, Deployed, Published)
	}
}

// What begins only after that clock is measured by the right one, whatever times are
// journaled.
func TestWaitsThatBeginAfterAnotherClock(t *testing.T) {
	both, all := revs(r1, r2), routed(revs(s1), to("cart-1", 100))
	const by = 30 * time.Minute

	s := deployed(t) // a gradual rollout
	ahead(t, s, by, func(s *story) { s.see(routed(both, to("cart-1", 100)), RevisionReady) })
	s.see(rolling(both, to("cart-1", 99), to("cart-2", 1)), TrafficShifted)
	began, step := s.at, rolling(both, to("cart-1", 90), to("cart-2", 10))
	s.see(step)
	if got := s.wake.Sub(began); got != s.rules.ShiftedMinInterval {
		t.Errorf("the next step is told after %s", got)
	}
	s.seeAt(step, s.wake, TrafficShifted)

	s = newStory(t) // stabilisation
	s.rules.Stabilization = time.Minute
	ahead(t, s, by, func(s *story) { s.see(Snapshot{Generation: 1}, Created) })
	s.see(routed(revs(r1), to("cart-1", 100)), RevisionReady)
	if got := s.wake.Sub(s.at); got != time.Minute {
		t.Errorf("it must be stable for %s", got)
	}

	s = newStory(t) // a cluster that does not settle
	ahead(t, s, by, func(s *story) { s.see(all, Created, RevisionReady) })
	s.see(s.look(all, false, "cart-1"), ClusterFormed)
	began = s.at
	s.see(s.look(all, false, "cart-1"))
	s.seeAt(s.look(all, false, "cart-1"), began.Add(s.rules.SettleWithin), ClusterUnsettled, Deployed, Published)
}

// The clock of this process is set back by an hour. What it measures goes on.
func TestWaitsAreMeasuredByTheMonotonicClock(t *testing.T) {
	s := deployed(t)
	ill := with(routed(revs(r1), to("cart-1", 100)), Outage)
	began := time.Now() // with a reading of the monotonic clock
	s.seeAt(ill, began)
	if s.wake.Sub(began) != s.rules.OutageAfter {
		t.Fatalf("it wakes after %s", s.wake.Sub(began))
	}
	m, wake := s.m, s.wake
	if r := Next(s.rules, m, ill, wake); len(r.Transitions) != 1 {
		t.Errorf("told %+v", r.Transitions)
	}
	if since := m.Waits[waitFor(Outage)]; since != began {
		t.Errorf("it waits since %v, want %v with its reading", since, began)
	}
}
