// SPDX-License-Identifier: Apache-2.0

package lifecycle

import "testing"

// A canary that loses its traffic is withdrawn if an older Revision gets it, and replaced if a
// newer one does.
func TestWithdrawnOrReplaced(t *testing.T) {
	r4 := rev("cart-4", 4, "d")
	all := revs(r1, r2, r3, r4)
	for name, c := range map[string]struct {
		from, to []Share
		want     Type
		reason   string
		gone     string
	}{
		"the next commit under @latest=10": {
			from: []Share{to("cart-1", 90), to("cart-2", 10)}, to: []Share{to("cart-1", 90), to("cart-3", 10)},
			want: TrafficShifted, reason: ReasonReplaced,
		},
		"the next one, with another percentage": {
			from: []Share{to("cart-1", 90), to("cart-2", 10)}, to: []Share{to("cart-1", 95), to("cart-3", 5)},
			want: TrafficShifted, reason: ReasonReplaced,
		},
		"one of two gives to the newer": {
			from: []Share{to("cart-1", 80), to("cart-2", 10), to("cart-3", 10)}, to: []Share{to("cart-1", 80), to("cart-3", 20)},
			want: TrafficShifted, reason: ReasonReplaced,
		},
		"two at once": {
			from: []Share{to("cart-1", 80), to("cart-2", 10), to("cart-3", 10)}, to: []Share{to("cart-1", 80), to("cart-4", 20)},
			want: TrafficShifted, reason: ReasonReplaced,
		},
		"one of two gives to the primary": {
			from: []Share{to("cart-1", 80), to("cart-2", 10), to("cart-3", 10)}, to: []Share{to("cart-1", 90), to("cart-3", 10)},
			want: RolledBack, reason: ReasonWithdrawn, gone: "cart-2",
		},
		"the newer of two gives to the older": {
			from: []Share{to("cart-1", 80), to("cart-2", 10), to("cart-3", 10)}, to: []Share{to("cart-1", 80), to("cart-2", 20)},
			want: RolledBack, reason: ReasonWithdrawn, gone: "cart-3",
		},
		"an older one takes its place": {
			from: []Share{to("cart-1", 90), to("cart-3", 10)}, to: []Share{to("cart-1", 90), to("cart-2", 10)},
			want: RolledBack, reason: ReasonWithdrawn, gone: "cart-3",
		},
		"all goes back": {
			from: []Share{to("cart-1", 90), to("cart-2", 10)}, to: []Share{to("cart-1", 100)},
			want: RolledBack, reason: ReasonWithdrawn, gone: "cart-2",
		},
	} {
		s := deployed(t)
		s.see(routed(all, c.from...), RevisionReady, RevisionReady, RevisionReady, TrafficShifted)
		arrived := s.last().Sequence
		s.see(routed(all, c.to...), c.want)
		got := s.last()
		if got.Reason != c.reason || c.gone != "" && (got.Previous.Name != c.gone || s.undone() != arrived) {
			t.Errorf("%s: reason %q, previous %s, undoes %d", name, got.Reason, got.Previous.Name, s.undone())
		}
		if c.want == TrafficShifted && (got.Previous.Name != "cart-1" || s.undone() != 0) {
			t.Errorf("%s: previous %s, undoes %d; want cart-1 and 0", name, got.Previous.Name, s.undone())
		}
	}
}

// The same holds in a gradual rollout, whatever was held in between.
func TestReplacedInARollout(t *testing.T) {
	all := revs(r1, r2, r3)
	s := deployed(t)
	s.see(rolling(all, to("cart-1", 70), to("cart-2", 30)), RevisionReady, RevisionReady, TrafficShifted)
	s.see(rolling(all, to("cart-1", 70), to("cart-2", 20), to("cart-3", 10)))
	s.see(rolling(all, to("cart-1", 70), to("cart-3", 30)))
	s.seeAt(rolling(all, to("cart-1", 70), to("cart-3", 30)), s.wake, TrafficShifted)
	if got := s.last(); got.Reason != ReasonReplaced || got.Merged != 1 {
		t.Errorf("TrafficShifted has %+v", got)
	}
	s.rules.RollbackWithdrawn = false // no rollback, and no reason
	s.see(routed(all, to("cart-1", 100)), TrafficShifted)
	if got := s.last(); got.Reason != "" {
		t.Errorf("reason %q", got.Reason)
	}
}
