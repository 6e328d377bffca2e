// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"encoding/json"
	"reflect"
	"slices"
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

// poll adds to a snapshot a current view of the cluster. Each named Revision has one member.
func (s *story) poll(snap Snapshot, settled bool, members ...string) Snapshot {
	c := &Cluster{Base: s.m.Sequence, Settled: settled, ClusterStatus: ClusterStatus{State: ClusterReady, Runtime: "pekko"}}
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

func unhealthy(snap Snapshot, kind Incident) Snapshot {
	c := *snap.Cluster
	c.Settled, c.State = false, ClusterDegraded
	c.Trouble = map[Incident]*Trouble{kind: {Reason: "Unreachable", Message: "why"}}
	snap.Cluster = &c
	return snap
}

// formed is a story whose Service is deployed with a settled cluster.
func formed(t *testing.T) *story {
	t.Helper()
	s := newStory(t)
	s.see(Snapshot{Generation: 1}, Created)
	all := routed(revs(s1), to("cart-1", 100))
	s.see(all, RevisionReady)
	s.see(s.poll(all, false, "cart-1"), ClusterFormed)
	s.see(s.poll(all, true, "cart-1"), ClusterSettled, Deployed, Published)
	return s
}

func TestDeployedWaitsForTheCluster(t *testing.T) {
	s := formed(t)
	d := s.all[4]
	if d.Cluster == nil || !d.Cluster.Settled || d.Cluster.Runtime != "pekko" || d.Chain != 1 {
		t.Errorf("Deployed has %+v", d.Cluster)
	}
	if f := s.all[2]; f.Revision.Name != "cart-1" || f.Cluster.Settled || f.Chain != 1 {
		t.Errorf("ClusterFormed has %+v", f)
	}
	if s.m.Cluster.Sequence != s.all[3].Sequence || !s.m.Cluster.Settling.IsZero() {
		t.Errorf("memory %+v", s.m.Cluster)
	}
}

func TestWaitForTheClusterIsBounded(t *testing.T) {
	s := newStory(t)
	s.see(Snapshot{Generation: 1}, Created)
	all := routed(revs(s1), to("cart-1", 100))
	s.see(all, RevisionReady)
	began := s.at
	if want := began.Add(s.rules.SettleWithin); !s.wake.Equal(want) {
		t.Fatalf("wakes at %s, want %s", s.wake, want)
	}
	s.seeAt(all, began.Add(s.rules.SettleWithin-time.Microsecond))
	s.seeAt(all, s.wake, Deployed, Published) // no view of the cluster
	if d := s.all[2]; d.Cluster == nil || d.Cluster.Settled || d.Cluster.State != ClusterUnknown {
		t.Errorf("Deployed has %+v", d.Cluster)
	}
	s.see(s.poll(all, false, "cart-1"), ClusterFormed)
	moving := s.poll(all, false, "cart-1")
	s.see(moving)
	s.seeAt(moving, s.wake, ClusterUnsettled)
	s.seeAt(s.poll(all, false, "cart-1"), s.at.Add(time.Hour)) // once
	s.see(s.poll(all, true, "cart-1"), ClusterSettled)
}

func TestWaitForTheClusterCanBeSwitchedOff(t *testing.T) {
	s := newStory(t)
	s.rules.SettleWithin = 0
	s.see(Snapshot{Generation: 1}, Created)
	s.see(routed(revs(s1), to("cart-1", 100)), RevisionReady, Deployed, Published)
	s.see(s.poll(routed(revs(s1), to("cart-1", 100)), false, "cart-1"), ClusterFormed)
	s.seeAt(s.poll(routed(revs(s1), to("cart-1", 100)), false, "cart-1"), s.at.Add(time.Hour))
}

func TestCanaryJoinsAndReplacesTheOldRevision(t *testing.T) {
	s := formed(t)
	both := revs(s1, s2)
	split := routed(both, to("cart-1", 95), to("cart-2", 5))
	s.see(s.poll(routed(both, to("cart-1", 100)), true, "cart-1"), RevisionReady)
	s.see(s.poll(routed(both, to("cart-1", 100)), false, "cart-1", "cart-2")) // joins before it has traffic
	s.see(s.poll(split, false, "cart-1", "cart-2"), TrafficShifted)
	s.see(s.poll(split, true, "cart-1", "cart-2"), ClusterSettled)
	if c := s.last(); c.Revision.Name != "cart-2" || c.Chain != s.all[len(s.all)-2].Chain || c.Cluster.State != ClusterUpgrading {
		t.Errorf("ClusterSettled has %+v", c)
	}
	s.see(s.poll(routed(both, to("cart-2", 100)), true, "cart-1", "cart-2"), Upgraded)
	if u := s.last(); !u.Cluster.Settled {
		t.Errorf("Upgraded has %+v", u.Cluster)
	}
	moved := routed(both, to("cart-2", 100))
	s.see(s.poll(moved, false, "cart-2")) // drained
	s.see(s.poll(moved, true, "cart-2"), ClusterSettled)
	s.see(s.poll(moved, true))                     // to zero
	s.see(s.poll(moved, false, "cart-2"))          // and back: no event
	s.see(s.poll(moved, true, "cart-2"))           //
	s.see(s.poll(moved, true, "cart-1", "cart-2")) // woken by its tag
}

func TestUpgradeWaitsForItsMembers(t *testing.T) {
	s := formed(t)
	both := revs(s1, s2)
	moved := routed(both, to("cart-2", 100))
	before := s.m
	// The last view of the cluster may be older than the pods of the Revision.
	s.see(s.poll(moved, true, "cart-1"), RevisionReady)
	if s.m.Pending == nil || !s.m.MustSave(before) || s.m.Primary != "cart-2" {
		t.Fatalf("the upgrade is not pending, or not saved: %+v", s.m.Pending)
	}
	s.see(s.poll(moved, false, "cart-1", "cart-2"))
	again := Memory{}
	raw, err := json.Marshal(s.m)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &again); err != nil || !reflect.DeepEqual(again.Pending, s.m.Pending) {
		t.Errorf("the next leader reads %+v (%v)", again.Pending, err)
	}
	s.m = again
	s.see(s.poll(moved, true, "cart-1", "cart-2"), ClusterSettled, Upgraded)
	u := s.last()
	if u.Revision.Name != "cart-2" || u.Previous.Name != "cart-1" || u.PreviousTraffic[0] != to("cart-1", 100) || u.Traffic[0] != to("cart-2", 100) || !u.Cluster.Settled {
		t.Errorf("Upgraded has %+v", u)
	}
	if s.m.Pending != nil || s.m.Last.Sequence != u.Sequence {
		t.Errorf("memory %+v", s.m)
	}
}

