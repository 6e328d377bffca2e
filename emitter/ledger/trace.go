// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// Tracer follows what is journaled.
type Tracer interface {
	// Mark returns a transition as it is journaled, with its place in a trace. It must not change what the
	// transition shares with others.
	Mark(subject v1alpha1.CDEventSubjectSpec, t lifecycle.Transition) lifecycle.Transition
	// Journaled is called after transitions were journaled, with these as they were before Mark, and the history that
	// they are in.
	Journaled(subject v1alpha1.CDEventSubjectSpec, history []v1alpha1.PastTransition, all []lifecycle.Transition)
}

// WithTracer makes a ledger tell a Tracer what it journals. Without one, tracing costs nothing.
func WithTracer(t Tracer) Option { return func(l *Ledger) { l.tracer = t } }

func (l *Ledger) marked(spec v1alpha1.CDEventSubjectSpec, all []lifecycle.Transition) []lifecycle.Transition {
	if l.tracer == nil || len(all) == 0 {
		return all
	}
	out := make([]lifecycle.Transition, len(all))
	for i, t := range all {
		out[i] = l.tracer.Mark(spec, t)
	}
	return out
}

func (l *Ledger) trace(e *edit) {
	if l.tracer != nil && len(e.traced) > 0 {
		past, err := e.next.Status.PastTransitions()
		if err != nil {
			past = nil // the rollout's trace then begins here
		}
		l.tracer.Journaled(e.next.Spec, past, e.traced)
	}
}
