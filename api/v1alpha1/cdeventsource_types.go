package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	eventingduckv1 "knative.dev/eventing/pkg/apis/duck/v1"
	eventingv1 "knative.dev/eventing/pkg/apis/eventing/v1"
	duckv1 "knative.dev/pkg/apis/duck/v1"

	"github.com/knative-cdevents/knative-cdevents/api/tolerant"
)

// CDEventSource says which CDEvents its owner wants and where they go. It is a
// Knative source like any other: sink by reference or URI, ceOverrides, delivery.
//
// It sees the objects of its own namespace. Only in the controller's namespace
// does namespaceSelector let it see others.
//
// +kubebuilder:object:root=true
type CDEventSource struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   CDEventSourceSpec   `json:"spec"`
	Status CDEventSourceStatus `json:"status,omitempty"`

	// Unread is what could not be read of it.
	Unread []tolerant.FieldError `json:"-"`
}

// CDEventSourceSpec is what the user asks for.
type CDEventSourceSpec struct {
	// SourceSpec holds the sink and ceOverrides.
	duckv1.SourceSpec `json:",inline"`

	// Selector chooses the watched objects by their labels; empty chooses all.
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// NamespaceSelector chooses namespaces by their labels. It is allowed in the
	// controller's own namespace only.
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// Filters choose among the events, in the dialect of Knative's Trigger. All
	// of them must pass.
	Filters []eventingv1.SubscriptionsAPIFilter `json:"filters,omitempty"`
	// Delivery says how often and how long a send is tried, what becomes of an
	// event that cannot be sent, and whether events are sent in binary (default)
	// or structured mode (format: json).
	Delivery *eventingduckv1.DeliverySpec `json:"delivery,omitempty"`
	// Auth says how the source shows its sink who it is. The dead letter sink is
	// shown none of it.
	Auth *Auth `json:"auth,omitempty"`
	// CDEvents says which version of the specification is spoken.
	CDEvents *CDEventsSpec `json:"cdevents,omitempty"`
	// Environment that the watched objects run in. By default the one of the
	// namespace (label), or else of ConfigMap config-cdevents.
	Environment *Environment `json:"environment,omitempty"`
	// Replay says whether the source is told of what was there before it: None
	// (default), or Current for the present state of every object that it selects,
	// once.
	Replay Replay `json:"replay,omitempty"`
}

// SinkHostsAnnotation on a Secret lists the hosts that it may be sent to. Without
// it, a Secret is sent nowhere: who may write a source need not be one who may
// read the Secret that he names in it.
const SinkHostsAnnotation = GroupName + "/sink-hosts"

// Auth names the Secrets, in the source's own namespace, that are shown to the
// sink. A sink with an audience needs none: it is shown a token.
type Auth struct {
	// Authorization is a Secret's key that holds the whole value of the header
	// Authorization, such as "Bearer …".
	Authorization *SecretKey `json:"authorization,omitempty"`
	// ClientCertificate is a Secret of type kubernetes.io/tls.
	ClientCertificate *SecretName `json:"clientCertificate,omitempty"`
}

// SecretKey is one value of a Secret.
type SecretKey struct {
	Name string `json:"name"`
	Key  string `json:"key"`
}

// SecretName is a Secret as a whole.
type SecretName struct {
	Name string `json:"name"`
}

// Replay is what a new source is told of the past.
type Replay string

const (
	// ReplayNone tells of what happens from now on.
	ReplayNone Replay = "None"
	// ReplayCurrent tells of the present state first: deployed and published, with
	// ids of their own.
	ReplayCurrent Replay = "Current"
)

// CDEventsSpec chooses the dialect of CDEvents.
type CDEventsSpec struct {
	// Version is "0.5" (default) or "0.4", which Flux and others still require.
	Version string `json:"version,omitempty"`
}

// Environment is what CDEvents calls the place that a service runs in.
type Environment struct {
	// ID of the environment, for example "production".
	ID string `json:"id"`
	// Source is the URI that makes the id unique, where it is not the event's own.
	Source string `json:"source,omitempty"`
}

// CDEventSourceStatus is what became of it.
type CDEventSourceStatus struct {
	// SourceStatus holds observedGeneration, conditions, sinkUri and what
	// belongs to it, and the ServiceAccount that tokens are made for.
	duckv1.SourceStatus `json:",inline"`
	// DeliveryStatus holds the resolved dead letter sink.
	eventingduckv1.DeliveryStatus `json:",inline"`

	// Pending is the number of events that are owed to this source. It and the
	// two times after it are written at most every ten seconds.
	Pending int64 `json:"pending"`
	// OldestPending is the time of the oldest transition that is owed.
	OldestPending *metav1.MicroTime `json:"oldestPending,omitempty"`
	// LastDelivery is the time of the last acknowledged event.
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
