package lifecycle

import (
	"encoding/json"
	"testing"
	"time"
)

// with is a snapshot of a Service that says what is wrong with it.
func with(s Snapshot, kinds ...Incident) Snapshot {
	s.Ready = len(kinds) == 0
	s.Trouble = map[Incident]*Trouble{}
	for _, k := range kinds {
		s.Trouble[k] = &Trouble{Reason: "RevisionMissing", Message: "it says why"}
	}
	return s
}

func TestAnOutageThatLasts(t *testing.T) {
	s := deployed(t)
	well := routed(revs(r1), to("cart-1", 100))
	ill := with(well, Outage)
	s.see(ill)
	began := s.at
	if want := began.Add(s.rules.OutageAfter); !s.wake.Equal(want) {
		t.Fatalf("it wakes at %s, want %s", s.wake, want)
	}
	s.seeAt(ill, began.Add(s.rules.OutageAfter-time.Microsecond))
	detected := s.seeAt(ill, s.wake, IncidentDetected)[0]
	if i := detected.Incident; i.Kind != Outage || i.Opened != detected.Sequence || !i.Since.Equal(began) || i.Reason != "RevisionMissing" {
		t.Errorf("%+v", i)
	}
	if detected.Revision.Name != "cart-1" || len(detected.Links) != 1 || detected.Links[0].Type != Deployed {
		t.Errorf("%+v", detected)
	}
	s.seeAt(ill, began.Add(time.Hour)) // once
	resolved := s.see(well, IncidentResolved)[0]
	if i := resolved.Incident; i.Opened != detected.Sequence || !i.Since.Equal(began) || i.Reason != "" {
		t.Errorf("%+v", i)
	}
	if resolved.Links[0].Sequence != detected.Sequence || resolved.Revision.Name != "cart-1" {
		t.Errorf("%+v", resolved)
	}
	// The next one is another one.
	s.see(ill)
	if again := s.seeAt(ill, s.wake, IncidentDetected)[0]; again.Incident.Opened == detected.Sequence {
		t.Error("two incidents have one number")
	}
}

func TestAShortOutageIsNone(t *testing.T) {
	s := deployed(t)
	well := routed(revs(r1), to("cart-1", 100))
	for range 5 {
		s.see(with(well, Outage))
		s.seeAt(well, s.at.Add(s.rules.OutageAfter-time.Second))
	}
}

func TestARevisionThatDoesNotBecomeReady(t *testing.T) {
	s := deployed(t)
	broken := r2
	broken.Ready = false
	ill := with(routed(revs(r1, broken), to("cart-1", 100)), FailedRollout)
	s.see(ill)
	got := s.seeAt(ill, s.wake, IncidentDetected)[0]
	if got.Incident.Kind != FailedRollout || got.Revision.Name != "cart-2" {
		t.Errorf("%+v of %+v", got.Incident, got.Revision)
	}
	// The next Revision mends it. No upgrade was told of the broken one.
	s.see(routed(revs(r1, broken, r3), to("cart-3", 100)), RevisionReady, Upgraded, IncidentResolved)
}

func TestWhatNeverWorkedCannotBreakDown(t *testing.T) {
	s := newStory(t)
	ill := with(Snapshot{Generation: 1}, Outage, FailedRollout)
	s.see(ill, Created)
	s.seeAt(ill, s.at.Add(time.Hour), IncidentDetected)
	if s.last().Incident.Kind != FailedRollout || s.last().Revision != nil {
		t.Errorf("%+v", s.last())
	}
	s.see(Snapshot{Gone: true}, IncidentResolved)
	if s.last().Reason != ReasonRemoved {
		t.Errorf("%+v", s.last())
	}
}

func TestAnIncidentOfARemovedServiceIsOver(t *testing.T) {
	s := deployed(t)
	ill := with(routed(revs(r1), to("cart-1", 100)), Outage)
	s.see(ill)
	s.seeAt(ill, s.wake, IncidentDetected)
	s.see(Snapshot{Gone: true}, IncidentResolved, Removed)
}

func TestTroubleThatWasThereBeforeUsIsNoNews(t *testing.T) {
	s := newStory(t)
	ill := with(routed(revs(r1), to("cart-1", 100)), Outage)
	ill.EverReady = true
	s.m = Baseline(ill).Memory
	s.seeAt(ill, s.at.Add(time.Hour))
	saved := s.m
	s.see(routed(revs(r1), to("cart-1", 100)))
	if !s.m.Outgrew(saved) {
		t.Error("that it is over is not saved: the next outage would be no news either")
	}
	s.see(ill)
	s.seeAt(ill, s.wake, IncidentDetected)
}

func TestIncidentsCanBeSwitchedOff(t *testing.T) {
	s := deployed(t)
	s.rules.OutageAfter, s.rules.FailedRolloutAfter = 0, 0
	s.seeAt(with(routed(revs(r1), to("cart-1", 100)), Outage, FailedRollout), s.at.Add(time.Hour))
	if !s.wake.IsZero() {
		t.Error("it wakes for nothing")
	}
}

// What waits is not stored, so that no leader takes the trouble of another
// rollout, long over, for the beginning of this one's.
func TestWhatWaitsIsNotStored(t *testing.T) {
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

// What is detected, what is resolved, and the Revision if it becomes Ready after all
// are one rollout.
func TestAnIncidentIsPartOfItsRollout(t *testing.T) {
	s := deployed(t)
	slow := r2
	slow.Ready = false
	ill := with(routed(revs(r1, slow), to("cart-1", 100)), FailedRollout)
	s.see(ill)
	s.seeAt(ill, s.wake, IncidentDetected)
	s.see(routed(revs(r1, r2), to("cart-2", 100)), RevisionReady, Upgraded, IncidentResolved)
	chains := map[int64]bool{}
	for _, tr := range s.all[len(s.all)-4:] {
		chains[tr.Chain] = true
	}
	if len(chains) != 1 || chains[s.all[0].Chain] {
		t.Errorf("chains %v, want one, and another than that of the first rollout", chains)
	}

	// The first Revision of a Service is part of what began with it.
	s = newStory(t)
	s.see(Snapshot{Generation: 1}, Created)
	broken := r1
	broken.Ready = false
	ill = with(Snapshot{Generation: 1, Revisions: revs(broken)}, FailedRollout)
	s.see(ill)
	if got := s.seeAt(ill, s.wake, IncidentDetected)[0]; got.Chain != s.all[0].Chain {
		t.Errorf("chain %d, want that of the Service, %d", got.Chain, s.all[0].Chain)
	}

	// There may be no Revision at all.
	s = deployed(t)
	ill = with(routed(revs(r1), to("cart-1", 100)), FailedRollout)
	s.see(ill)
	detected := s.seeAt(ill, s.wake, IncidentDetected)[0]
	if resolved := s.see(routed(revs(r1), to("cart-1", 100)), IncidentResolved)[0]; resolved.Chain != detected.Chain {
		t.Errorf("chain %d, want %d", resolved.Chain, detected.Chain)
	}
}
