// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"fmt"
	"time"
)

// Class says what to do with an event after an attempt.
type Class int

const (
	// Retry keeps the event and tries again: the sink was not reached, or cannot accept
	// the event now.
	Retry Class = iota
	// Acknowledged means that the sink has accepted the event.
	Acknowledged
	// Unauthorized keeps the event until it may be sent: the sink rejects the credentials,
	// there are none, or the host is not allowed.
	Unauthorized
	// Redirected keeps the event until the source names the new address. Redirects are not
	// followed: a sink may not choose who receives the events.
	Redirected
	// Poison is an event that this sink will never accept: a dead letter.
	Poison
)

// String is short enough for a metric's label.
func (c Class) String() string {
	switch c {
	case Retry:
		return "retry"
	case Acknowledged:
		return "acknowledged"
	case Unauthorized:
		return "unauthorized"
	case Redirected:
		return "redirected"
	case Poison:
		return "poison"
	}
	return fmt.Sprintf("class %d", int(c))
}

// Outcome is the result of one attempt.
type Outcome struct {
	Class Class
	// Status is the HTTP status, 0 without an answer.
	Status int
	// RetryAfter is how long the sink asks to be left alone, within the policy's limit; 0
	// if it does not ask.
	RetryAfter time.Duration
	// Err says what happened, where, and what to do; nil if acknowledged. It names the sink
	// by scheme and host only, and never quotes the body of an answer: the author of a
	// source must not read through its status what unreachable services answer.
	Err error
}
