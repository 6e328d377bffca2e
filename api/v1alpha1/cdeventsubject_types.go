// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/tolerant"
)

// ForgetAnnotation with the value "true" on a CDEventSubject asks the controller to delete it, and
// to treat the object as one that it has never seen. Events that are pending about it are dropped.
const ForgetAnnotation = GroupName + "/forget"

// WakeAnnotation is when the object of a CDEventSubject must be looked at again, in RFC 3339. Only the serverless mode
// sets it: something lasts that is announced later, an event is pending, or the CDEventSubject is to be deleted. It is
// made from the status with each write, so a watcher of metadata can keep the time.
const WakeAnnotation = GroupName + "/wake"

// CDEventSubject stores what the controller knows about a watched object, the events
// about it that are not delivered yet, and how far each source has acknowledged them.
//
// Only the controller writes it. It has no status subresource: a transition is journaled
// together with the memory that it leads to, in one write that succeeds as a whole or
// not at all.
//
// +kubebuilder:object:root=true
type CDEventSubject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec identifies the watched object. It never changes.
	Spec CDEventSubjectSpec `json:"spec"`
	// status contains the last known state of the object, and its pending events.
	Status CDEventSubjectStatus `json:"status,omitempty"`

	// Unread lists the fields that could not be read.
	Unread []tolerant.FieldError `json:"-"`
}

// CDEventSubjectSpec identifies the watched object. It never changes.
type CDEventSubjectSpec struct {
	// apiVersion is the API version of the watched object.
	APIVersion string `json:"apiVersion"`
	// kind is the kind of the watched object.
	Kind string `json:"kind"`
	// namespace is the namespace of the watched object. It is empty for cluster-scoped
	// objects.
	Namespace string `json:"namespace,omitempty"`
	// name is the name of the watched object.
	Name string `json:"name"`
	// uid is the UID of the watched object. It distinguishes objects that had the same name
	// one after the other.
	UID types.UID `json:"uid"`
}

// ObjectName is the name of the CDEventSubject of the watched object.
func (s CDEventSubjectSpec) ObjectName() string {
	return strings.ToLower(s.Kind) + "-" + string(s.UID)
}

