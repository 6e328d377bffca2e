// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"reflect"
	"testing"
	"time"
)

func TestFirstRevision(t *testing.T) {
	s := newStory(t)
	s.see(Snapshot{Generation: 1}, Created)
	s.see(Snapshot{Generation: 1}) // resync
	notReady := r1
	notReady.Ready = false
	s.see(Snapshot{Generation: 1, Revisions: revs(notReady)})
	s.see(Snapshot{Generation: 1, Revisions: revs(r1)}, RevisionReady)
	early := routed(revs(r1), to("cart-1", 100))
	early.Ready, early.Route.Effective = false, false
	s.see(early) // Serving writes the split before the ingress has it
	s.see(routed(revs(r1), to("cart-1", 100)), Deployed, Published)
	if d := s.all[2]; d.Revision.Name != "cart-1" || d.Traffic[0] != to("cart-1", 100) || d.Chain != 1 {
		t.Errorf("Deployed has %+v", d)
	}
	if p := s.last(); p.URLs[0] != url || p.Links[0].Type != Deployed || p.Links[0].Sequence != 3 {
		t.Errorf("Published has %+v", p)
	}
}

func TestSilence(t *testing.T) {
	one := revs(r1)
	for name, snap := range map[string]Snapshot{
		"resync":      routed(one, to("cart-1", 100)),
		"not ready":   {Generation: 1, Revisions: one, Route: &Route{Traffic: NewSplit([]Share{to("cart-1", 100)}), URLs: []string{url}}},
		"status lags": {Generation: 2, Revisions: one},
		"no route":    {Generation: 1, Ready: true, Revisions: one},
		"metadata edit": func() Snapshot {
			s := routed(one, to("cart-1", 100))
			s.Annotations = map[string]string{"a": "b"}
			return s
		}(),
		"label edit": func() Snapshot { s := routed(one, to("cart-1", 100)); s.Labels = map[string]string{"a": "b"}; return s }(),
		"new generation, not effective": {
			Generation: 2, Revisions: revs(r1, r2),
			Route: &Route{Traffic: NewSplit([]Share{to("cart-2", 100)}), URLs: []string{url}},
		},
		"two targets, one revision": routed(one, to("cart-1", 60), to("cart-1", 40)),
		"tag without a share":       routed(one, to("cart-1", 100), to("cart-2", 0)),
		"revision collected":        routed(nil, to("cart-1", 100)),
		"urls in another order":     routed(one, to("cart-1", 100)),
		"no traffic at all": func() Snapshot {
			s := routed(one, to("cart-1", 100))
			s.Route.Traffic = nil
			return s
		}(),
		"made local": func() Snapshot {
			s := routed(one, to("cart-1", 100))
			s.Route.URLs = nil
			return s
		}(),
	} {
		t.Run(name, func(t *testing.T) {
			s := deployed(t)
			if name == "new generation, not effective" {
				s.see(snap, RevisionReady)
				return
			}
			s.see(snap)
			s.see(routed(one, to("cart-1", 100)), map[bool][]Type{true: {Published}}[name == "made local"]...)
		})
	}
}

