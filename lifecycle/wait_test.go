// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"encoding/json"
	"testing"
	"time"
)

// ahead runs part of a story on a leader whose clock is off, then saves and restores the memory for
// the next leader, whose clock shows the story's time.
func ahead(t *testing.T, s *story, by time.Duration, run func(*story)) {
	t.Helper()
	at := s.at
	s.at = at.Add(by)
	run(s)
	raw, err := json.Marshal(s.m)
	if err != nil {
		t.Fatal(err)
	}
	s.m, s.at = Memory{}, at
	if err := json.Unmarshal(raw, &s.m); err != nil {
		t.Fatal(err)
	}
}

// One leader's clock was wrong. The next leader's waits are no longer for it, and no time goes
// back.
func TestWaitsDoNotDependOnAnotherClock(t *testing.T) {
	both := revs(r1, r2)
	for _, by := range []time.Duration{30 * time.Minute, -30 * time.Minute} {
		s := deployed(t) // an outage
		ahead(t, s, by, func(s *story) {
			s.see(routed(both, to("cart-1", 90), to("cart-2", 10)), RevisionReady, TrafficShifted)
		})
		began, last := s.at.Add(time.Second), s.last().Time
		bad := with(routed(both, to("cart-1", 90), to("cart-2", 10)), Outage)
		s.seeAt(bad, began)
		if got := s.wake.Sub(began); got != s.rules.OutageAfter {
			t.Errorf("clock off by %s: wakes after %s", by, got)
		}
		s.seeAt(bad, s.wake, IncidentDetected)
		if got := s.last(); got.Time.Before(last) || !got.Incident.Since.Equal(began) {
			t.Errorf("clock off by %s: detected at %s, since %s", by, got.Time, got.Incident.Since)
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
			t.Errorf("clock off by %s: the step is announced after %s", by, late)
		}

		s = newStory(t) // stabilisation
		s.rules.Stabilization = time.Minute
		ok := routed(revs(r1), to("cart-1", 100))
		ahead(t, s, by, func(s *story) { s.see(ok, Created, RevisionReady) })
		s.see(ok)
		if got := s.wake.Sub(s.at); got != time.Minute {
			t.Errorf("clock off by %s: stabilization takes %s more", by, got)
		}

		s = newStory(t) // a cluster that does not settle
		all := routed(revs(s1), to("cart-1", 100))
		ahead(t, s, by, func(s *story) {
			s.see(all, Created, RevisionReady)
			s.see(s.poll(all, false, "cart-1"), ClusterFormed)
		})
		s.see(s.poll(all, false, "cart-1"))
		if got := s.wake.Sub(s.at); got != s.rules.SettleWithin {
			t.Errorf("clock off by %s: the wait takes %s more", by, got)
		}
		s.seeAt(s.poll(all, false, "cart-1"), s.wake, ClusterUnsettled, Deployed, Published)
	}
}

// Waits that start later are measured by the right clock, whatever times are journaled.
func TestWaitsThatStartAfterAnotherClock(t *testing.T) {
	both, all := revs(r1, r2), routed(revs(s1), to("cart-1", 100))
	const by = 30 * time.Minute

	s := deployed(t) // a gradual rollout
	ahead(t, s, by, func(s *story) { s.see(routed(both, to("cart-1", 100)), RevisionReady) })
	s.see(rolling(both, to("cart-1", 99), to("cart-2", 1)), TrafficShifted)
	began, step := s.at, rolling(both, to("cart-1", 90), to("cart-2", 10))
	s.see(step)
	if got := s.wake.Sub(began); got != s.rules.ShiftedMinInterval {
		t.Errorf("the next step is announced after %s", got)
	}
	s.seeAt(step, s.wake, TrafficShifted)

	s = newStory(t) // stabilisation
	s.rules.Stabilization = time.Minute
	ahead(t, s, by, func(s *story) { s.see(Snapshot{Generation: 1}, Created) })
	s.see(routed(revs(r1), to("cart-1", 100)), RevisionReady)
	if got := s.wake.Sub(s.at); got != time.Minute {
		t.Errorf("stabilization takes %s", got)
	}

	s = newStory(t) // a cluster that does not settle
	ahead(t, s, by, func(s *story) { s.see(all, Created, RevisionReady) })
	s.see(s.poll(all, false, "cart-1"), ClusterFormed)
	began = s.at
	s.see(s.poll(all, false, "cart-1"))
	s.seeAt(s.poll(all, false, "cart-1"), began.Add(s.rules.SettleWithin), ClusterUnsettled, Deployed, Published)
}

