// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/reconciler"

	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
)

// Enqueue has the pending events about an object sent to one source. The ledger calls it
// when an event becomes pending.
func (d *Delivery) Enqueue(key ledger.Key, source types.UID) {
	if q := d.queueOf(source); q != nil {
		q.queue.Add(key)
	}
}

// Resume enqueues every object that has pending events.
func (d *Delivery) Resume() {
	for source, backlog := range d.Ledger.Backlogs() {
		for _, key := range backlog.Keys {
			d.Enqueue(key, source)
		}
	}
}

// enqueueAll enqueues the objects that have pending events for one source.
func (d *Delivery) enqueueAll(source types.UID) {
	for _, key := range d.Ledger.Backlogs()[source].Keys {
		d.Enqueue(key, source)
	}
}

// Promoted is called when this process delivers for more objects than before.
func (d *Delivery) Promoted(reconciler.Bucket) { d.Resume() }

// Demoted is called when another process delivers for some objects from now on. This one
// stops reporting what is wrong with them.
func (d *Delivery) Demoted(b reconciler.Bucket) {
	for _, q := range d.all() {
		q.forgetBucket(b)
	}
}

// TrustChanged is called when sinks are trusted that were not trusted before.
func (d *Delivery) TrustChanged() {
	for _, q := range d.all() {
		q.forgetUnanswered()
	}
	d.Resume()
}