func TestForwardAndBack(t *testing.T) {
	both := revs(r1, r2)
	s := deployed(t)
	s.see(routed(both, to("cart-1", 100)), RevisionReady)
	ready := s.last()
	s.see(routed(both, to("cart-1", 90), to("cart-2", 10)), TrafficShifted)
	if x := s.last(); x.Revision.Name != "cart-2" || x.Previous.Name != "cart-1" || x.PreviousTraffic[0] != to("cart-1", 100) || x.Chain != ready.Chain {
		t.Errorf("TrafficShifted has %+v", x)
	}
	s.see(routed(both, to("cart-2", 50), to("cart-1", 50)), TrafficShifted)
	s.see(routed(both, to("cart-2", 100)), Upgraded)
	up := s.last()
	if up.Revision.Name != "cart-2" || up.Previous.Name != "cart-1" || up.Reason != "" || up.Links[0].Type != Deployed || up.Chain != ready.Chain {
		t.Errorf("Upgraded has %+v", up)
	}
	s.see(routed(both, to("cart-1", 100)), RolledBack)
	back := s.last()
	if back.Reason != ReasonTraffic || back.Revision.Name != "cart-1" || back.Previous.Name != "cart-2" || back.Chain != up.Chain {
		t.Errorf("RolledBack has %+v", back)
	}
	if l := back.Links[1]; l.Kind != LinkUndoes || l.Sequence != up.Sequence || !l.Time.Equal(up.Time) {
		t.Errorf("the rollback undoes %+v, want the upgrade %d", l, up.Sequence)
	}
	s.see(routed(both, to("cart-2", 100)), Upgraded) // forward again
	s.see(Snapshot{Gone: true}, Removed)
	if r := s.last(); r.Revision.Name != "cart-2" || r.URLs[0] != url {
		t.Errorf("Removed has %+v", r)
	}
	s.see(routed(both, to("cart-2", 100))) // gone is gone
}

func TestDirectWithoutCanary(t *testing.T) {
	s := deployed(t)
	s.see(routed(revs(r1, r2), to("cart-2", 100)), RevisionReady, Upgraded)
}

func TestReappliedTemplateIsARollback(t *testing.T) {
	again := rev("cart-3", 3, "a")
	s := deployed(t)
	s.see(routed(revs(r1, r2), to("cart-2", 100)), RevisionReady, Upgraded)
	s.see(routed(revs(r1, r2, again), to("cart-3", 100)), RevisionReady, RolledBack)
	if b := s.last(); b.Reason != ReasonReapplied || b.Previous.Name != "cart-2" {
		t.Errorf("RolledBack has %+v", b)
	}
	// A template that was rolled back and is applied again goes forward.
	known := revs(r1, r2, again, rev("cart-4", 4, "b"), rev("cart-5", 5, "c"), rev("cart-6", 6, "b"))
	s.see(routed(known, to("cart-4", 100)), RevisionReady, RevisionReady, RevisionReady, Upgraded)
	s.see(routed(known, to("cart-5", 100)), Upgraded)
	s.see(routed(known, to("cart-6", 100)), RolledBack)

	off := deployed(t)
	off.rules.RollbackTemplate = false
	off.see(routed(revs(r1, r2), to("cart-2", 100)), RevisionReady, Upgraded)
	off.see(routed(revs(r1, r2, again), to("cart-3", 100)), RevisionReady, Upgraded)
}

func TestUnresolvedImagesAreNeverARollback(t *testing.T) {
	again := rev("cart-3", 3, "a")
	again.Images[0].Digest = ""
	s := deployed(t)
	s.see(routed(revs(r1, r2), to("cart-2", 100)), RevisionReady, Upgraded)
	s.see(routed(revs(r1, r2, again), to("cart-3", 100)), RevisionReady, Upgraded)
}

func TestConfigurationOnly(t *testing.T) {
	same := r2
	same.Images = r1.Images
	s := deployed(t)
	s.see(routed(revs(r1, same), to("cart-2", 100)), RevisionReady, Upgraded)
	if s.last().Reason != ReasonConfiguration {
		t.Errorf("reason %q", s.last().Reason)
	}
}

func TestWithdrawnCanary(t *testing.T) {
	both := revs(r1, r2)
	canary := func() *story {
		s := deployed(t)
		s.see(routed(both, to("cart-1", 90), to("cart-2", 10)), RevisionReady, TrafficShifted)
		return s
	}
	s := canary()
	shift := s.last()
	s.see(routed(both, to("cart-1", 100)), RolledBack)
	if b := s.last(); b.Reason != ReasonWithdrawn || b.Revision.Name != "cart-1" || b.Previous.Name != "cart-2" || b.Links[1].Sequence != shift.Sequence {
		t.Errorf("RolledBack has %+v", b)
	}
	s = canary()
	s.rules.RollbackWithdrawn = false
	s.see(routed(both, to("cart-1", 100)), TrafficShifted)
	s = deployed(t) // an older Revision that loses its share was no canary
	s.see(routed(both, to("cart-2", 100)), RevisionReady, Upgraded)
	s.see(routed(both, to("cart-2", 90), to("cart-1", 10)), TrafficShifted)
	s.see(routed(both, to("cart-2", 100)), TrafficShifted)
}