// CDEventSubjectStatus contains the last known state of an object, and its pending events.
type CDEventSubjectStatus struct {
	// memory is the last known state of the object, as JSON. It is one string because the API server
	// would decode, validate and encode each field of it with each write.
	Memory string `json:"memory,omitempty"`
	// sequence is the number of the newest transition. The first one is 1.
	Sequence int64 `json:"sequence,omitempty"`
	// journal lists the transitions that not all recipients have acknowledged, oldest first.
	Journal []JournalEntry `json:"journal,omitempty"`
	// profiles contains everything apart from the transition that shapes an event. Journal
	// entries refer to it by key.
	Profiles map[string]Profile `json:"profiles,omitempty"`
	// acknowledged is, for each source by UID, the number of the transition up to which no
	// event is pending for that source.
	Acknowledged map[types.UID]int64 `json:"acknowledged,omitempty"`
	// replayed lists the UIDs of the sources with replay set to Current for which the
	// present state of this object is already handled.
	Replayed []types.UID `json:"replayed,omitempty"`
	// removed is true if the object is gone. This CDEventSubject is deleted when none of its
	// events is pending.
	Removed bool `json:"removed,omitempty"`
	// created is the time at which this CDEventSubject was first created, if someone deleted
	// it since and the controller restored it. Events about objects that had the same name
	// are sent in this order.
	Created *metav1.Time `json:"created,omitempty"`
	// history lists the last transitions, oldest first: at most 20, and fewer if they are large. It
	// includes those that no source receives. Each line is a PastTransition, as JSON.
	History string `json:"history,omitempty"`
	// performance counts what DORA's metrics of software delivery are made of. It is absent until there
	// is something to count.
	Performance *Performance `json:"performance,omitempty"`
	// lastEvent is the type of the last transition.
	LastEvent string `json:"lastEvent,omitempty"`
	// lastEventTime is the time of the last transition.
	LastEventTime *metav1.MicroTime `json:"lastEventTime,omitempty"`
	// pending is the number of pending events, over all sources.
	Pending int64 `json:"pending"`
	// oldestPending is the time of the oldest transition whose event is pending.
	OldestPending *metav1.MicroTime `json:"oldestPending,omitempty"`
	// waits is since when something lasts that is announced when it has lasted for its limit, by what that is: an outage,
	// for example. Only the serverless mode, which keeps nothing in memory, sets it.
	Waits map[string]metav1.MicroTime `json:"waits,omitempty"`
	// due is when the object must be looked at again because of what lasts. Only the serverless mode sets it.
	Due *metav1.MicroTime `json:"due,omitempty"`
	// attempts lists, for each source whose oldest pending event about this object is not accepted yet, what came of it.
	// Only the serverless mode sets it.
	Attempts []Attempt `json:"attempts,omitempty"`
	// dropped is the number of dropped events, by reason.
	Dropped map[string]int64 `json:"dropped,omitempty"`
	// conditions are the latest observations of the object. Delivered is False while an
	// event is pending. StatefulDeclared says whether the annotations that declare a
	// stateful cluster are valid. PlacementEnforced says whether the member that assigns
	// the shards follows the plan. ClusterTroubled is True while an incident of the stateful
	// cluster goes on.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// JournalEntry is a transition that not all recipients have acknowledged.
type JournalEntry struct {
	// sequence is the number of the transition.
	Sequence int64 `json:"sequence"`
	// time is the time of the transition.
	Time metav1.MicroTime `json:"time"`
	// type is the type of the transition.
	Type string `json:"type"`
	// transition contains all data from which the event is rendered.
	// +kubebuilder:pruning:PreserveUnknownFields
	Transition runtime.RawExtension `json:"transition"`
	// recipients lists the sources that receive the event. They are chosen when the
	// transition is journaled. A source that is created or changed later does not affect
	// them.
	Recipients []Recipient `json:"recipients,omitempty"`
}

// Recipient is a source that receives the event of a transition.
type Recipient struct {
	// source is the UID of the CDEventSource.
	Source types.UID `json:"source"`
	// profile is a key of status.profiles.
	Profile string `json:"profile"`
	// undecided is true if the source's filters could not be applied yet. The event stays
	// pending until they can be applied.
	Undecided bool `json:"undecided,omitempty"`
}

// Attempt is what came of the oldest pending event of a source.
type Attempt struct {
	// source is the UID of the CDEventSource.
	Source types.UID `json:"source"`
	// sequence is the number of the transition.
	Sequence int64 `json:"sequence"`
	// tries is the number of attempts. It is 0 if none was made, because the sink has no address, for example.
	Tries int64 `json:"tries,omitempty"`
	// failures is the number of those attempts that use up spec.delivery.retry of the source.
	Failures int64 `json:"failures,omitempty"`
	// notBefore is when the event may be sent again.
	NotBefore metav1.MicroTime `json:"notBefore"`
	// sink is a hash of what the source said of its sinks. If it changes, the count begins anew.
	Sink string `json:"sink,omitempty"`
}

// Profile contains everything apart from the transition that shapes an event.
type Profile struct {
	// specVersion is the CDEvents version, 0.5 or 0.4.
	SpecVersion string `json:"specVersion"`
	// rendering is the version of the form in which events are rendered. If it is absent,
	// the version is 1. A newer release sends what was journaled before in the earlier form.
	Rendering int `json:"rendering,omitempty"`
	// replay is the UID of the source to which the present state is sent again.
	Replay types.UID `json:"replay,omitempty"`
	// source is the source of the events: an absolute URI that identifies the cluster.
	Source string `json:"source"`
	// environment is the CDEvents environment of the object.
	Environment Environment `json:"environment"`
	// extensions are the attributes that spec.ceOverrides adds to the CloudEvent.
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
