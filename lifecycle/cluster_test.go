package lifecycle

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"
)

func stateful(r Revision) Revision {
	r.Stateful = "pekko"
	return r
}

var (
	s1 = stateful(r1)
	s2 = stateful(r2)
	s3 = stateful(r3)
)

// look adds to a snapshot what is seen of the cluster, by somebody who knows all
// that was told so far. The parts are Revisions with one member each.
func (s *story) look(snap Snapshot, settled bool, members ...string) Snapshot {
	c := &Cluster{Base: s.m.Sequence, Settled: settled, ClusterSeen: ClusterSeen{State: ClusterReady, Runtime: "pekko"}}
	for _, name := range members {
		c.Parts = append(c.Parts, ClusterPart{Revision: name, Pods: 1, Members: 1})
	}
	switch len(members) {
	case 0:
		c.State = ClusterScaledToZero
	case 1:
	default:
		c.State = ClusterUpgrading
	}
	snap.Cluster = c
	return snap
}

func ill(snap Snapshot, kind Incident) Snapshot {
	c := *snap.Cluster
	c.Settled, c.State = false, ClusterDegraded
	c.Trouble = map[Incident]*Trouble{kind: {Reason: "Unreachable", Message: "why"}}
	snap.Cluster = &c
	return snap
}

// formed is a story whose Service is deployed with a cluster that has settled.
func formed(t *testing.T) *story {
	t.Helper()
	s := newStory(t)
	s.see(Snapshot{Generation: 1}, Created)
	all := routed(revs(s1), to("cart-1", 100))
	s.see(all, RevisionReady)
	s.see(s.look(all, false, "cart-1"), ClusterFormed)
	s.see(s.look(all, true, "cart-1"), ClusterSettled, Deployed, Published)
	return s
}

func TestDeployedWaitsForTheCluster(t *testing.T) {
	s := formed(t)
	d := s.all[4]
	if d.Cluster == nil || !d.Cluster.Settled || d.Cluster.Runtime != "pekko" || d.Chain != 1 {
		t.Errorf("deployed says %+v", d.Cluster)
	}
	if f := s.all[2]; f.Revision.Name != "cart-1" || f.Cluster.Settled || f.Chain != 1 {
		t.Errorf("formed says %+v", f)
	}
	if s.m.Cluster.Sequence != s.all[3].Sequence || !s.m.Cluster.Settling.IsZero() {
		t.Errorf("memory %+v", s.m.Cluster)
	}
}

func TestTheWaitHasALimit(t *testing.T) {
	s := newStory(t)
	s.see(Snapshot{Generation: 1}, Created)
	all := routed(revs(s1), to("cart-1", 100))
	s.see(all, RevisionReady)
	began := s.at
	if want := began.Add(s.rules.SettleWithin); !s.wake.Equal(want) {
		t.Fatalf("it wakes at %s, want %s", s.wake, want)
	}
	s.seeAt(all, began.Add(s.rules.SettleWithin-time.Microsecond))
	s.seeAt(all, s.wake, Deployed, Published) // nobody could look
	if d := s.all[2]; d.Cluster == nil || d.Cluster.Settled || d.Cluster.State != ClusterUnknown {
		t.Errorf("deployed says %+v", d.Cluster)
	}
	s.see(s.look(all, false, "cart-1"), ClusterFormed)
	moving := s.look(all, false, "cart-1")
	s.see(moving)
	s.seeAt(moving, s.wake, ClusterUnsettled)
	s.seeAt(s.look(all, false, "cart-1"), s.at.Add(time.Hour)) // once
	s.see(s.look(all, true, "cart-1"), ClusterSettled)
}

func TestNoWaitIsWanted(t *testing.T) {
	s := newStory(t)
	s.rules.SettleWithin = 0
	s.see(Snapshot{Generation: 1}, Created)
	s.see(routed(revs(s1), to("cart-1", 100)), RevisionReady, Deployed, Published)
	s.see(s.look(routed(revs(s1), to("cart-1", 100)), false, "cart-1"), ClusterFormed)
	s.seeAt(s.look(routed(revs(s1), to("cart-1", 100)), false, "cart-1"), s.at.Add(time.Hour))
}

