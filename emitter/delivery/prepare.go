// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"errors"

	"knative.dev/pkg/apis"
	"knative.dev/pkg/logging"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/cdevents"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/credentials"
)

// preparation finds out what is sent where and how. It asks no sink for anything.
var preparation = []step{
	(*sourceQueue).render,
	(*sourceQueue).checkSpec,
	(*sourceQueue).filter,
	(*sourceQueue).address,
	(*sourceQueue).checkPause,
}

func (q *sourceQueue) prepare(a *attempt) decision { return q.through(preparation, a) }

// prepareAgain prepares once more what has changed while the attempt waited for its place.
func (q *sourceQueue) prepareAgain(a *attempt) decision {
	if !q.d.Leader.IsLeaderFor(a.key.NamespacedName()) {
		return stopped
	}
	if !q.d.Ledger.Holds(a.pending, a.source.UID) {
		return finished
	}
	if now := q.current(); now != a.source {
		a.source = now
		return q.prepare(a)
	}
	return q.checkPause(a)
}

// render makes the event, always with the same bytes.
func (q *sourceQueue) render(a *attempt) decision {
	err := a.pending.Unreadable
	if err == nil {
		var r cdevents.Rendered
		r, err = q.d.Render.Recovering(a.pending.Profile, a.pending.Subject, a.pending.Transition)
		a.event, a.incomplete = r.Event, r.Incomplete
	}
	if err == nil {
		return next
	}
	if bug := (*cdevents.PanicError)(nil); errors.As(err, &bug) {
		logging.FromContext(q.ctx).Errorw("Rendering an event panicked, which is a bug: please report it",
			"source", q.label(), "subject", ledger.KeyOf(a.pending.Subject).String(), "sequence", bug.Sequence,
			"panic", bug.Value, "stack", bug.Stack)
	}
	// It was rendered when it was journaled: another version of this program wrote it.
	logging.FromContext(q.ctx).Errorw("A journaled event cannot be rendered and is dropped",
		"source", q.label(), "subject", a.key.String(), "sequence", a.pending.Transition.Sequence, "error", err)
	return q.giveUp(a, ledger.DroppedUnreadable)
}

// checkSpec keeps the event while this version cannot read the spec of its source.
func (q *sourceQueue) checkSpec(a *attempt) decision {
	if u := v1alpha1.UnreadIn(a.source.Unread, "spec"); u != nil {
		q.setProblem(u.Error())
		return after(unresolved)
	}
	return next
}

// filter applies the filters that could not be applied when the event was journaled.
func (q *sourceQueue) filter(a *attempt) decision {
	if !a.pending.Undecided {
		return next
	}
	passes, err := q.d.Filters.Passes(a.source, a.event)
	q.setUndecided(a.key, err)
	switch {
	case err != nil:
		return after(unresolved)
	case !passes:
		return q.settle(a)
	}
	return next
}

// address finds the sink, and how the source wants it to be asked.
func (q *sourceQueue) address(a *attempt) decision {
	if a.source.Status.ObservedGeneration != a.source.Generation {
		return after(unresolved) // the address is that of the former spec; the new one wakes the object
	}
	var ok bool
	if a.target, ok = sinkOf(a.source); !ok {
		q.setProblem("the sink has no address yet; see the condition SinkProvided")
		return after(unresolved)
	}
	var err error
	if a.policy, err = transport.NewPolicy(a.source.Spec.Delivery); err != nil {
		q.setProblem(err.Error())
		return after(unresolved)
	}
	a.policy.Random = q.d.Random
	return next
}

// checkPause keeps the event while its sink wants to be left alone.
func (q *sourceQueue) checkPause(a *attempt) decision {
	if wait := q.pausedFor(a.target.URL); wait > 0 {
		return after(wait)
	}
	return next
}

func sinkOf(s *v1alpha1.CDEventSource) (transport.Target, bool) {
	return targetOf(s.SinkAddress(), s.Status.SinkCACerts, credentials.OfSink(s))
}

func deadLetterSinkOf(s *v1alpha1.CDEventSource) (transport.Target, bool) {
	return targetOf(s.DeadLetterSinkAddress(), s.Status.DeadLetterSinkCACerts, credentials.OfDeadLetterSink(s))
}

func targetOf(uri *apis.URL, caCerts *string, refs credentials.References) (transport.Target, bool) {
	if uri == nil || uri.Host == "" {
		return transport.Target{}, false
	}
	t := transport.Target{URL: uri.String(), Source: refs.UID, Credentials: refs}
	if caCerts != nil {
		t.CACerts = *caCerts
	}
	return t, true
}
