// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"maps"
	"time"

	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
)

// retries knows which events have failed, and when each may be tried again. The mutex of
// the sourceQueue guards it.
type retries struct {
	byObject map[ledger.Key]retry
	// paused says until when a sink wants no requests, by URL.
	paused map[string]time.Time
}

// retry is the history of the oldest pending event about an object.
type retry struct {
	line     string
	sequence int64
	// at is the time of its transition: after its object was forgotten, another event has its number.
	at time.Time
	// tries counts the attempts, and failures those that use up spec.delivery.retry: not
	// those after which the event is kept in any case.
	tries, failures int
	// last is the outcome of the last attempt.
	last transport.Outcome
	// notBefore is when the event may be sent again.
	notBefore time.Time
}

// of reports whether it is the history of an event.
func (r retry) of(event ledger.Pending) bool {
	return r.line == event.Name && r.sequence == event.Transition.Sequence && r.at.Equal(event.Transition.Time)
}

// failed counts one more failure of an event.
func (r *retries) failed(key ledger.Key, event ledger.Pending, out transport.Outcome) retry {
	t := r.byObject[key]
	if !t.of(event) {
		t = retry{line: event.Name, sequence: event.Transition.Sequence, at: event.Transition.Time}
	}
	t.tries++
	if out.Class == transport.Retry {
		t.failures++
	}
	t.last = out
	r.set(key, t)
	return t
}

func (r *retries) set(key ledger.Key, t retry) {
	if r.byObject == nil {
		r.byObject = map[ledger.Key]retry{}
	}
	r.byObject[key] = t
}

// hold keeps an object from being tried until then.
func (r *retries) hold(key ledger.Key, until time.Time) {
	if t, ok := r.byObject[key]; ok {
		t.notBefore = until
		r.byObject[key] = t
	}
}

// wait is how long it takes until an object may be tried.
func (r *retries) wait(key ledger.Key, now time.Time) time.Duration {
	return max(r.byObject[key].notBefore.Sub(now), 0)
}

// release lets the chosen events be tried now. Their failures still count.
func (r *retries) release(choose func(retry) bool) {
	for key, t := range r.byObject {
		if choose(t) {
			t.notBefore = time.Time{}
			r.byObject[key] = t
		}
	}
}

// forget drops the failures of the chosen events.
func (r *retries) forget(choose func(ledger.Key, retry) bool) {
	if maps.DeleteFunc(r.byObject, choose); len(r.byObject) == 0 {
		r.byObject = nil // a map never shrinks
	}
}

// drop drops the failures of one object.
func (r *retries) drop(key ledger.Key) {
	if delete(r.byObject, key); len(r.byObject) == 0 {
		r.byObject = nil
	}
}

// pause sends a sink nothing until then, or longer if it asked for that before.
func (r *retries) pause(url string, until time.Time) {
	if !until.After(r.paused[url]) {
		return
	}
	if r.paused == nil {
		r.paused = map[string]time.Time{}
	}
	r.paused[url] = until
}

// pausedFor is how long a sink still wants no requests.
func (r *retries) pausedFor(url string, now time.Time) time.Duration {
	until, ok := r.paused[url]
	if !ok {
		return 0
	}
	left := until.Sub(now)
	if left <= 0 {
		delete(r.paused, url)
	}
	return max(left, 0)
}