func TestACanaryJoinsTakesOverAndTheOldOneLeaves(t *testing.T) {
	s := formed(t)
	both := revs(s1, s2)
	split := routed(both, to("cart-1", 95), to("cart-2", 5))
	s.see(s.look(routed(both, to("cart-1", 100)), true, "cart-1"), RevisionReady)
	s.see(s.look(routed(both, to("cart-1", 100)), false, "cart-1", "cart-2")) // it joins before it has traffic
	s.see(s.look(split, false, "cart-1", "cart-2"), TrafficShifted)
	s.see(s.look(split, true, "cart-1", "cart-2"), ClusterSettled)
	if c := s.last(); c.Revision.Name != "cart-2" || c.Chain != s.all[len(s.all)-2].Chain || c.Cluster.State != ClusterUpgrading {
		t.Errorf("settled says %+v", c)
	}
	s.see(s.look(routed(both, to("cart-2", 100)), true, "cart-1", "cart-2"), Upgraded)
	if u := s.last(); !u.Cluster.Settled {
		t.Errorf("upgraded says %+v", u.Cluster)
	}
	moved := routed(both, to("cart-2", 100))
	s.see(s.look(moved, false, "cart-2")) // drained
	s.see(s.look(moved, true, "cart-2"), ClusterSettled)
	s.see(s.look(moved, true))                     // to zero
	s.see(s.look(moved, false, "cart-2"))          // and back: no news
	s.see(s.look(moved, true, "cart-2"))           //
	s.see(s.look(moved, true, "cart-1", "cart-2")) // woken by its tag
}

func TestAnUpgradeWaitsForItsMembers(t *testing.T) {
	s := formed(t)
	both := revs(s1, s2)
	moved := routed(both, to("cart-2", 100))
	before := s.m
	// What was seen of the cluster last may be older than the pods of the Revision.
	s.see(s.look(moved, true, "cart-1"), RevisionReady)
	if s.m.Pending == nil || !s.m.Outgrew(before) || s.m.Primary != "cart-2" {
		t.Fatalf("it does not wait, or forgets it: %+v", s.m.Pending)
	}
	s.see(s.look(moved, false, "cart-1", "cart-2"))
	again := Memory{}
	raw, err := json.Marshal(s.m)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &again); err != nil || !reflect.DeepEqual(again.Pending, s.m.Pending) {
		t.Errorf("the next leader reads %+v, %v", again.Pending, err)
	}
	s.m = again
	s.see(s.look(moved, true, "cart-1", "cart-2"), ClusterSettled, Upgraded)
	u := s.last()
	if u.Revision.Name != "cart-2" || u.Previous.Name != "cart-1" || u.PreviousTraffic[0] != to("cart-1", 100) || u.Traffic[0] != to("cart-2", 100) || !u.Cluster.Settled {
		t.Errorf("upgraded says %+v", u)
	}
	if s.m.Pending != nil || s.m.Last.Sequence != u.Sequence {
		t.Errorf("memory %+v", s.m)
	}
}

// Whatever comes while something waits, comes after it.
func TestNothingOvertakesWhatWaits(t *testing.T) {
	both := revs(s1, s2)
	for name, c := range map[string]struct {
		next func(*story) Snapshot
		want []Type
	}{
		"back":    {func(*story) Snapshot { return routed(both, to("cart-1", 100)) }, []Type{Upgraded}},
		"split":   {func(*story) Snapshot { return routed(both, to("cart-2", 60), to("cart-1", 40)) }, []Type{Upgraded, TrafficShifted}},
		"removed": {func(*story) Snapshot { return Snapshot{Gone: true} }, []Type{Upgraded, ClusterRemoved, Removed}},
		"back, seen": {func(s *story) Snapshot {
			return s.look(routed(both, to("cart-1", 100)), true, "cart-1")
		}, []Type{Upgraded, RolledBack}},
	} {
		t.Run(name, func(t *testing.T) {
			s := formed(t)
			s.see(routed(both, to("cart-2", 100)), RevisionReady)
			s.see(c.next(s), c.want...)
			up := s.all[len(s.all)-len(c.want)]
			if up.Cluster == nil || up.Cluster.Settled || up.Traffic[0] != to("cart-2", 100) {
				t.Errorf("upgraded says %+v", up)
			}
			if name == "back" {
				s.seeAt(routed(both, to("cart-1", 100)), s.at.Add(s.rules.SettleWithin), RolledBack)
				if l := s.last().Links; len(l) != 2 || l[0].Sequence != up.Sequence || l[1].Kind != LinkUndoes {
					t.Errorf("links %+v", l)
				}
			}
		})
	}
}

