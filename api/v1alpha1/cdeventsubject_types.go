package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/tolerant"
)

// CDEventSubject is one line of the ledger: a watched object, identified by its
// UID, with what was last seen of it, the transitions that are still owed to
// someone, and how far each source has acknowledged them.
//
// Only the controller writes it. It has no status subresource: a transition is
// journaled together with the memory that it leads to, in one write that either
// happens as a whole or not at all.
//
// +kubebuilder:object:root=true
type CDEventSubject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   CDEventSubjectSpec   `json:"spec"`
	Status CDEventSubjectStatus `json:"status,omitempty"`

	// Unread is what could not be read of it.
	Unread []tolerant.FieldError `json:"-"`
}

// CDEventSubjectSpec names the watched object. It never changes.
type CDEventSubjectSpec struct {
	// APIVersion and Kind of the watched object.
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Namespace of the watched object; empty for cluster-scoped ones.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// UID tells apart objects that had the same name one after the other.
	UID types.UID `json:"uid"`
}

// CDEventSubjectStatus is what the controller knows and what it owes.
type CDEventSubjectStatus struct {
	// Memory is what was last seen of the object, in the form that the
	// lifecycle of its kind understands.
	// +kubebuilder:pruning:PreserveUnknownFields
	Memory *runtime.RawExtension `json:"memory,omitempty"`
	// Sequence is the number of the newest transition, counted from 1.
	Sequence int64 `json:"sequence,omitempty"`
	// Journal holds the transitions that not every recipient has acknowledged,
	// oldest first.
	Journal []JournalEntry `json:"journal,omitempty"`
	// Profiles are the rendering profiles that journal entries refer to.
	Profiles map[string]Profile `json:"profiles,omitempty"`
	// Acknowledged is, for each source by UID, the sequence number up to which
	// nothing is owed to it any more.
	Acknowledged map[types.UID]int64 `json:"acknowledged,omitempty"`
	// Replayed holds the sources, by UID, that asked for the present state and need
	// not be told of it any more.
	Replayed []types.UID `json:"replayed,omitempty"`
	// Removed says that the object is gone; the entry goes when nothing is owed.
	Removed bool `json:"removed,omitempty"`
	// Created is when the entry was first made, where it was deleted by hand and put
	// back since. Objects that had the same name are told in this order.
	Created *metav1.Time `json:"created,omitempty"`
	// LastEvent and LastEventTime tell a reader what happened last.
	LastEvent     string            `json:"lastEvent,omitempty"`
	LastEventTime *metav1.MicroTime `json:"lastEventTime,omitempty"`
	// Pending is the number of events that are owed, over all sources.
	Pending int64 `json:"pending"`
	// OldestPending is the time of the oldest transition that is owed.
	OldestPending *metav1.MicroTime `json:"oldestPending,omitempty"`
	// Dropped counts events that were given up on purpose, by reason.
	Dropped map[string]int64 `json:"dropped,omitempty"`
	// Conditions: Delivered is False while something is owed, StatefulDeclared where
	// the annotations of a stateful cluster are wrong.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// JournalEntry is a transition that is owed to its recipients.
type JournalEntry struct {
	Sequence int64            `json:"sequence"`
	Time     metav1.MicroTime `json:"time"`
	// Type is the transition's name in the lifecycle.
	Type string `json:"type"`
	// Transition holds everything that is needed to render the event.
	// +kubebuilder:pruning:PreserveUnknownFields
	Transition runtime.RawExtension `json:"transition"`
	// Recipients were chosen when the transition was journaled; a source that
	// is made or changed later does not alter what was owed before.
	Recipients []Recipient `json:"recipients,omitempty"`
}

// Recipient is a source that a transition is owed to.
type Recipient struct {
	// Source is the UID of the CDEventSource.
	Source types.UID `json:"source"`
	// Profile is the key of the rendering profile in status.profiles.
	Profile string `json:"profile"`
	// Undecided says that the source's filters could not be applied. They are
	// applied when the event is to be sent; until they can be, it is owed.
	Undecided bool `json:"undecided,omitempty"`
}

// Profile is everything beside the transition that shapes an event's bytes.
type Profile struct {
	// SpecVersion is the CDEvents version, "0.5" or "0.4".
	SpecVersion string `json:"specVersion"`
	// Rendering is the version of our own form of these events; 1 where it is absent.
	// A release that has a newer one sends what was journaled before in the former.
	Rendering int `json:"rendering,omitempty"`
	// Replay is the UID of the source that the present state is told to anew.
	Replay types.UID `json:"replay,omitempty"`
	// Source is the absolute URI that identifies the cluster; the event's source.
	Source string `json:"source"`
	// Environment that the subject runs in.
	Environment Environment `json:"environment"`
	// Extensions are added to the CloudEvent (spec.ceOverrides.extensions).
	Extensions map[string]string `json:"extensions,omitempty"`
}

// CDEventSubjectList is a list of CDEventSubject.
//
// +kubebuilder:object:root=true
type CDEventSubjectList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []CDEventSubject `json:"items"`
}
