package delivery

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"knative.dev/pkg/reconciler"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
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
func (a *retries) failed(key ledger.Key, o ledger.Owed, out sender.Outcome) retry {
	t := a.of[key]
	if t.line != o.Line || t.sequence != o.Transition.Sequence {
		t = retry{line: o.Line, sequence: o.Transition.Sequence}
	}
	t.tries++
	if out.Class == sender.Retry {
		t.failures++
	}
	t.last = out
	if a.of == nil {
		a.of = map[ledger.Key]retry{}
	}
	a.of[key] = t
	return t
}

// hold keeps a key from being tried for a while.
func (a *retries) hold(key ledger.Key, wait time.Duration) {
	if t, ok := a.of[key]; ok {
		t.notBefore = time.Now().Add(wait)
		a.of[key] = t
	}
}

// wait is how long it is until a key may be tried.
func (a *retries) wait(key ledger.Key) time.Duration { return max(time.Until(a.of[key].notBefore), 0) }

// release lets those be tried now that choose is true for.
func (a *retries) release(choose func(retry) bool) {
	for key, t := range a.of {
		if choose(t) {
			t.notBefore = time.Time{}
			a.of[key] = t
		}
	}
}

// forget begins anew with those that choose is true for.
func (a *retries) forget(choose func(ledger.Key, retry) bool) {
	if maps.DeleteFunc(a.of, choose); len(a.of) == 0 {
		a.of = nil
	}
}

// pause leaves a sink alone for as long as it asks for, or for longer if it asked
// for that before.
func (a *retries) pause(url string, asked time.Duration) {
	until := time.Now().Add(asked)
	if !until.After(a.paused[url]) {
		return
	}
	if a.paused == nil {
		a.paused = map[string]time.Time{}
	}
	a.paused[url] = until
}

// pausedFor is how long a sink is still to be left alone.
func (a *retries) pausedFor(url string) time.Duration {
	until, ok := a.paused[url]
	if !ok {
		return 0
	}
	left := time.Until(until)
	if left <= 0 {
		delete(a.paused, url)
	}
	return max(left, 0)
}

// mended says whether a source was changed such that what was tried before says
// nothing about what is tried now.
func mended(before, after *v1alpha1.CDEventSource) bool {
	return before.Status.SinkURI.String() != after.Status.SinkURI.String() ||
		!equality.Semantic.DeepEqual(before.Status.SinkCACerts, after.Status.SinkCACerts) ||
		!equality.Semantic.DeepEqual(before.Spec.Sink, after.Spec.Sink) ||
		!equality.Semantic.DeepEqual(before.Spec.Delivery, after.Spec.Delivery) ||
		!equality.Semantic.DeepEqual(before.Spec.Auth, after.Spec.Auth)
}

// shown says whether a source has what it shows its sinks.
func shown(s *v1alpha1.CDEventSource) bool {
	return s.Status.GetCondition(v1alpha1.SourceConditionCredentialsReady).IsTrue()
}

// takeOver takes over a changed source. It returns whether something may be sent by
// it that could not be sent before.
func (q *sourceQueue) takeOver(s *v1alpha1.CDEventSource) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	before := q.source
	q.source = s
	if before.Generation != s.Generation {
		q.trouble = "" // it was the former spec's; what is still wrong is said again
	}
	letters := before.Status.DeadLetterSinkURI.String() != s.Status.DeadLetterSinkURI.String()
	credentials := !shown(before) && shown(s)
	switch {
	case mended(before, s):
		q.retries, q.breaker = retries{}, q.newBreaker()
	case credentials:
		q.retries.release(func(t retry) bool { return t.last.Class == sender.Unauthorized })
	}
	if letters {
		q.retries.release(func(t retry) bool { return t.last.Class == sender.Poison })
	}
	return before.Generation != s.Generation || before.Status.ObservedGeneration != s.Status.ObservedGeneration ||
		mended(before, s) || letters || credentials
}

// trusted begins anew with what may have failed for want of trust: where there was
// no answer.
func (q *sourceQueue) trusted() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.retries.forget(func(_ ledger.Key, t retry) bool { return t.last.Status == 0 })
}

// yield forgets the failures of objects that another process leads for now.
func (q *sourceQueue) yield(b reconciler.Bucket) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.retries.forget(func(key ledger.Key, _ retry) bool { return b.Has(key.NamespacedName()) })
	maps.DeleteFunc(q.undecided, func(key ledger.Key, _ string) bool { return b.Has(key.NamespacedName()) })
	if len(q.retries.of) == 0 {
		q.trouble = ""
	}
}

// settled forgets what was tried about an object of which nothing is owed.
func (q *sourceQueue) settled(key ledger.Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if delete(q.retries.of, key); len(q.retries.of) == 0 {
		q.retries.of = nil // a map keeps the room that it once needed
	}
	if delete(q.undecided, key); len(q.undecided) == 0 {
		q.undecided = nil
	}
}