func TestARevisionThatIsScaledToZero(t *testing.T) {
	s := formed(t)
	both := revs(s1, s2)
	s.see(s.look(routed(both, to("cart-2", 100)), true, "cart-1", "cart-2"), RevisionReady, ClusterSettled, Upgraded)
	s.see(s.look(routed(both, to("cart-2", 100)), true, "cart-2"), ClusterSettled)
	// Its pods come when a request does.
	back := s.look(routed(both, to("cart-1", 100)), true, "cart-2")
	s.see(back)
	if want := s.at.Add(vacant); !s.wake.Equal(want) {
		t.Errorf("it wakes at %s, want %s", s.wake, want)
	}
	s.seeAt(back, s.wake, RolledBack)
	if !s.last().Cluster.Settled {
		t.Errorf("it says %+v", s.last().Cluster)
	}
}

// A Service that was Ready and waited for nothing but its cluster is told as deployed
// before its end, also by a leader that knows it from the ledger alone.
func TestDeployedIsToldBeforeTheEnd(t *testing.T) {
	all := routed(revs(s1), to("cart-1", 100))
	begin := func() *story {
		s := newStory(t)
		s.see(Snapshot{Generation: 1}, Created)
		s.see(all, RevisionReady)
		return s
	}
	s := begin()
	if saved := newStory(t); !s.m.Outgrew(saved.m) {
		t.Error("that it waits is not worth a write")
	}
	got := s.see(Snapshot{Gone: true}, Deployed, Removed)
	if got[0].Cluster == nil || got[0].Cluster.Settled || got[0].Revision.Name != "cart-1" || got[0].Chain != 1 {
		t.Errorf("deployed says %+v", got[0])
	}
	s = begin() // not Ready any more: it never was for long enough
	s.rules.SettleWithin = time.Hour
	x := all
	x.Ready = false
	s.see(x)
	s.see(Snapshot{Gone: true})
	s = newStory(t) // nor has it been stable
	s.rules.Stabilization = time.Minute
	s.see(all, Created, RevisionReady)
	s.see(Snapshot{Gone: true})
}

// Scaled to zero before it had settled: what is owed is told when it is back.
func TestAClusterThatIsGoneBeforeItSettled(t *testing.T) {
	all := routed(revs(s1), to("cart-1", 100))
	begin := func() *story {
		s := newStory(t)
		s.see(Snapshot{Generation: 1}, Created)
		s.see(all, RevisionReady)
		s.see(s.look(all, false, "cart-1"), ClusterFormed)
		s.see(s.look(all, false))
		return s
	}
	s := begin()
	s.see(s.look(all, true))
	s.see(s.look(all, false, "cart-1"))
	s.see(s.look(all, true, "cart-1"), ClusterSettled, Deployed, Published)
	s.see(s.look(all, true)) // and now it is not
	s.see(s.look(all, true, "cart-1"))

	// By itself scaling to zero is not the end of the wait for longer than pods may take.
	s = begin()
	s.see(s.look(all, true))
	s.seeAt(s.look(all, true), s.wake, Deployed, Published)
	if d := s.all[len(s.all)-2]; d.Cluster == nil || d.Cluster.Settled {
		t.Errorf("deployed says %+v", d.Cluster)
	}
	s.see(s.look(all, true, "cart-1"), ClusterSettled)

	// The limit begins anew with the pods.
	s = begin()
	s.see(s.look(all, false, "cart-1"))
	s.seeAt(s.look(all, false, "cart-1"), s.at.Add(s.rules.SettleWithin), ClusterUnsettled, Deployed, Published)
	s.see(s.look(all, true, "cart-1"), ClusterSettled)
}

// A view that was begun before the last news of the cluster is of the past: it may
// be that of a leader that is none any more.
func TestAViewOfThePastSaysNothing(t *testing.T) {
	s := formed(t)
	all := routed(revs(s1), to("cart-1", 100))
	old := ill(s.look(all, false, "cart-1"), ClusterSplit)
	old.Cluster.Base = s.m.Cluster.Sequence - 1
	s.see(old)
	s.seeAt(old, s.at.Add(time.Hour))
	if len(s.m.Waits) > 0 {
		t.Errorf("it waits: %v", s.m.Waits)
	}
}

