// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"
	"time"
)

// A named Revision is deleted and made again by a revert. What counts is its content, not its name.
func TestRevertToAReusedName(t *testing.T) {
	again := rev("cart-1", 3, "a")
	again.UID = "uid-again"
	s := deployed(t)
	s.see(routed(revs(r1, r2), to("cart-2", 100)), RevisionReady, Upgraded)
	s.see(routed(revs(r2), to("cart-2", 100)))
	s.see(routed(revs(r2, again), to("cart-1", 100)), RevisionReady, RolledBack)
	if got := s.last(); got.Reason != ReasonReapplied || got.Previous.Name != "cart-2" {
		t.Errorf("%s, undoing %s", got.Reason, got.Previous.Name)
	}
}

// The primary is deleted and made again under its name: with the same content nothing changed, with another it is an
// upgrade.
func TestPrimaryIsMadeAgain(t *testing.T) {
	same, other := rev("cart-1", 2, "a"), rev("cart-1", 3, "b")
	same.UID, other.UID = "uid-same", "uid-other"
	s := deployed(t)
	s.see(routed(revs(same), to("cart-1", 100)), RevisionReady)
	s.see(routed(revs(other), to("cart-1", 100)), RevisionReady, Upgraded)
	if got := s.last(); got.Previous.UID != "uid-same" || got.Revision.UID != "uid-other" {
		t.Errorf("from %s to %s", got.Previous.UID, got.Revision.UID)
	}
	s.see(routed(revs(other, rev("cart-4", 4, "a")), to("cart-4", 100)), RevisionReady, RolledBack)
}

// A commit names an image that does not exist, and is reverted. The primary held all traffic throughout.
func TestFailedChangeIsReverted(t *testing.T) {
	bad := Revision{Name: "cart-2", UID: "uid-cart-2", Generation: 2, Template: "b"}
	s := deployed(t)
	s.see(routed(revs(r1, bad), to("cart-1", 100)))
	s.see(routed(revs(r1, bad, rev("cart-3", 3, "a")), to("cart-3", 100)), RevisionReady, RolledBack)
	if got := s.last(); got.Reason != ReasonReverted || got.Previous.Name != "cart-2" || got.Revision.Name != "cart-3" {
		t.Errorf("%s: %+v", got.Reason, got)
	}
	s.rules.RollbackTemplate = false
	s.see(routed(revs(r1, bad, rev("cart-4", 4, "a")), to("cart-4", 100)), RevisionReady, Upgraded)
	if got := s.last(); got.Reason != ReasonConfiguration {
		t.Errorf("made again without a change in between: %s", got.Reason)
	}
}

// A Service that never becomes routable is one incident, which ends when it is deployed.
func TestNeverDeployed(t *testing.T) {
	s := newStory(t)
	waits := Snapshot{Generation: 1, Revisions: revs(r1), Trouble: map[Incident]*Trouble{NotDeployed: {Reason: "Uninitialized"}}}
	s.see(waits, Created, RevisionReady)
	s.seeAt(waits, s.wake, IncidentDetected)
	if got := s.last(); got.Incident.Kind != NotDeployed || got.Revision.Name != "cart-1" || s.at.Sub(got.Incident.Since) != s.rules.NotDeployedAfter {
		t.Errorf("%+v", got.Incident)
	}
	s.seeAt(waits, s.at.Add(24*time.Hour))
	s.see(routed(revs(r1), to("cart-1", 100)), Deployed, Published, IncidentResolved)
}

// A failed rollout that is announced is the only incident of a new Service.
func TestNeverDeployedForAFailedRollout(t *testing.T) {
	s := newStory(t)
	bad := Snapshot{Generation: 1, Trouble: map[Incident]*Trouble{NotDeployed: {}, FailedRollout: {}}}
	s.see(bad, Created)
	s.seeAt(bad, s.at.Add(s.rules.FailedRolloutAfter), IncidentDetected)
	s.seeAt(bad, s.at.Add(time.Hour))
}

