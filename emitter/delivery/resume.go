// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
)

// resume continues what another process has begun that keeps nothing in memory: the event has failed so often, and must
// not be sent before that time. What this process knows itself is newer. An event that was never sent need not wait,
// and none longer than any attempt of its source does: the other clock may have been wrong by years.
func (q *sourceQueue) resume(a *attempt) decision {
	had := a.pending.Attempt
	if had == nil || had.Tries == 0 || had.Sink != sinkHash(a.source) {
		return next
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.retries.byObject[a.key].of(a.pending) {
		return next
	}
	policy, err := transport.NewPolicy(a.source.Spec.Delivery)
	if err != nil {
		policy = transport.DefaultPolicy() // prepare reports it
	}
	notBefore := had.NotBefore.Time
	if latest := q.d.Now().Add(policy.LongestWait()); notBefore.After(latest) {
		notBefore = latest
	}
	q.retries.set(a.key, retry{
		line: a.pending.Name, sequence: a.pending.Transition.Sequence, at: a.pending.Transition.Time,
		tries: int(had.Tries), failures: int(had.Failures), notBefore: notBefore,
	})
	if wait := q.retries.wait(a.key, q.d.Now()); wait > 0 {
		return after(wait)
	}
	return next
}

// Attempts returns what came of the events of a CDEventSubject that this process tried to send, by source, for one that
// keeps nothing in memory: the ledger stores it.
func (d *Delivery) Attempts(key ledger.Key, name string) map[types.UID]v1alpha1.Attempt {
	out := map[types.UID]v1alpha1.Attempt{}
	for _, q := range d.all() {
		q.mu.Lock()
		if t, ok := q.retries.byObject[key]; ok && t.line == name {
			out[q.source.UID] = v1alpha1.Attempt{
				Source: q.source.UID, Sequence: t.sequence, Tries: int64(t.tries), Failures: int64(t.failures),
				NotBefore: metav1.NewMicroTime(t.notBefore), Sink: sinkHash(q.source),
			}
		}
		q.mu.Unlock()
	}
	return out
}

// sinkHash identifies what earlier attempts of a source say something about: see sinkChanged. It also changes when an
// event can be sent that could not be before.
func sinkHash(s *v1alpha1.CDEventSource) string {
	raw, err := json.Marshal([]any{
		s.Spec.Sink, s.Spec.Delivery, s.Spec.Auth, s.Status.SinkURI, s.Status.SinkCACerts, s.Status.DeliveryStatus,
		s.Status.ObservedGeneration == s.Generation, credentialsReady(s),
	})
	if err != nil {
		return "" // it came from JSON
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}