func TestTroubleOfACluster(t *testing.T) {
	s := formed(t)
	all := routed(revs(s1), to("cart-1", 100))
	bad := ill(s.look(all, false, "cart-1"), ClusterTrouble)
	s.see(bad)
	began := s.at
	unknown := s.look(all, false, "cart-1")
	unknown.Cluster.State = ClusterUnknown
	s.see(unknown) // neither better nor worse
	s.see(all)
	s.seeAt(bad, began.Add(s.rules.DegradedAfter), IncidentDetected)
	d := s.last()
	if d.Incident.Kind != ClusterTrouble || !d.Incident.Since.Equal(began) || d.Cluster == nil || d.Revision.Name != "cart-1" {
		t.Errorf("detected says %+v", d)
	}
	s.see(unknown)
	split := ill(s.look(all, false, "cart-1"), ClusterSplit)
	s.see(split)
	s.seeAt(split, s.wake, IncidentDetected) // and the other one stands
	s.see(s.look(all, false, "cart-1"), IncidentResolved, IncidentResolved)
	bad = ill(s.look(all, false, "cart-1"), ClusterTrouble)
	s.see(bad)
	s.seeAt(bad, s.wake, IncidentDetected)
	s.see(Snapshot{Gone: true}, IncidentResolved, ClusterRemoved, Removed)
}

func TestAClusterThatWasThereBeforeUs(t *testing.T) {
	all := routed(revs(s1), to("cart-1", 100))
	s := newStory(t)
	s.m = Baseline(all).Memory
	if s.m.Cluster == nil || !s.m.Cluster.Inherited {
		t.Fatalf("memory %+v", s.m.Cluster)
	}
	before := s.m
	s.see(ill(s.look(all, false, "cart-1"), ClusterTrouble))
	if !s.m.Outgrew(before) {
		t.Error("that it was there before is forgotten")
	}
	s.see(s.look(all, true, "cart-1")) // neither its trouble nor the end of it is news
	both := revs(s1, s2)
	s.see(s.look(routed(both, to("cart-1", 100)), false, "cart-1", "cart-2"), RevisionReady)
	s.see(s.look(routed(both, to("cart-1", 100)), true, "cart-1", "cart-2"), ClusterSettled)
	s.see(Snapshot{Gone: true}, ClusterRemoved, Removed)
}

// An older version of this program did not read what Revisions declare.
func TestADeclarationThatWasNotRead(t *testing.T) {
	s := deployed(t)
	s.see(routed(revs(s1), to("cart-1", 100)))
	if s.m.Cluster == nil || !s.m.Cluster.Inherited {
		t.Errorf("memory %+v", s.m.Cluster)
	}
	s.see(s.look(routed(revs(s1), to("cart-1", 100)), true, "cart-1"))
}

func TestAServiceThatBecomesStatefulAndIsNoMore(t *testing.T) {
	s := deployed(t)
	both := revs(r1, s2)
	s.see(routed(both, to("cart-2", 100)), RevisionReady)
	s.see(s.look(routed(both, to("cart-2", 100)), false, "cart-2"), ClusterFormed)
	s.see(s.look(routed(both, to("cart-2", 100)), true, "cart-2"), ClusterSettled, Upgraded)
	wrong := r3
	wrong.Misdeclared = "annotation … is wrong"
	before := s.m
	s.see(routed(revs(r1, s2, wrong), to("cart-2", 100)), RevisionReady)
	if s.m.Misdeclared() == "" || !s.m.Outgrew(before) {
		t.Error("what is wrong is not known")
	}
	s.see(routed(revs(r1, s2, wrong), to("cart-3", 100)), Upgraded) // nobody can tell
	r4 := rev("cart-4", 4, "d")
	all := revs(r1, s2, wrong, r4)
	s.see(routed(all, to("cart-4", 100)), RevisionReady, Upgraded, ClusterRemoved)
	if s.last().Reason != ReasonUndeclared {
		t.Errorf("it says %+v", s.last())
	}
	s.see(s.look(routed(all, to("cart-4", 100)), true, "cart-2")) // what still drains
	s.see(routed(revs(s3, s2, r4), to("cart-4", 100)))
}
