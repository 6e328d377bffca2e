// SPDX-License-Identifier: Apache-2.0

package protoactor

import "time"

// answer is what one request for the plan came to.
type answer struct {
	outcome outcome
	plan    *plan
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

// known is what is known of the plan after all answers so far.
type known struct {
	// plan is nil before the first one, and if the Service asks for no placement.
	plan *plan
	// version is the highest of all plans so far.
	version int64
	// settled: the server has said whether there is a plan.
	settled bool
	// withdrawn: the server answers, but gives this pod no plan any more.
	withdrawn bool
	// confirmed is when the server last said that this is the newest plan.
	confirmed time.Time
}

func (k known) after(a answer, now time.Time) known {
	switch a.outcome {
	case found:
		// A replica of the server that lags behind confirms nothing.
		if a.plan.Version >= k.version {
			return known{plan: a.plan, version: a.plan.Version, settled: true, confirmed: now}
		}
	case unchanged:
		k.withdrawn, k.confirmed = false, now
	case notEnabled:
		return known{version: k.version, settled: true, confirmed: now}
	case refused:
		k.withdrawn = true
	case failed:
	}
	return k
}

// follow returns the plan to follow, or nil to place shards evenly.
func (k known) follow() *plan {
	if k.plan == nil || k.plan.Mode != enforce {
		return nil
	}
	return k.plan
}

// obstacle says why no shard may move by choice now. Empty: it may.
func (k known) obstacle(now time.Time, staleAfter time.Duration) string {
	switch {
	case !k.settled:
		// Others may have placed them by a plan that this member does not know.
		return "the controller has not said yet whether there is a plan"
	case k.follow() == nil:
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
