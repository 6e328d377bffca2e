package lifecycle

import "testing"

// A Revision may be deleted and made again under its name; a history that is looked
// at once more shows the first one after the second.
func TestARevisionThatIsMadeAgain(t *testing.T) {
	s := deployed(t)
	again := r2
	again.UID = "uid-again"
	s.see(routed(revs(r1, r2), to("cart-1", 100)), RevisionReady)
	s.see(routed(revs(r1, again), to("cart-1", 100)), RevisionReady)
	s.see(routed(revs(r1, r2), to("cart-1", 100)))
	s.see(routed(revs(r1, again), to("cart-1", 100)))
}
