// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"
	"time"
)

func TestReplay(t *testing.T) {
	s := deployed(t)
	s.see(routed(revs(r1, r2), to("cart-2", 100)), RevisionReady, Upgraded)
	r := Replay(s.m, s.at.Add(-time.Hour))
	if len(r.Transitions) != 2 || r.Transitions[0].Type != Deployed || r.Transitions[1].Type != Published {
		t.Fatalf("%+v", r.Transitions)
	}
	for i, tr := range r.Transitions {
		if tr.Reason != ReasonReplay || tr.Revision.Name != "cart-2" || tr.Traffic[0].Revision != "cart-2" || tr.URLs[0] != url {
			t.Errorf("%+v", tr)
		}
		if tr.Sequence != s.m.Sequence+int64(i)+1 || tr.Time.Before(s.m.LastTime) {
			t.Errorf("sequence %d at %s", tr.Sequence, tr.Time)
		}
	}
	last := *s.m.Last
	s.m = r.Memory
	s.see(routed(revs(r1, r2), to("cart-1", 100)), RolledBack)
	if got := s.last().Links[0]; got.Sequence != last.Sequence {
		t.Errorf("links to %+v, want the last transition before the replay, %+v", got, last)
	}
}

func TestReplayOfUndeployedServices(t *testing.T) {
	for name, m := range map[string]Memory{
		"not deployed yet": {Announced: true}, "removed": {Deployed: true, Removed: true, Primary: "cart-1"},
		"without traffic": {Deployed: true, Baselined: true},
	} {
		if r := Replay(m, start); len(r.Transitions) > 0 || r.Memory.Sequence != 0 {
			t.Errorf("%s: %+v", name, r.Transitions)
		}
	}
	local := Memory{Deployed: true, Primary: "cart-1"}
	if r := Replay(local, start); len(r.Transitions) != 1 || r.Transitions[0].Type != Deployed {
		t.Errorf("%+v", r.Transitions)
	}
}