func TestRollbackByTrafficSwitchedOff(t *testing.T) {
	s := deployed(t)
	s.rules.RollbackTraffic = false
	s.see(routed(revs(r1, r2), to("cart-2", 100)), RevisionReady, Upgraded)
	s.see(routed(revs(r1, r2), to("cart-1", 100)), Upgraded)
}

func TestRevisionNamesDoNotOrder(t *testing.T) {
	blue, green := rev("green", 1, "a"), rev("blue", 2, "b")
	s := newStory(t)
	s.see(routed(revs(blue), to("green", 100)), Created, RevisionReady, Deployed, Published)
	s.see(routed(revs(blue, green), to("blue", 100)), RevisionReady, Upgraded)
	s.see(routed(revs(blue, green), to("green", 100)), RolledBack)
}

func TestUnknownRevisionIsWaitedFor(t *testing.T) {
	s := deployed(t)
	snap := routed(revs(r1), to("cart-1", 90), to("cart-2", 10))
	r := Next(s.rules, s.m, snap, s.at)
	if !reflect.DeepEqual(r.Missing, []string{"cart-2"}) || len(r.Transitions) > 0 || !reflect.DeepEqual(r.Memory, s.m) {
		t.Fatalf("got %+v", r)
	}
	snap.NoWait = map[string]bool{"cart-2": true}
	s.see(snap, TrafficShifted)
}

func TestGradualRolloutIsMerged(t *testing.T) {
	both := revs(r1, r2)
	step := func(percent int64) Snapshot {
		x := routed(both, to("cart-1", 100-percent), to("cart-2", percent))
		x.Ready, x.Route.Rollout = false, true
		return x
	}
	s := deployed(t)
	s.see(routed(both, to("cart-1", 100)), RevisionReady)
	s.see(step(1), TrafficShifted)
	first := s.at
	s.see(step(5))
	s.see(step(10))
	if want := first.Add(DefaultRules.ShiftedMinInterval); !s.wake.Equal(want) {
		t.Fatalf("wakes at %v, want %v", s.wake, want)
	}
	s.seeAt(step(10), s.wake, TrafficShifted)
	if x := s.last(); x.Merged != 1 || x.Traffic[1] != to("cart-2", 10) || x.PreviousTraffic[1] != to("cart-2", 1) {
		t.Errorf("the merged step has %+v", x)
	}
	s.see(step(60))
	s.see(routed(both, to("cart-2", 100)), Upgraded)
	if x := s.last(); x.Merged != 1 || x.PreviousTraffic[0] != to("cart-1", 90) {
		t.Errorf("the end of the rollout has %+v", x)
	}
}

func TestUsersStepsAreNeverMerged(t *testing.T) {
	both := revs(r1, r2)
	s := deployed(t)
	s.see(routed(both, to("cart-1", 100)), RevisionReady)
	for _, p := range []int64{10, 25, 50} {
		s.seeAt(routed(both, to("cart-1", 100-p), to("cart-2", p)), s.at.Add(time.Millisecond), TrafficShifted)
	}
	s.seeAt(routed(both, to("cart-2", 100)), s.at.Add(time.Millisecond), Upgraded)
}

