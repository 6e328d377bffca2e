package cdevents

import (
	"strconv"

	"github.com/google/uuid"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// chainID names the chain that the event is part of. A pipeline that began one
// hands it on in an annotation ("it is up to these receiving services to pass
// the chain IDs", CDEvents links.md, Propagation); else each rollout is a chain
// of its own. Chain ids are UUIDs (links.md, Connecting Events). spec.md speaks
// of version 4, which is random; ours are derived, version 5, as all events of a
// rollout must agree on one without asking each other.
func chainID(subject v1alpha1.CDEventSubjectSpec, t lifecycle.Transition, said *notes) string {
	if given := annotationOf(rolledOut(t), t, AnnotationChainID); given != "" {
		if isUUID(given) {
			return given
		}
		said.add("context.chainId", "annotation %s left out: %q is not a UUID", AnnotationChainID, clip(given))
	}
	if t.Chain == 0 {
		return ""
	}
	return derive("chain", string(subject.UID), strconv.FormatInt(t.Chain, 10))
}

// rolledOut is the Revision whose rollout the transition is part of. A rollback
// is part of the one that it takes back, unless it is a rollout itself.
func rolledOut(t lifecycle.Transition) *lifecycle.Revision {
	if t.Type == lifecycle.RolledBack && t.Reason != lifecycle.ReasonReapplied {
		return t.Previous
	}
	return t.Revision
}

// isUUID accepts the form with hyphens only; uuid.Parse knows others too.
func isUUID(s string) bool {
	_, err := uuid.Parse(s)
	return err == nil && len(s) == len(uuid.Nil.String())
}
