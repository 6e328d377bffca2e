// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"fmt"
	"time"

	"knative.dev/pkg/logging"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
)

// countFailure counts a failed attempt, and takes over the source as it is now: its dead
// letter sink may be another one.
func (q *sourceQueue) countFailure(a *attempt) decision {
	if !q.d.Leader.IsLeaderFor(a.key.NamespacedName()) {
		return stopped // the next leader decides what becomes of the event
	}
	var ok bool
	if a.failed, a.source, ok = q.noteFailure(a); !ok {
		return changed // the answer of the former sink decides nothing for the new one
	}
	a.backoff = max(a.policy.Backoff(a.failed.tries), a.outcome.RetryAfter)
	return next
}

// sendDeadLetter sends to the dead letter sink, if there is one, what the sink will never accept.
func (q *sourceQueue) sendDeadLetter(a *attempt) decision {
	poison := a.outcome.Class == transport.Poison
	exhausted := a.outcome.Class == transport.Retry && a.policy.Exhausted(a.failed.failures)
	to, ok := deadLetterSinkOf(a.source)
	if !ok || !poison && !exhausted {
		return next
	}
	if wait := q.pausedFor(to.URL); wait > 0 {
		return q.hold(a, max(a.backoff, wait))
	}
	answer := q.d.Transport.Send(q.sending, to, transport.DeadLetter(a.event, a.target, a.outcome), a.policy)
	if answer.Class == transport.Acknowledged {
		logging.FromContext(q.ctx).Warnw("Event went to the dead letter sink",
			"source", q.label(), "subject", a.key.String(), "type", a.event.Type(), "id", a.event.ID(), "error", a.outcome.Err)
		q.d.Metrics.DeadLetter(q.label())
		q.settle(a)
		if poison {
			q.setProblem("") // the sink is healthy, and nothing is lost
		}
		return finished
	}
	if answer.RetryAfter > 0 {
		q.pause(to.URL, answer.RetryAfter)
	}
	a.backoff = max(a.backoff, answer.RetryAfter)
	q.setProblem(fmt.Sprintf("%v; and the dead letter sink: %v", a.outcome.Err, answer.Err))
	return q.retryLater(a)
}

// drop gives up an event that the sink refused for good, if no dead letter sink is asked for.
func (q *sourceQueue) drop(a *attempt) decision {
	if a.outcome.Class != transport.Poison {
		return next
	}
	if d := a.source.Spec.Delivery; d != nil && d.DeadLetterSink != nil {
		return q.hold(a, unresolved) // the dead letter sink has no address yet
	}
	logging.FromContext(q.ctx).Errorw("Event was refused for good and is dropped; a dead letter sink would keep it",
		"source", q.label(), "subject", a.key.String(), "type", a.event.Type(), "id", a.event.ID(), "error", a.outcome.Err)
	return q.giveUp(a, ledger.DroppedRejected)
}

// retryLater keeps the event for another attempt.
func (q *sourceQueue) retryLater(a *attempt) decision {
	logging.FromContext(q.ctx).Infow("Event is not delivered yet",
		"source", q.label(), "subject", a.key.String(), "type", a.event.Type(), "attempts",
		a.failed.tries, "error", a.outcome.Err)
	wait := a.backoff
	if q.breaker.open() && a.outcome.RetryAfter == 0 && !countsRetries(a.source) {
		// The breaker spares the sink; the next probe must not wait longer.
		wait = min(wait, q.breaker.untilProbe())
	}
	return q.hold(a, wait)
}

// hold keeps the event for so long, whatever else wakes its object.
func (q *sourceQueue) hold(a *attempt, wait time.Duration) decision {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.retries.hold(a.key, q.d.Now().Add(wait))
	return after(wait)
}

// countsRetries says whether the number of retries decides when an event goes to the dead
// letter sink. Then each retry is a real one, at its time, and no breaker spares the sink.
func countsRetries(s *v1alpha1.CDEventSource) bool {
	d := s.Spec.Delivery
	return d != nil && d.Retry != nil && (d.DeadLetterSink != nil || s.Status.DeadLetterSinkURI != nil)
}
