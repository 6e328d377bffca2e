// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"testing"
)

func TestVerdictIsAnnouncedOnce(t *testing.T) {
	s := deployed(t)
	split := routed(revs(r1, r2), to("cart-1", 90), to("cart-2", 10))
	s.see(split, RevisionReady, TrafficShifted)
	shifted, chain := s.last().Sequence, s.last().Chain

	split.Verdicts = []Verdict{{Run: "one", Verdict: "Fail", Canary: "cart-2", Baseline: "cart-1"}}
	s.see(split, Judged)
	got := s.last()
	if got.Verdict.Verdict != "Fail" || got.Revision.Name != "cart-2" || got.Revision.Generation != 2 || got.Previous.Name != "cart-1" || got.Chain != chain {
		t.Errorf("%+v", got)
	}
	if len(got.Links) != 1 || got.Links[0].Kind != LinkPath || got.Links[0].Sequence != shifted {
		t.Errorf("links to %+v, want the shift %d", got.Links, shifted)
	}
	s.see(split)
	split.Verdicts = append(split.Verdicts, Verdict{Run: "two", Verdict: "Pass", Canary: "cart-2"}, Verdict{Verdict: "Pass"})
	s.see(split, Judged)

	// Transitions of one fold are announced in causal order.
	back := routed(revs(r1, r2), to("cart-1", 100))
	back.Verdicts = []Verdict{{Run: "three", Verdict: "Fail", Canary: "cart-2"}}
	s.see(back, Judged, RolledBack)
}

func TestAnnouncedVerdictsAreBounded(t *testing.T) {
	s := deployed(t)
	x := routed(revs(r1), to("cart-1", 100))
	for i := range 2 * maxJudged {
		x.Verdicts = []Verdict{{Run: fmt.Sprint(i), Canary: "nobody"}}
		s.see(x, Judged)
	}
	if len(s.m.Judged) != maxJudged {
		t.Errorf("%d verdicts are kept", len(s.m.Judged))
	}
}
