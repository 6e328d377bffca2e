package delivery

import (
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	"knative.dev/pkg/reconciler"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/delivery/sender"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
)

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
		q.retries = retries{}
		q.breaker.reset()
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
