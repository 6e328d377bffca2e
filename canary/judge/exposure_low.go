// SPDX-License-Identifier: Apache-2.0

package judge

import "math"

// Requests that end before the canary's pods, in a gateway or the activator, are counted by no pod. They
// show as a share: the canary gets fewer requests than its Route gives it. Nothing is known of how they
// ended, so such a canary must not pass.

// enoughExposed is the part of its share that a canary must prove to get.
const enoughExposed = 0.85

// reached compares what the canary got with what its Route gives it, in requests. A client keeps its
// connection, so requests are not independent; the windows' differences tell how much the ratio varies.
type reached struct {
	Got      float64 `json:"got,omitempty"`
	Expected float64 `json:"expected,omitempty"`
	// Sums of squares and products over windows.
	GotGot           float64 `json:"gotGot,omitempty"`
	GotExpected      float64 `json:"gotExpected,omitempty"`
	ExpectedExpected float64 `json:"expectedExpected,omitempty"`
}

// add takes the requests of the canary and of all Revisions in a window, and the Route's share.
func (r *reached) add(got, all, required float64) {
	if !(required > 0 && required <= 1) || !(all > 0) || !(got >= 0) || math.IsInf(all, 1) {
		return
	}
	expected := required * all
	r.Got += got
	r.Expected += expected
	r.GotGot += got * got
	r.GotExpected += got * expected
	r.ExpectedExpected += expected * expected
}

// ratio returns which part of its share the canary got, and the standard error.
func (r reached) ratio() (ratio, deviation float64) {
	if r.Expected <= 0 {
		return 1, 0
	}
	ratio = r.Got / r.Expected
	squares := r.GotGot - 2*ratio*r.GotExpected + ratio*ratio*r.ExpectedExpected
	return ratio, math.Sqrt(max(squares, r.Got)) / r.Expected
}

// low reports whether the canary may get less than it should: it is not above the bound by two
// deviations.
func (r reached) low() bool {
	ratio, deviation := r.ratio()
	return r.Got > 0 && ratio < enoughExposed+2*deviation
}

// reached returns the requests that reached the canary and all Revisions in a window, with the Route's
// share. Where an entity's shard decides who handles a request, only the entry follows the Route.
func (w Window) reached(p Plan, canary, baseline float64) (got, all, required float64) {
	share := w.Handled
	if p.Sharded {
		if w.Canary.EntryUnknown != "" || w.Baseline.EntryUnknown != "" {
			return 0, 0, -1
		}
		got, baseline, share = whole(w.Canary.Entered, 0).N, whole(w.Baseline.Entered, 0).N, w.Entered
		canary = got
	}
	if share > 0 && share <= 1 && canary > 0 {
		return canary, canary / share, w.Required
	}
	return canary, canary + baseline, w.Required
}
