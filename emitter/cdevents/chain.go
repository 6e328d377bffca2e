// SPDX-License-Identifier: Apache-2.0

package cdevents

import (
	"strconv"

	"github.com/google/uuid"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// chainID returns the chain that the event is part of. A pipeline that started one passes it on in
// an annotation ("it is up to these receiving services to pass the chain IDs", CDEvents links.md,
// Propagation); otherwise each rollout is its own chain. Chain ids are UUIDs (links.md, Connecting
// Events). spec.md names version 4, which is random; ours are derived (version 5), because all
// events of a rollout must agree on one without coordination.
func chainID(subject v1alpha1.CDEventSubjectSpec, t lifecycle.Transition, n *notes) string {
	if given := annotationOf(rolledOut(t), t, AnnotationChainID); given != "" {
		if isUUID(given) {
			return given
		}
		n.add("context.chainId", "annotation %s left out: %q is not a UUID", AnnotationChainID, clip(given))
	}
	if t.Chain == 0 {
		return ""
	}
	return derive("chain", string(subject.UID), strconv.FormatInt(t.Chain, 10))
}

// rolledOut returns the Revision whose rollout the transition is part of. A rollback is part of the
// rollout that it undoes, unless it is a rollout itself.
func rolledOut(t lifecycle.Transition) *lifecycle.Revision {
	if t.Type == lifecycle.RolledBack && !t.Reapplies() {
		return t.Previous
	}
	return t.Revision
}

// isUUID accepts only the hyphenated form; uuid.Parse accepts others too.
func isUUID(s string) bool {
	_, err := uuid.Parse(s)
	return err == nil && len(s) == len(uuid.Nil.String())
}
