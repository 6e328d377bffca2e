// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"time"

	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
)

// Queue decides when it is the turn of each object that has pending events for one
// source. It never works on an object twice at the same time.
type Queue interface {
	// Add has an object worked on, as soon as it is its turn.
	Add(key ledger.Key)
	// Idle says that nothing is worked on, and nothing is to come.
	Idle() bool
	// Close takes on nothing more. What is worked on ends by itself.
	Close()
	// Wait returns when everything has ended, after Close.
	Wait()
}

// Work is what a Queue does for one source.
type Work interface {
	// NotYet is how long an object must not be worked on, whatever woke it.
	NotYet(key ledger.Key) time.Duration
	// Deliver sends what is pending about an object. It returns after how long to try
	// again, 0 if nothing is pending.
	Deliver(key ledger.Key) time.Duration
	// Rest is called when nothing is left to do.
	Rest()
}
