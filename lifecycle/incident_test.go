// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"encoding/json"
	"testing"
	"time"
)

// with adds the given problems to a snapshot.
func with(s Snapshot, kinds ...Incident) Snapshot {
	s.Ready = len(kinds) == 0
	s.Trouble = map[Incident]*Trouble{}
	for _, k := range kinds {
		s.Trouble[k] = &Trouble{Reason: "RevisionMissing", Message: "a message"}
	}
	return s
}

func TestLastingOutageIsAnnounced(t *testing.T) {
	s := deployed(t)
	good := routed(revs(r1), to("cart-1", 100))
	bad := with(good, Outage)
	s.see(bad)
	began := s.at
	if want := began.Add(s.rules.OutageAfter); !s.wake.Equal(want) {
		t.Fatalf("wakes at %s, want %s", s.wake, want)
	}
	s.seeAt(bad, began.Add(s.rules.OutageAfter-time.Microsecond))
	detected := s.seeAt(bad, s.wake, IncidentDetected)[0]
	if i := detected.Incident; i.Kind != Outage || i.Opened != detected.Sequence || !i.Since.Equal(began) || i.Reason != "RevisionMissing" {
		t.Errorf("%+v", i)
	}
	if detected.Revision.Name != "cart-1" || len(detected.Links) != 1 || detected.Links[0].Type != Deployed {
		t.Errorf("%+v", detected)
	}
	s.seeAt(bad, began.Add(time.Hour)) // once
	resolved := s.see(good, IncidentResolved)[0]
	if i := resolved.Incident; i.Opened != detected.Sequence || !i.Since.Equal(began) || i.Reason != "" {
		t.Errorf("%+v", i)
	}
	if resolved.Links[0].Sequence != detected.Sequence || resolved.Revision.Name != "cart-1" {
		t.Errorf("%+v", resolved)
	}
	// The next outage is a new incident.
	s.see(bad)
	if again := s.seeAt(bad, s.wake, IncidentDetected)[0]; again.Incident.Opened == detected.Sequence {
		t.Error("two incidents have the same number")
	}
}

func TestShortOutageIsNotAnnounced(t *testing.T) {
	s := deployed(t)
	good := routed(revs(r1), to("cart-1", 100))
	for range 5 {
		s.see(with(good, Outage))
		s.seeAt(good, s.at.Add(s.rules.OutageAfter-time.Second))
	}
}

func TestRevisionThatDoesNotBecomeReady(t *testing.T) {
	s := deployed(t)
	broken := r2
	broken.Ready = false
	bad := with(routed(revs(r1, broken), to("cart-1", 100)), FailedRollout)
	s.see(bad)
	got := s.seeAt(bad, s.wake, IncidentDetected)[0]
	if got.Incident.Kind != FailedRollout || got.Revision.Name != "cart-2" {
		t.Errorf("%+v of %+v", got.Incident, got.Revision)
	}
	// The next Revision fixes it. The broken one was never announced as an upgrade.
	s.see(routed(revs(r1, broken, r3), to("cart-3", 100)), RevisionReady, Upgraded, IncidentResolved)
}

func TestServiceThatNeverWorkedHasNoOutage(t *testing.T) {
	s := newStory(t)
	bad := with(Snapshot{Generation: 1}, Outage, FailedRollout)
	s.see(bad, Created)
	s.seeAt(bad, s.at.Add(time.Hour), IncidentDetected)
	if s.last().Incident.Kind != FailedRollout || s.last().Revision != nil {
		t.Errorf("%+v", s.last())
	}
	s.see(Snapshot{Gone: true}, IncidentResolved)
	if s.last().Reason != ReasonRemoved {
		t.Errorf("%+v", s.last())
	}
}

func TestRemovalResolvesIncidents(t *testing.T) {
	s := deployed(t)
	bad := with(routed(revs(r1), to("cart-1", 100)), Outage)
	s.see(bad)
	s.seeAt(bad, s.wake, IncidentDetected)
	s.see(Snapshot{Gone: true}, IncidentResolved, Removed)
}

func TestInheritedTroubleIsNotAnnounced(t *testing.T) {
	s := newStory(t)
	bad := with(routed(revs(r1), to("cart-1", 100)), Outage)
	bad.EverReady = true
	s.m = Baseline(bad).Memory
	s.seeAt(bad, s.at.Add(time.Hour))
	saved := s.m
	s.see(routed(revs(r1), to("cart-1", 100)))
	if !s.m.MustSave(saved) {
		t.Error("the end of the outage is not saved, so the next one would not be announced")
	}
	s.see(bad)
	s.seeAt(bad, s.wake, IncidentDetected)
}

func TestIncidentsCanBeSwitchedOff(t *testing.T) {
	s := deployed(t)
	s.rules.OutageAfter, s.rules.FailedRolloutAfter = 0, 0
	s.seeAt(with(routed(revs(r1), to("cart-1", 100)), Outage, FailedRollout), s.at.Add(time.Hour))
	if !s.wake.IsZero() {
		t.Error("wakes without a reason")
	}
}

// Waits are not stored, so no leader counts trouble from an earlier rollout towards this one's.
func TestWaitsAreNotStored(t *testing.T) {
	s := deployed(t)
	s.see(with(routed(revs(r1), to("cart-1", 100)), FailedRollout))
	raw, err := json.Marshal(s.m)
	if err != nil {
		t.Fatal(err)
	}
	var m Memory
	if err := json.Unmarshal(raw, &m); err != nil || len(m.Waits) > 0 || len(s.m.Waits) != 1 {
		t.Errorf("%v: %+v of %+v", err, m.Waits, s.m.Waits)
	}
}

// Detection, resolution, and the Revision becoming Ready after all belong to one rollout.
func TestIncidentIsPartOfItsRollout(t *testing.T) {
	s := deployed(t)
	slow := r2
	slow.Ready = false
	bad := with(routed(revs(r1, slow), to("cart-1", 100)), FailedRollout)
	s.see(bad)
	s.seeAt(bad, s.wake, IncidentDetected)
	s.see(routed(revs(r1, r2), to("cart-2", 100)), RevisionReady, Upgraded, IncidentResolved)
	chains := map[int64]bool{}
	for _, tr := range s.all[len(s.all)-4:] {
		chains[tr.Chain] = true
	}
	if len(chains) != 1 || chains[s.all[0].Chain] {
		t.Errorf("chains %v, want one that differs from the first rollout's", chains)
	}

	// The first Revision belongs to the rollout that started with the Service.
	s = newStory(t)
	s.see(Snapshot{Generation: 1}, Created)
	broken := r1
	broken.Ready = false
	bad = with(Snapshot{Generation: 1, Revisions: revs(broken)}, FailedRollout)
	s.see(bad)
	if got := s.seeAt(bad, s.wake, IncidentDetected)[0]; got.Chain != s.all[0].Chain {
		t.Errorf("chain %d, want the Service's, %d", got.Chain, s.all[0].Chain)
	}

	// There may be no Revision at all.
	s = deployed(t)
	bad = with(routed(revs(r1), to("cart-1", 100)), FailedRollout)
	s.see(bad)
	detected := s.seeAt(bad, s.wake, IncidentDetected)[0]
	if resolved := s.see(routed(revs(r1), to("cart-1", 100)), IncidentResolved)[0]; resolved.Chain != detected.Chain {
		t.Errorf("chain %d, want %d", resolved.Chain, detected.Chain)
	}
}