func TestUserInterruptsARollout(t *testing.T) {
	both := revs(r1, r2)
	s := deployed(t)
	rolling := routed(both, to("cart-1", 99), to("cart-2", 1))
	rolling.Route.Rollout = true
	s.see(rolling, RevisionReady, TrafficShifted)
	held := routed(both, to("cart-1", 80), to("cart-2", 20))
	held.Route.Rollout = true
	s.see(held)
	got := s.see(routed(both, to("cart-1", 70), to("cart-2", 30)), TrafficShifted, TrafficShifted)
	if got[0].Traffic[1] != to("cart-2", 20) || got[1].Traffic[1] != to("cart-2", 30) {
		t.Errorf("got %+v", got)
	}
}

func TestStabilization(t *testing.T) {
	s := newStory(t)
	s.rules.Stabilization = 5 * time.Second
	s.see(Snapshot{}, Created)
	ok := routed(revs(r1), to("cart-1", 100))
	s.see(ok, RevisionReady)
	due := s.wake
	if !due.Equal(s.at.Add(5 * time.Second)) {
		t.Fatalf("wakes at %v", due)
	}
	flap := ok
	flap.Ready = false
	s.see(flap)
	s.see(ok)
	s.seeAt(ok, due) // the flap restarted the window
	s.seeAt(ok, s.wake, Deployed, Published)
}

func TestPublishedFollowsTheSetOfURLs(t *testing.T) {
	s := deployed(t)
	with := func(urls ...string) Snapshot {
		x := routed(revs(r1), to("cart-1", 100))
		x.Route.URLs = urls
		return x
	}
	s.see(with(url, "http://canary-cart.shop.example.com"), Published)
	s.see(with("http://canary-cart.shop.example.com", url))
	s.see(with("https://cart.shop.example.com"), Published)
	notReady := with(url)
	notReady.Route.Effective = false
	s.see(notReady)
	local := newStory(t)
	x := routed(revs(r1), to("cart-1", 100))
	x.Route.URLs = nil
	local.see(x, Created, RevisionReady, Deployed)
}

func TestRemoved(t *testing.T) {
	s := newStory(t)
	s.see(Snapshot{}, Created)
	s.see(Snapshot{Gone: true}) // never deployed, so never announced as usable
	if !s.m.Removed {
		t.Error("not marked as removed")
	}
	b := newStory(t)
	b.m = Baseline(routed(revs(r1), to("cart-1", 100))).Memory
	b.see(Snapshot{Gone: true}, Removed)
}

func TestBaselineIsSilent(t *testing.T) {
	r := Baseline(routed(revs(r1, r2), to("cart-1", 90), to("cart-2", 10)))
	if len(r.Transitions) > 0 || !r.Memory.Deployed || r.Memory.Primary != "cart-1" {
		t.Fatalf("got %+v", r)
	}
	s := newStory(t)
	s.m = r.Memory
	s.see(routed(revs(r1, r2), to("cart-1", 90), to("cart-2", 10)))
	s.see(routed(revs(r1, r2), to("cart-2", 100)), Upgraded)

	waiting := Baseline(Snapshot{Generation: 1})
	s = newStory(t)
	s.m = waiting.Memory
	s.see(routed(revs(r1), to("cart-1", 100)), RevisionReady, Deployed, Published)

	flapping := routed(revs(r1), to("cart-1", 100))
	flapping.Ready, flapping.EverReady = false, true
	s = newStory(t)
	s.m = Baseline(flapping).Memory
	s.see(routed(revs(r1), to("cart-1", 100)))

	if m := Baseline(routed(nil, to("cart-1", 100))); len(m.Missing) != 1 {
		t.Errorf("the baseline accepts an unknown primary: %+v", m)
	}
}

func TestTimeNeverGoesBack(t *testing.T) {
	s := deployed(t)
	late := s.last().Time
	got := s.seeAt(routed(revs(r1, r2), to("cart-2", 100)), start.Add(-time.Hour), RevisionReady, Upgraded)
	if got[0].Time.Before(late) {
		t.Errorf("%v is before %v", got[0].Time, late)
	}
}
