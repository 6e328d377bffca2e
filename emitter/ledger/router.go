// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// Router chooses the recipients of a transition. It is asked once, when the transition is
// journaled.
type Router interface {
	Recipients(subject v1alpha1.CDEventSubjectSpec, labels Labels, t lifecycle.Transition) []Recipient
	// NamespaceLabels returns the labels of a namespace, and false if there is no such
	// namespace. If it fails, nothing is journaled.
	NamespaceLabels(namespace string) (labels map[string]string, exists bool, err error)
	// Replays names the sources that want the present state of an object and have not
	// received it. It calls labels only if there may be such a source.
	Replays(subject v1alpha1.CDEventSubjectSpec, replayed []types.UID, labels func() Labels) []types.UID
	// Exists says whether a source exists.
	Exists(source types.UID) bool
	// Operator says whether a source is the operator's. A tenant's sources take no room
	// from it.
	Operator(source types.UID) bool
}

// Labels are what sources select objects by. They are journaled, because the object and its
// namespace may be gone when an event is sent.
type Labels struct {
	Own, Namespace map[string]string
}

// LabelsOf returns the labels that a memory has.
func LabelsOf(m Memory) Labels {
	own, namespace := m.Selection()
	return Labels{Own: own, Namespace: namespace}
}

// Recipient is a source that receives an event, and how the event is rendered for it.
type Recipient struct {
	Source  types.UID
	Profile v1alpha1.Profile
	// Undecided says that it is not known yet whether the event passes the source's
	// filters; see v1alpha1.Recipient.
	Undecided bool
	// Rank orders sources if there is no room for all. The highest rank is left out first.
	Rank int
	// Refused, if set, says why the source does not receive an event that it selects, or
	// may select.
	Refused *Refusal
}

// Refusal says why a source does not receive an event. Only the metric counts it.
type Refusal struct {
	// Reason is one of DroppedReasons.
	Reason string
	Err    error
}

// Replays names the sources that are still to receive the present state of an object.
func (l *Ledger) Replays(current *v1alpha1.CDEventSubject, labels func() Labels) []types.UID {
	return l.router.Replays(current.Spec, current.Status.Replayed, labels)
}
