package v1alpha1

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"
)

// The conditions of a CDEventSource. Ready sums up those before Delivering,
// which informs only: a sink that is down for a while is no fault of the source.
const (
	SourceConditionReady apis.ConditionType = apis.ConditionReady
	// SourceConditionSinkProvided says that the sink has an address.
	SourceConditionSinkProvided apis.ConditionType = duckv1.SourceConditionSinkProvided
	// SourceConditionDeadLetterSinkResolved says that the dead letter sink has
	// an address, or that none is asked for.
	SourceConditionDeadLetterSinkResolved apis.ConditionType = "DeadLetterSinkResolved"
	// SourceConditionValid says that the rest of the spec can be obeyed.
	SourceConditionValid apis.ConditionType = "Valid"
	// SourceConditionCredentialsReady says that the source has what it is to show
	// to its sinks, or that it shows nothing.
	SourceConditionCredentialsReady apis.ConditionType = "CredentialsReady"
	// SourceConditionDelivering says whether the sink takes what is sent.
	SourceConditionDelivering apis.ConditionType = "Delivering"
)

var sourceConditions = apis.NewLivingConditionSet(
	SourceConditionSinkProvided,
	SourceConditionDeadLetterSinkResolved,
	SourceConditionValid,
	SourceConditionCredentialsReady,
)

// GetConditionSet implements knative.dev/pkg's KRShaped.
func (*CDEventSource) GetConditionSet() apis.ConditionSet { return sourceConditions }

// GetGroupVersionKind implements kmeta.OwnerRefable.
func (*CDEventSource) GetGroupVersionKind() schema.GroupVersionKind { return SourceKind }

// GetStatus implements KRShaped.
func (s *CDEventSource) GetStatus() *duckv1.Status { return &s.Status.Status }

// Version is the CDEvents version to speak, with the default filled in.
func (s *CDEventSourceSpec) Version() string {
	if s.CDEvents == nil || s.CDEvents.Version == "" {
		return "0.5"
	}
	return s.CDEvents.Version
}
