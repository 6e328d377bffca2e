package delivery

import (
	"maps"
	"time"

	"github.com/knative-cdevents/knative-cdevents/emitter/delivery/sender"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
)

// retries remembers what was tried in vain, and so when it may be tried again,
// whoever asks for it before. It is guarded by the queue's mutex.
type retries struct {
	of map[ledger.Key]retry
	// paused is until when a sink wants to be left alone, by URL.
	paused map[string]time.Time
}

// retry is what became of the event at the head of a key's queue so far.
type retry struct {
	line     string
	sequence int64
	// tries is how often it was sent, and failures how many of them count as
	// retries: not those after which it is kept in any case.
	tries, failures int
	// last is what became of it last.
	last sender.Outcome
	// notBefore is when it may be sent again.
	notBefore time.Time
}

// failed notes one more failure of the event at the head of a key.
func (r *retries) failed(key ledger.Key, event ledger.Owed, out sender.Outcome) retry {
	t := r.of[key]
	if t.line != event.Line || t.sequence != event.Transition.Sequence {
		t = retry{line: event.Line, sequence: event.Transition.Sequence}
	}
	t.tries++
	if out.Class == sender.Retry {
		t.failures++
	}
	t.last = out
	if r.of == nil {
		r.of = map[ledger.Key]retry{}
	}
	r.of[key] = t
	return t
}

// hold keeps a key from being tried for a while.
func (r *retries) hold(key ledger.Key, wait time.Duration) {
	if t, ok := r.of[key]; ok {
		t.notBefore = time.Now().Add(wait)
		r.of[key] = t
	}
}

// wait is how long it is until a key may be tried.
func (r *retries) wait(key ledger.Key) time.Duration { return max(time.Until(r.of[key].notBefore), 0) }

// release lets those be tried now that choose is true for.
func (r *retries) release(choose func(retry) bool) {
	for key, t := range r.of {
		if choose(t) {
			t.notBefore = time.Time{}
			r.of[key] = t
		}
	}
}

// forget begins anew with those that choose is true for.
func (r *retries) forget(choose func(ledger.Key, retry) bool) {
	if maps.DeleteFunc(r.of, choose); len(r.of) == 0 {
		r.of = nil
	}
}

// pause leaves a sink alone for as long as it asks for, or for longer if it asked
// for that before.
func (r *retries) pause(url string, asked time.Duration) {
	until := time.Now().Add(asked)
	if !until.After(r.paused[url]) {
		return
	}
	if r.paused == nil {
		r.paused = map[string]time.Time{}
	}
	r.paused[url] = until
}

// pausedFor is how long a sink is still to be left alone.
func (r *retries) pausedFor(url string) time.Duration {
	until, ok := r.paused[url]
	if !ok {
		return 0
	}
	left := time.Until(until)
	if left <= 0 {
		delete(r.paused, url)
	}
	return max(left, 0)
}
