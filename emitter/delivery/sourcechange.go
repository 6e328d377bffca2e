// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	"knative.dev/pkg/reconciler"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
)

// sinkChanged says whether a source has changed so that earlier attempts say nothing about
// the next one.
func sinkChanged(before, after *v1alpha1.CDEventSource) bool {
	return before.Status.SinkURI.String() != after.Status.SinkURI.String() ||
		!equality.Semantic.DeepEqual(before.Status.SinkCACerts, after.Status.SinkCACerts) ||
		!equality.Semantic.DeepEqual(before.Spec.Sink, after.Spec.Sink) ||
		!equality.Semantic.DeepEqual(before.Spec.Delivery, after.Spec.Delivery) ||
		!equality.Semantic.DeepEqual(before.Spec.Auth, after.Spec.Auth)
}

// credentialsReady says whether a source has the credentials that it shows its sinks.
func credentialsReady(s *v1alpha1.CDEventSource) bool {
	return s.Status.GetCondition(v1alpha1.SourceConditionCredentialsReady).IsTrue()
}

// update takes over a changed source. It returns whether an event may be sent now that
// could not be sent before.
func (q *sourceQueue) update(s *v1alpha1.CDEventSource) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	before := q.source
	q.source = s
	if before.Generation != s.Generation {
		q.problem = "" // that of the former spec; the next attempt reports what is still wrong
	}
	sink := sinkChanged(before, s)
	deadLetterSink := before.DeadLetterSinkAddress().String() != s.DeadLetterSinkAddress().String()
	credentials := !credentialsReady(before) && credentialsReady(s)
	switch {
	case sink:
		q.retries = retries{}
		q.breaker.reset()
	case credentials:
		q.retries.release(func(r retry) bool { return r.last.Class == transport.Unauthorized })
	}
	if deadLetterSink {
		q.retries.release(func(r retry) bool { return r.last.Class == transport.Poison })
	}
	return before.Generation != s.Generation || before.Status.ObservedGeneration != s.Status.ObservedGeneration ||
		sink || deadLetterSink || credentials
}

// forgetUnanswered forgets the failures without an answer: want of trust may have caused them.
func (q *sourceQueue) forgetUnanswered() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.retries.forget(func(_ ledger.Key, r retry) bool { return r.last.Status == 0 })
}

// forgetBucket forgets the failures of objects that another process leads from now on.
func (q *sourceQueue) forgetBucket(b reconciler.Bucket) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.retries.forget(func(key ledger.Key, _ retry) bool { return b.Has(key.NamespacedName()) })
	maps.DeleteFunc(q.undecided, func(key ledger.Key, _ string) bool { return b.Has(key.NamespacedName()) })
	if len(q.retries.byObject) == 0 {
		q.problem = ""
	}
}
