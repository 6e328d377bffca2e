// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
)

// attempt is one event on its way to the sink of one source. Each step of the chain
// reads what earlier steps found, and adds its own.
type attempt struct {
	key     ledger.Key
	pending ledger.Pending

	// source is the CDEventSource as it was when the attempt was prepared.
	source *v1alpha1.CDEventSource
	event  event.Event
	// incomplete says that the event has notes about what it lacks.
	incomplete bool
	target     transport.Target
	policy     transport.Policy

	// paced says that the attempt occupies a place in the ramp, and widen that the
	// ramp may grow when it leaves.
	paced, widen bool
	// report tells the breaker how the sink is.
	report  func(error)
	outcome transport.Outcome

	// failed counts the failures of this event so far, and backoff is the shortest
	// time to its next attempt.
	failed  retry
	backoff time.Duration
}

// step does one thing to an attempt, and decides how it goes on.
type step func(*sourceQueue, *attempt) decision

// chain is what every attempt goes through, until a step decides otherwise.
var chain = []step{
	(*sourceQueue).resume,
	(*sourceQueue).prepare,
	(*sourceQueue).admit,
	(*sourceQueue).pace,
	(*sourceQueue).prepareAgain,
	(*sourceQueue).checkBreaker,
	(*sourceQueue).send,
	(*sourceQueue).acknowledge,
	(*sourceQueue).countFailure,
	(*sourceQueue).sendDeadLetter,
	(*sourceQueue).drop,
	(*sourceQueue).retryLater,
}

// decision says how the chain, or the queue of one object, goes on.
type decision struct {
	action action
	// wait is after how long to try again; 0 if something else wakes the object.
	wait time.Duration
}

type action int

const (
	// proceed hands the attempt to the next step.
	proceed action = iota
	// finish ends the attempt; the event is not pending any more.
	finish
	// suspend ends the attempt; the event stays pending, and none after it may be sent.
	suspend
	// startOver ends the attempt and begins another at once: the source has changed.
	startOver
)

var (
	next     = decision{action: proceed}
	finished = decision{action: finish}
	stopped  = decision{action: suspend}
	changed  = decision{action: startOver}
)

func after(wait time.Duration) decision { return decision{action: suspend, wait: wait} }

// try takes one event through the chain.
func (q *sourceQueue) try(key ledger.Key, pending ledger.Pending) decision {
	a := &attempt{key: key, pending: pending, source: q.current()}
	defer func() {
		if a.paced {
			q.ramp.leave(a.widen)
		}
	}()
	return q.through(chain, a)
}

// through takes an attempt through steps, until one of them ends it.
func (q *sourceQueue) through(steps []step, a *attempt) decision {
	for _, s := range steps {
		if d := s(q, a); d.action != proceed {
			return d
		}
	}
	return next
}
