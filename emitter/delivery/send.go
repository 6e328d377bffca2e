// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"errors"
	"fmt"

	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
)

// admit waits until the ledger can hold one more acknowledgement. What it holds is sent again after a crash.
func (q *sourceQueue) admit(a *attempt) decision {
	if !q.d.Ledger.Admit(q.ctx, a.pending.Name) {
		return after(unresolved)
	}
	return next
}

// pace waits for a place among those that the sink is sent at the same time.
func (q *sourceQueue) pace(a *attempt) decision {
	a.paced = q.ramp.enter(q.ctx)
	if !a.paced {
		return stopped
	}
	return next
}

// checkBreaker spares a sink that fails. It does not where retries are counted: each of
// them takes place, at its time.
func (q *sourceQueue) checkBreaker(a *attempt) decision {
	var allowed bool
	if a.report, allowed = q.breaker.allow(); !allowed && !countsRetries(a.source) {
		return after(q.breaker.untilProbe())
	}
	return next
}

// send makes the attempt, and notes what it says of the sink.
func (q *sourceQueue) send(a *attempt) decision {
	end := func(transport.Outcome) {}
	if q.d.Tracer != nil {
		end = q.d.Tracer.Attempt(a.pending.Transition, a.event.Type(), q.label())
	}
	a.outcome = q.d.Transport.Send(q.sending, a.target, a.event, a.policy)
	end(a.outcome)
	q.d.Metrics.Attempt(q.label(), classLabel(a.outcome))
	acknowledged := a.outcome.Class == transport.Acknowledged
	if q.sending.Err() != nil && !acknowledged {
		a.report(nil) // we hung up; the sink is not to blame
		return stopped
	}
	if a.outcome.RetryAfter > 0 {
		q.pause(a.target.URL, a.outcome.RetryAfter)
	}
	a.report(health(a.outcome))
	// Attempts that are counted must not wait for each other because a sink hangs.
	a.widen = acknowledged || countsRetries(a.source) && a.outcome.RetryAfter == 0
	return next
}

// acknowledge settles an event that the sink has accepted.
func (q *sourceQueue) acknowledge(a *attempt) decision {
	if a.outcome.Class != transport.Acknowledged {
		return next
	}
	now := q.d.Now()
	q.setDelivered(now)
	q.d.Metrics.Delivered(q.label(), a.event.Type(), now.Sub(a.pending.Transition.Time))
	if a.incomplete {
		q.d.Metrics.Incomplete(q.label())
	}
	return q.settle(a)
}

// settle takes an event off the ledger's pending ones.
func (q *sourceQueue) settle(a *attempt) decision {
	q.d.Ledger.Acknowledge(a.pending, a.source.UID)
	return finished
}

// giveUp does the same for an event that is not sent, and counts it by reason.
func (q *sourceQueue) giveUp(a *attempt, reason string) decision {
	q.d.Ledger.Drop(a.pending, a.source.UID, reason)
	return finished
}

var errUnhealthy = errors.New("the sink does not accept events")

// health is what the breaker counts. A sink that refuses a single event is healthy, and
// so is one that was not asked for want of credentials.
func health(out transport.Outcome) error {
	notAsked := out.Class == transport.Unauthorized && out.Status == 0
	if out.Class == transport.Acknowledged || out.Class == transport.Poison || notAsked {
		return nil
	}
	return errUnhealthy
}

func classLabel(out transport.Outcome) string {
	if out.Status == 0 {
		return "none"
	}
	return fmt.Sprintf("%dxx", out.Status/100)
}