// The clock of this process is set back by an hour. Its waits go on.
func TestWaitsAreMeasuredByTheMonotonicClock(t *testing.T) {
	s := deployed(t)
	bad := with(routed(revs(r1), to("cart-1", 100)), Outage)
	began := time.Now() // with a reading of the monotonic clock
	s.seeAt(bad, began)
	if s.wake.Sub(began) != s.rules.OutageAfter {
		t.Fatalf("wakes after %s", s.wake.Sub(began))
	}
	m, wake := s.m, s.wake
	if r := Next(s.rules, m, bad, wake); len(r.Transitions) != 1 {
		t.Errorf("announced %+v", r.Transitions)
	}
	if since := m.Waits[incidentWait(Outage)]; since != began {
		t.Errorf("waits since %v, want %v with its monotonic reading", since, began)
	}
}

// What counts from the creation of an object goes on, however late another leader takes over.
func TestWaitsFromTheCreationOutliveLeaders(t *testing.T) {
	bad, good := with(Snapshot{Generation: 1}, NotDeployed), Snapshot{Generation: 1}
	took := func(s *story, over time.Duration) { ahead(s.t, s, 0, func(*story) {}); s.at = s.at.Add(over) }
	begin := func() (s *story, created time.Time) {
		s = newStory(t)
		created = s.see(good, Created)[0].Time
		s.see(bad)
		return s, created
	}
	s, created := begin()
	took(s, s.rules.NotDeployedAfter)
	unsure := bad
	unsure.Unconfirmed = true
	if r := Next(s.rules, s.m, unsure, s.at); !r.Unsure.Equal(created.Add(s.rules.NotDeployedAfter)) || len(r.Transitions) > 0 {
		t.Errorf("unsure at %s, announced %+v", r.Unsure, r.Transitions)
	}
	if got := s.see(bad, IncidentDetected)[0]; !got.Incident.Since.Equal(created) {
		t.Errorf("since %s, want %s", got.Incident.Since, created)
	}

	// Another clock was ahead: the limit counts from now.
	s, _ = begin()
	took(s, -time.Hour)
	s.see(bad)
	if got := s.wake.Sub(s.at); got != s.rules.NotDeployedAfter {
		t.Errorf("wakes after %s", got)
	}

	// It begins anew after what was announced as something else, such as a Revision that was mended long after, and goes on
	// from there.
	next := func(s *story) { took(s, time.Second) }
	for _, lead := range []struct{ before, after func(*story) }{
		{func(*story) {}, func(*story) {}},
		{func(s *story) { next(s); s.see(with(good, FailedRollout, NotDeployed)) }, func(*story) {}},
		{next, func(*story) {}},
		{func(*story) {}, next},
		{next, next},
	} {
		s, _ = begin()
		s.see(with(good, FailedRollout, NotDeployed))
		s.seeAt(with(good, FailedRollout, NotDeployed), s.at.Add(s.rules.FailedRolloutAfter), IncidentDetected)
		s.at = s.at.Add(time.Hour)
		s.see(with(good, FailedRollout, NotDeployed))
		lead.before(s)
		s.see(bad, IncidentResolved)
		mended := s.at
		lead.after(s)
		s.see(bad)
		if got := s.wake.Sub(mended); got != s.rules.NotDeployedAfter {
			t.Errorf("wakes after %s", got)
		}
		s.seeAt(bad, s.wake, IncidentDetected)
	}

	// Nor does it count while it is Ready, although nothing of its traffic is known.
	s, _ = begin()
	s.see(Snapshot{Generation: 1, Ready: true})
	s.at = s.at.Add(time.Hour)
	ready := s.m
	s.see(bad)
	if got := s.wake.Sub(s.at); got != s.rules.NotDeployedAfter {
		t.Errorf("wakes after %s", got)
	}
	if again := Next(s.rules, s.m, bad, s.at).Memory; !s.m.MustSave(ready) || again.MustSave(s.m) {
		t.Error("since when it is awaited must be saved once")
	}
}