// The Route's ingress decides about an outage; traffic that is not assigned is a failed rollout while the old split
// serves.
func TestConditionsOfTheRouteDecide(t *testing.T) {
	of := func(kinds ...Incident) Snapshot {
		x := with(routed(revs(r1), to("cart-1", 100)), Outage) // RoutesReady is not True
		x.Route.Effective, x.Route.Trouble = false, map[Incident]*Trouble{}
		for _, k := range kinds {
			x.Route.Trouble[k] = &Trouble{}
		}
		return x
	}
	gone := of(FailedRollout)
	gone.Revisions = nil
	for name, c := range map[string]struct {
		s    Snapshot
		want []Type
		kind Incident
	}{
		"a certificate":                  {of(), nil, ""},
		"the ingress":                    {of(Outage), []Type{IncidentDetected}, Outage},
		"the assignment":                 {of(FailedRollout), []Type{IncidentDetected}, FailedRollout},
		"a deleted Revision that serves": {gone, []Type{IncidentDetected}, Outage},
	} {
		t.Run(name, func(t *testing.T) {
			s := deployed(t)
			s.see(c.s)
			if s.wake.IsZero() {
				s.wake = s.at.Add(time.Hour)
			}
			if s.seeAt(c.s, s.wake, c.want...); c.kind != "" && s.last().Incident.Kind != c.kind {
				t.Errorf("%s", s.last().Incident.Kind)
			}
		})
	}
}

// A DomainMapping that is not Ready for a moment has not lost its URL. After the limit it has.
func TestDomainMappingIsAway(t *testing.T) {
	const domain = "https://shop.example.org"
	s := deployed(t)
	here, away := routed(revs(r1), to("cart-1", 100)), routed(revs(r1), to("cart-1", 100))
	here.Route.URLs, away.Away = []string{url, domain}, []string{"http://shop.example.org"}
	s.see(here, Published)
	for range 5 {
		s.see(away)
		s.seeAt(here, s.at.Add(s.rules.OutageAfter-time.Second))
	}
	s.see(away)
	s.seeAt(away, s.wake, Published)
	if got := s.last().URLs; len(got) != 1 || got[0] != url {
		t.Errorf("%q", got)
	}
	s.see(here, Published)
	s.see(routed(revs(r1), to("cart-1", 100)), Published) // it is deleted
}

// A URL that waits for its certificate is published with it, and one that is published stays.
func TestCertificatesDecideAboutTheirURL(t *testing.T) {
	const tag = "https://next-cart.shop.example.com"
	s := deployed(t)
	waits := routed(revs(r1, r2), to("cart-1", 90), to("cart-2", 10))
	waits.Ready, waits.Route.URLs, waits.Route.Uncertified = false, []string{url, tag}, []string{tag}
	s.see(waits, RevisionReady, TrafficShifted)
	has := waits
	route := *waits.Route
	route.Uncertified = nil
	has.Route = &route
	s.see(has, Published)
	s.see(waits)
}

// Nothing is decided by how long a state has lasted that may be over.
func TestUnconfirmedStateDecidesNothingByTime(t *testing.T) {
	s := deployed(t)
	bad := with(routed(revs(r1), to("cart-1", 100)), Outage)
	bad.Unconfirmed = true
	s.see(bad)
	due := s.wake
	s.seeAt(bad, due.Add(time.Minute))
	if r := Next(s.rules, s.m, bad, due.Add(time.Minute)); !r.Unsure.Equal(due) {
		t.Errorf("unsure of what was due at %s, want %s", r.Unsure, due)
	}
	bad.Unconfirmed = false
	s.seeAt(bad, due.Add(time.Minute), IncidentDetected)
}

// A Revision with traffic is deleted: the Route says that its traffic is not assigned. That is one incident, an outage.
func TestPinnedRevisionIsDeleted(t *testing.T) {
	s := deployed(t)
	s.see(routed(revs(r1, r2), to("cart-2", 100)), RevisionReady, Upgraded)
	s.see(routed(revs(r1, r2), to("cart-1", 100)), RolledBack)
	missing := routed(revs(r2), to("cart-1", 100))
	missing.Ready, missing.Route.Effective = false, false
	missing.Route.Trouble = map[Incident]*Trouble{FailedRollout: {Reason: "RevisionMissing"}}
	s.see(missing)
	s.seeAt(missing, s.at.Add(time.Hour), IncidentDetected)
	if i := s.last().Incident; i.Kind != Outage || i.Reason != "RevisionMissing" {
		t.Errorf("%+v", i)
	}
	s.see(routed(revs(r2), to("cart-2", 100)), Upgraded, IncidentResolved)
}
