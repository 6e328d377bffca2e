// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"
)

// planned adds to a poll how far the cluster follows a plan for a split.
func planned(snap Snapshot, mode string, pending int, split ...Share) Snapshot {
	c := *snap.Cluster
	c.Placement = &Placement{Mode: mode, Pending: pending, Split: split}
	snap.Cluster = &c
	return snap
}

// canary is a story with a canary whose cluster has settled. A plan is being followed since before.
func canary(t *testing.T) (s *story, split Snapshot) {
	t.Helper()
	s = formed(t)
	one := routed(revs(s1, s2), to("cart-1", 100))
	s.see(planned(s.poll(one, true, "cart-1"), PlacementEnforce, 0, to("cart-1", 100)), RevisionReady)
	split = routed(revs(s1, s2), to("cart-1", 95), to("cart-2", 5))
	s.see(s.poll(split, false, "cart-1", "cart-2"), TrafficShifted)
	s.see(s.poll(split, true, "cart-1", "cart-2"), ClusterSettled)
	return s, split
}

func TestRebalancedOncePerSplit(t *testing.T) {
	s, split := canary(t)
	five := []Share{to("cart-1", 95), to("cart-2", 5)}
	both := func(mode string, pending int, of []Share) Snapshot {
		return planned(s.poll(split, true, "cart-1", "cart-2"), mode, pending, of...)
	}
	s.see(both(PlacementEnforce, 0, []Share{to("cart-1", 100)})) // the plan is not made for the new split yet
	s.see(both(PlacementEnforce, 5, five))
	s.see(planned(s.poll(split, true, "cart-1"), PlacementEnforce, 0, five...)) // the canary has no members
	s.see(both(PlacementEnforce, 0, five), ClusterRebalanced)
	if got := s.all[len(s.all)-1]; got.Cluster.Placement == nil || got.Revision.Name != "cart-2" || !got.Cluster.Settled {
		t.Errorf("ClusterRebalanced has %+v", got)
	}
	s.see(both(PlacementEnforce, 0, []Share{to("cart-1", 80), to("cart-2", 20)})) // the Route is observed later
	s.see(both(PlacementEnforce, 3, five))                                        // a member left and came back
	s.see(both(PlacementEnforce, 0, five))

	split = routed(revs(s1, s2), to("cart-1", 80), to("cart-2", 20))
	s.see(both(PlacementEnforce, 0, five), TrafficShifted)
	s.see(both(PlacementEnforce, 0, []Share{to("cart-1", 80), to("cart-2", 20)}), ClusterRebalanced)
	split = routed(revs(s1, s2), to("cart-1", 95), to("cart-2", 5))
	s.see(both(PlacementEnforce, 0, []Share{to("cart-1", 80), to("cart-2", 20)}), TrafficShifted)
	s.see(both(PlacementEnforce, 0, five), ClusterRebalanced)
}

// A pipeline that takes a step back waits for the shards as it did before, even if none had moved by the step.
func TestAReturnToASplitIsAnnounced(t *testing.T) {
	s, split := canary(t)
	five, twenty := []Share{to("cart-1", 95), to("cart-2", 5)}, []Share{to("cart-1", 80), to("cart-2", 20)}
	both := func(pending int, of []Share) Snapshot {
		return planned(s.poll(split, true, "cart-1", "cart-2"), PlacementEnforce, pending, of...)
	}
	s.see(both(0, five), ClusterRebalanced)
	split = routed(revs(s1, s2), twenty...)
	s.see(both(0, five), TrafficShifted)
	s.see(both(12, twenty))
	split = routed(revs(s1, s2), five...)
	s.see(both(12, twenty), TrafficShifted)
	s.see(both(3, five))
	s.see(both(0, five), ClusterRebalanced)
	s.see(both(0, five))
}

func TestStaleViewDoesNotRebalance(t *testing.T) {
	s, split := canary(t)
	five := []Share{to("cart-1", 95), to("cart-2", 5)}
	before := s.m.Cluster.Sequence
	s.see(planned(s.poll(split, true, "cart-1", "cart-2"), PlacementEnforce, 0, five...), ClusterRebalanced)
	s.m.Cluster.Placement = &PlacementMemory{Split: []Share{to("cart-1", 100)}}
	stale := planned(s.poll(split, true, "cart-1", "cart-2"), PlacementEnforce, 0, five...)
	stale.Cluster.Base = before
	s.see(stale)
}

func TestAPlanThatIsFollowedFromTheStartIsNotAnnounced(t *testing.T) {
	s := formed(t)
	one := routed(revs(s1), to("cart-1", 100))
	follows := planned(s.poll(one, true, "cart-1"), PlacementEnforce, 0, to("cart-1", 100))
	was := s.m
	s.see(follows)
	if !s.m.MustSave(was) {
		t.Error("that the plan is in place must be saved: a later one is announced by comparison")
	}
	if was = s.m; was.MustSave(s.m) {
		t.Error("nothing changed")
	}
	s.see(planned(s.poll(one, true, "cart-1"), PlacementObserve, 0, to("cart-1", 100)))
	if s.m.Cluster.Placement != nil || !s.m.MustSave(was) {
		t.Error("a plan that is only observed is remembered")
	}
	// Members that do not follow it yet have something to announce.
	s.see(planned(s.poll(one, true, "cart-1"), PlacementEnforce, 9, to("cart-1", 100)))
	s.see(s.poll(one, true, "cart-1")) // a poll that could not tell
	s.see(planned(s.poll(one, true, "cart-1"), PlacementEnforce, 0, to("cart-1", 100)), ClusterRebalanced)
}

func TestCoordinatorWithoutPlacementIsRemembered(t *testing.T) {
	s := formed(t)
	led := planned(s.poll(routed(revs(s1), to("cart-1", 100)), true, "cart-1"), PlacementEnforce, 0, to("cart-1", 100))
	s.see(led)
	was := s.m
	led = planned(s.poll(routed(revs(s1), to("cart-1", 100)), true, "cart-1"), PlacementEnforce, 0, to("cart-1", 100))
	led.Cluster.Placement.Coordinator = "cart-0"
	s.see(led)
	if s.m.Cluster.Placement.Coordinator != "cart-0" || !s.m.MustSave(was) {
		t.Errorf("memory %+v", s.m.Cluster.Placement)
	}
}

func TestNoPlanIsNotRendered(t *testing.T) {
	s := newStory(t)
	s.see(Snapshot{Generation: 1}, Created)
	all := routed(revs(s1), to("cart-1", 100))
	s.see(all, RevisionReady)
	s.see(planned(s.poll(all, false, "cart-1"), "", 0), ClusterFormed)
	if got := s.all[2].Cluster; got.Placement != nil {
		t.Errorf("ClusterFormed has %+v", got.Placement)
	}
}