// Transitions that follow a pending one are announced after it.
func TestPendingUpgradeIsAnnouncedFirst(t *testing.T) {
	both := revs(s1, s2)
	for name, c := range map[string]struct {
		next func(*story) Snapshot
		want []Type
	}{
		"back":    {func(*story) Snapshot { return routed(both, to("cart-1", 100)) }, []Type{Upgraded}},
		"split":   {func(*story) Snapshot { return routed(both, to("cart-2", 60), to("cart-1", 40)) }, []Type{Upgraded, TrafficShifted}},
		"removed": {func(*story) Snapshot { return Snapshot{Gone: true} }, []Type{Upgraded, ClusterRemoved, Removed}},
		"back, with a view": {func(s *story) Snapshot {
			return s.poll(routed(both, to("cart-1", 100)), true, "cart-1")
		}, []Type{Upgraded, RolledBack}},
	} {
		t.Run(name, func(t *testing.T) {
			s := formed(t)
			s.see(routed(both, to("cart-2", 100)), RevisionReady)
			s.see(c.next(s), c.want...)
			up := s.all[len(s.all)-len(c.want)]
			if up.Cluster == nil || up.Cluster.Settled || up.Traffic[0] != to("cart-2", 100) {
				t.Errorf("Upgraded has %+v", up)
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

func TestRevisionScaledToZero(t *testing.T) {
	s := formed(t)
	both := revs(s1, s2)
	s.see(s.poll(routed(both, to("cart-2", 100)), true, "cart-1", "cart-2"), RevisionReady, ClusterSettled, Upgraded)
	s.see(s.poll(routed(both, to("cart-2", 100)), true, "cart-2"), ClusterSettled)
	// Its pods start with the next request.
	back := s.poll(routed(both, to("cart-1", 100)), true, "cart-2")
	s.see(back)
	if want := s.at.Add(vacancyLimit); !s.wake.Equal(want) {
		t.Errorf("wakes at %s, want %s", s.wake, want)
	}
	s.seeAt(back, s.wake, RolledBack)
	if !s.last().Cluster.Settled {
		t.Errorf("RolledBack has %+v", s.last().Cluster)
	}
}

// A Service that was Ready and only waited for its cluster is announced as deployed before its
// removal, even by a leader that knows it only from the ledger.
func TestDeployedIsAnnouncedBeforeRemoval(t *testing.T) {
	all := routed(revs(s1), to("cart-1", 100))
	begin := func() *story {
		s := newStory(t)
		s.see(Snapshot{Generation: 1}, Created)
		s.see(all, RevisionReady)
		return s
	}
	s := begin()
	if saved := newStory(t); !s.m.MustSave(saved.m) {
		t.Error("the wait is not saved")
	}
	got := s.see(Snapshot{Gone: true}, Deployed, Removed)
	if got[0].Cluster == nil || got[0].Cluster.Settled || got[0].Revision.Name != "cart-1" || got[0].Chain != 1 {
		t.Errorf("Deployed has %+v", got[0])
	}
	s = begin() // it was Ready, so what made it unready comes after that
	s.rules.SettleWithin = time.Hour
	x := all
	x.Ready = false
	s.see(x)
	s.see(Snapshot{Gone: true}, Deployed, Removed)
	s = newStory(t) // not stable for long enough
	s.rules.Stabilization = time.Minute
	s.see(all, Created, RevisionReady)
	s.see(Snapshot{Gone: true})
}

// A canary that comes while the first Revision's cluster still forms is a step of its own, so that it can be withdrawn:
// the Service was Ready before, and is not while its Route changes.
func TestSplitWhileTheFirstClusterForms(t *testing.T) {
	s := newStory(t)
	s.see(Snapshot{Generation: 1}, Created)
	s.see(routed(revs(s1), to("cart-1", 100)), RevisionReady)
	s.see(s.poll(routed(revs(s1), to("cart-1", 100)), false, "cart-1"), ClusterFormed)
	both := revs(s1, s2)
	changing := routed(both, to("cart-1", 100))
	changing.Ready, changing.Route.Effective = false, false
	s.see(s.poll(changing, false, "cart-1", "cart-2"), RevisionReady)
	got := s.see(s.poll(routed(both, to("cart-1", 90), to("cart-2", 10)), false, "cart-1", "cart-2"), Deployed, TrafficShifted, Published)
	if d := got[0]; d.Traffic.whole() != "cart-1" || d.Revision.Name != "cart-1" {
		t.Errorf("Deployed has %+v", d)
	}
	shifted := got[1]
	if shifted.PreviousTraffic.whole() != "cart-1" {
		t.Errorf("TrafficShifted has %+v", shifted)
	}
	back := s.see(s.poll(routed(both, to("cart-1", 100)), true, "cart-1", "cart-2"), ClusterSettled, RolledBack)[1]
	if i := slices.IndexFunc(back.Links, func(l Link) bool { return l.Kind == LinkUndoes }); i < 0 || back.Links[i].Sequence != shifted.Sequence {
		t.Errorf("RolledBack has the links %+v", back.Links)
	}
}

// A cluster that scales to zero before it has settled: the wait restarts when it is back.
func TestClusterScaledToZeroBeforeItSettled(t *testing.T) {
	all := routed(revs(s1), to("cart-1", 100))
	begin := func() *story {
		s := newStory(t)
		s.see(Snapshot{Generation: 1}, Created)
		s.see(all, RevisionReady)
		s.see(s.poll(all, false, "cart-1"), ClusterFormed)
		s.see(s.poll(all, false))
		return s
	}
	s := begin()
	s.see(s.poll(all, true))
	s.see(s.poll(all, false, "cart-1"))
	s.see(s.poll(all, true, "cart-1"), ClusterSettled, Deployed, Published)
	s.see(s.poll(all, true)) // later scaling restarts no wait
	s.see(s.poll(all, true, "cart-1"))

	// Scaling to zero alone delays Deployed only for as long as pods may take to appear.
	s = begin()
	s.see(s.poll(all, true))
	s.seeAt(s.poll(all, true), s.wake, Deployed, Published)
	if d := s.all[len(s.all)-2]; d.Cluster == nil || d.Cluster.Settled {
		t.Errorf("Deployed has %+v", d.Cluster)
	}
	s.see(s.poll(all, true, "cart-1"), ClusterSettled)

	// The limit restarts with the pods.
	s = begin()
	s.see(s.poll(all, false, "cart-1"))
	s.seeAt(s.poll(all, false, "cart-1"), s.at.Add(s.rules.SettleWithin), ClusterUnsettled, Deployed, Published)
	s.see(s.poll(all, true, "cart-1"), ClusterSettled)
}

// A view from before the last announcement of the cluster is stale: it may come from a former
// leader.
func TestStaleViewIsIgnored(t *testing.T) {
	s := formed(t)
	all := routed(revs(s1), to("cart-1", 100))
	old := unhealthy(s.poll(all, false, "cart-1"), ClusterSplit)
	old.Cluster.Base = s.m.Cluster.Sequence - 1
	s.see(old)
	s.seeAt(old, s.at.Add(time.Hour))
	if len(s.m.Waits) > 0 {
		t.Errorf("waits: %v", s.m.Waits)
	}
}

func TestClusterIncidents(t *testing.T) {
	s := formed(t)
	all := routed(revs(s1), to("cart-1", 100))
	bad := unhealthy(s.poll(all, false, "cart-1"), ClusterTrouble)
	s.see(bad)
	began := s.at
	unknown := s.poll(all, false, "cart-1")
	unknown.Cluster.State = ClusterUnknown
	s.see(unknown) // neither better nor worse
	s.see(all)
	s.seeAt(bad, began.Add(s.rules.DegradedAfter), IncidentDetected)
	d := s.last()
	if d.Incident.Kind != ClusterTrouble || !d.Incident.Since.Equal(began) || d.Cluster == nil || d.Revision.Name != "cart-1" {
		t.Errorf("IncidentDetected has %+v", d)
	}
	s.see(unknown)
	split := unhealthy(s.poll(all, false, "cart-1"), ClusterSplit)
	s.see(split)
	s.seeAt(split, s.wake, IncidentDetected) // the other incident stays open
	s.see(s.poll(all, false, "cart-1"), IncidentResolved, IncidentResolved)
	bad = unhealthy(s.poll(all, false, "cart-1"), ClusterTrouble)
	s.see(bad)
	s.seeAt(bad, s.wake, IncidentDetected)
	s.see(Snapshot{Gone: true}, IncidentResolved, ClusterRemoved, Removed)
}

func TestInheritedClusterIsNotAnnounced(t *testing.T) {
	all := routed(revs(s1), to("cart-1", 100))
	s := newStory(t)
	s.m = Baseline(all).Memory
	if s.m.Cluster == nil || !s.m.Cluster.Inherited {
		t.Fatalf("memory %+v", s.m.Cluster)
	}
	before := s.m
	s.see(unhealthy(s.poll(all, false, "cart-1"), ClusterTrouble))
	if !s.m.MustSave(before) {
		t.Error("that the cluster is inherited is not saved")
	}
	s.see(s.poll(all, true, "cart-1")) // neither its trouble nor the end of it is announced
	both := revs(s1, s2)
	s.see(s.poll(routed(both, to("cart-1", 100)), false, "cart-1", "cart-2"), RevisionReady)
	s.see(s.poll(routed(both, to("cart-1", 100)), true, "cart-1", "cart-2"), ClusterSettled)
	s.see(Snapshot{Gone: true}, ClusterRemoved, Removed)
}

// An earlier release did not read what Revisions declare.
func TestDeclarationReadAfterAnUpgradeIsInherited(t *testing.T) {
	s := deployed(t)
	s.see(routed(revs(s1), to("cart-1", 100)))
	if s.m.Cluster == nil || !s.m.Cluster.Inherited {
		t.Errorf("memory %+v", s.m.Cluster)
	}
	s.see(s.poll(routed(revs(s1), to("cart-1", 100)), true, "cart-1"))
}

func TestServiceBecomesStatefulAndStops(t *testing.T) {
	s := deployed(t)
	both := revs(r1, s2)
	s.see(routed(both, to("cart-2", 100)), RevisionReady)
	s.see(s.poll(routed(both, to("cart-2", 100)), false, "cart-2"), ClusterFormed)
	s.see(s.poll(routed(both, to("cart-2", 100)), true, "cart-2"), ClusterSettled, Upgraded)
	wrong := r3
	wrong.Misdeclared = "annotation … is wrong"
	before := s.m
	s.see(routed(revs(r1, s2, wrong), to("cart-2", 100)), RevisionReady)
	if s.m.Misdeclared() == "" || !s.m.MustSave(before) {
		t.Error("the misdeclaration is not saved")
	}
	s.see(routed(revs(r1, s2, wrong), to("cart-3", 100)), Upgraded) // misdeclared, so the cluster stays
	r4 := rev("cart-4", 4, "d")
	all := revs(r1, s2, wrong, r4)
	s.see(routed(all, to("cart-4", 100)), RevisionReady, Upgraded, ClusterRemoved)
	if s.last().Reason != ReasonUndeclared {
		t.Errorf("ClusterRemoved has %+v", s.last())
	}
	s.see(s.poll(routed(all, to("cart-4", 100)), true, "cart-2")) // still draining
	s.see(routed(revs(s3, s2, r4), to("cart-4", 100)))
}
