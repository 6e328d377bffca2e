// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	eventingduckv1 "knative.dev/eventing/pkg/apis/duck/v1"
	duckv1 "knative.dev/pkg/apis/duck/v1"

	"github.com/knative-cdevents/knative-cdevents/api/tolerant"
)

// CDEventSource specifies which CDEvents are sent, and where to. It is a Knative source
// like any other: it has a sink by reference or URI, ceOverrides and delivery.
//
// It covers the objects in its own namespace. In the controller's namespace,
// namespaceSelector can select objects in other namespaces, and a source without it
// covers objects without a namespace too.
//
// +kubebuilder:object:root=true
type CDEventSource struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec specifies which events are sent, where to, and how. Only sink is required.
	Spec CDEventSourceSpec `json:"spec"`
	// status is the observed state of the source.
	Status CDEventSourceStatus `json:"status,omitempty"`

	// Unread lists the fields that could not be read.
	Unread []tolerant.FieldError `json:"-"`
}

// CDEventSourceSpec specifies which events are sent, where to, and how.
type CDEventSourceSpec struct {
	// SourceSpec contains the sink and ceOverrides.
	duckv1.SourceSpec `json:",inline"`

	// selector selects the watched objects by their labels. If it is empty, all objects are
	// selected. Its keys and values together may have 16 KiB.
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// namespaceSelector selects namespaces by their labels. It is allowed only in the
	// controller's namespace. A source without it covers its own namespace. Objects without a
	// namespace are covered by a selector that requires no label. Its keys and values together
	// may have 16 KiB.
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// filters select events, in the dialect of Knative's Trigger. An event is sent if it
	// passes all filters. All filters together may have 64 KiB of JSON, and their CESQL
	// expressions 4 KiB.
	Filters []Filter `json:"filters,omitempty"`
	// delivery specifies how events are sent and retried. Durations are in ISO 8601 (PT30S);
	// 30s is accepted too. Years and months are refused.
	Delivery *eventingduckv1.DeliverySpec `json:"delivery,omitempty"`
	// auth names Secrets, in the source's namespace, with which the source authenticates to
	// its sink. They are never sent to the dead letter sink. The annotation
	// knative-cdevents.dev/sink-hosts of each Secret must list the sink's host. A sink with
	// an audience gets an OIDC token and needs no Secret.
	Auth *Auth `json:"auth,omitempty"`
	// cdevents specifies which form of CDEvents is sent.
	CDEvents *CDEventsSpec `json:"cdevents,omitempty"`
	// environment specifies the CDEvents environment of the watched objects. Defaults to the
	// environment of their namespace (label cdevents.knative-cdevents.dev/environment), or
	// else of ConfigMap config-cdevents.
	Environment *Environment `json:"environment,omitempty"`
	// replay specifies whether a new source receives the state from before it existed. None
	// sends only what happens from now on. Current first sends the present state of every
	// selected object, once. Defaults to None.
	Replay Replay `json:"replay,omitempty"`
}

// SinkHostsAnnotation on a Secret lists the hosts to which the Secret may be sent.
// Without it, a Secret is never sent: a user who may write a source may not be allowed
// to read the Secret that it names.
const SinkHostsAnnotation = GroupName + "/sink-hosts"

// Auth names Secrets, in the source's namespace, with which the source authenticates to
// its sink. A sink with an audience gets an OIDC token and needs no Secret.
type Auth struct {
	// authorization selects the key of a Secret whose value is sent as the Authorization
	// header, such as "Bearer …". For Kafka, the value is a password; the same Secret has the
	// keys user and sasl.mechanism.
	Authorization *SecretKey `json:"authorization,omitempty"`
	// clientCertificate names a Secret of type kubernetes.io/tls with the client
	// certificate.
	ClientCertificate *SecretName `json:"clientCertificate,omitempty"`
}

// SecretKey selects a key of a Secret.
type SecretKey struct {
	// name is the name of the Secret. Required.
	Name string `json:"name"`
	// key is the key in the Secret. Required.
	Key string `json:"key"`
}

// SecretName names a Secret.
type SecretName struct {
	// name is the name of the Secret. Required.
	Name string `json:"name"`
}

// Replay specifies whether a new source receives the state from before it existed.
type Replay string

const (
	// ReplayNone sends only what happens from now on.
	ReplayNone Replay = "None"
	// ReplayCurrent first sends the present state: the events deployed and published,
	// with ids of their own.
	ReplayCurrent Replay = "Current"
)

// CDEventsSpec specifies which form of CDEvents is sent.
type CDEventsSpec struct {
	// version is the version of the CDEvents specification: 0.5 or 0.4. Some receivers, such
	// as Flux, still require 0.4. Defaults to 0.5.
	Version string `json:"version,omitempty"`
}

// Environment is an environment of CDEvents: the place that a service runs in.
type Environment struct {
	// id is the id of the environment, for example production. Required.
	ID string `json:"id"`
	// source is the URI that makes the id unique, if it differs from the source of the
	// event.
	Source string `json:"source,omitempty"`
}

// CDEventSourceStatus is the observed state of a CDEventSource.
type CDEventSourceStatus struct {
	// SourceStatus contains observedGeneration, conditions, the resolved sink, and the
	// ServiceAccount for which tokens are created.
	duckv1.SourceStatus `json:",inline"`
	// DeliveryStatus contains the resolved dead letter sink.
	eventingduckv1.DeliveryStatus `json:",inline"`

	// pending is the number of events that are not delivered yet. pending, oldestPending and
	// lastDelivery are updated at most every ten seconds.
	Pending int64 `json:"pending"`
	// oldestPending is the time of the oldest transition whose event is pending.
	OldestPending *metav1.MicroTime `json:"oldestPending,omitempty"`
	// lastDelivery is the time at which the sink last accepted an event.
	LastDelivery *metav1.MicroTime `json:"lastDelivery,omitempty"`
}

// CDEventSourceList is a list of CDEventSource.
//
// +kubebuilder:object:root=true
type CDEventSourceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []CDEventSource `json:"items"`
}
