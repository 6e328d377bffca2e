// SPDX-License-Identifier: Apache-2.0

package placement

import "time"

// answer is what one request for the plan came to.
type answer struct {
	outcome outcome
	plan    *Plan
	// why says what went wrong.
	why        string
	retryAfter time.Duration
}

type outcome int

const (
	// failed: no answer, or not a right one.
	failed outcome = iota
	// found: a plan, which a replica that lags behind may have sent.
	found
	// unchanged: the known plan is still the newest.
	unchanged
	// notEnabled: the Service asks for no placement.
	notEnabled
	// refused: the server answers, and gives this pod no plan.
	refused
)

// Known is what is known of the plan after all answers so far.
type Known struct {
	// plan is nil before the first one, and if the Service asks for no placement.
	plan *Plan
	// version is the highest of all plans so far.
	version int64
	// settled: the server has said whether there is a plan.
	settled bool
	// withdrawn: the server answers, but gives this pod no plan any more.
	withdrawn bool
	// confirmed is when the server last said that this is the newest plan. It was asked at the time asked.
	confirmed, asked time.Time
}

func (k Known) after(a answer, asked, now time.Time) Known {
	switch a.outcome {
	case found:
		// A replica of the server that lags behind confirms nothing.
		if a.plan.Version >= k.version {
			return Known{plan: a.plan, version: a.plan.Version, settled: true, confirmed: now, asked: asked}
		}
	case unchanged:
		k.withdrawn, k.confirmed, k.asked = false, now, asked
	case notEnabled:
		return Known{version: k.version, settled: true, confirmed: now, asked: asked}
	case refused:
		k.withdrawn = true
	case failed:
	}
	return k
}

// Follow returns the plan to follow, or nil to place shards evenly.
func (k Known) Follow() *Plan {
	if k.plan == nil || k.plan.Mode != Enforce {
		return nil
	}
	return k.plan
}

// obstacle says why no shard may move by choice now. Empty: it may.
func (k Known) obstacle(now time.Time, staleAfter time.Duration) string {
	switch {
	case !k.settled:
		// Others may have placed them by a plan that this member does not know.
		return "the controller has not said yet whether there is a plan"
	case k.Follow() == nil:
		return "" // shards are placed evenly
	case k.withdrawn:
		return "the controller gives this pod no plan any more"
	case now.Sub(k.confirmed) > staleAfter:
		return "the controller has not confirmed the plan for " + staleAfter.String()
	case k.plan != nil && k.plan.Held != "":
		return "the plan says " + k.plan.Held
	}
	return ""
}

// Version returns the highest version of all plans so far; 0 before the first one.
func (k Known) Version() int64 { return k.version }

// Plan returns the newest plan, or nil if there is none.
func (k Known) Plan() *Plan { return k.plan }

// Asked returns when this member asked the controller that last confirmed the plan; zero if it never did.
func (k Known) Asked() time.Time { return k.asked }

// Confirmed returns when the controller last confirmed the plan; zero if it never did.
func (k Known) Confirmed() time.Time { return k.confirmed }
