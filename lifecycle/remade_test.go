// SPDX-License-Identifier: Apache-2.0

package lifecycle

import "testing"

// A Revision may be deleted and created again under its name. A history that is replayed shows the
// first one after the second.
func TestRevisionIsRecreated(t *testing.T) {
	s := deployed(t)
	again := r2
	again.UID = "uid-again"
	s.see(routed(revs(r1, r2), to("cart-1", 100)), RevisionReady)
	s.see(routed(revs(r1, again), to("cart-1", 100)), RevisionReady)
	s.see(routed(revs(r1, r2), to("cart-1", 100)))
	s.see(routed(revs(r1, again), to("cart-1", 100)))
}
