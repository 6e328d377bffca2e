// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"
)

// The conditions of a CDEventSource. Ready summarizes those before Delivering, which is
// informational: a sink that is down is not an error of the source.
const (
	SourceConditionReady apis.ConditionType = apis.ConditionReady
	// SourceConditionSinkProvided says that the sink has an address.
	SourceConditionSinkProvided apis.ConditionType = duckv1.SourceConditionSinkProvided
	// SourceConditionDeadLetterSinkResolved says that the dead letter sink has an address, or that
	// none is configured.
	SourceConditionDeadLetterSinkResolved apis.ConditionType = "DeadLetterSinkResolved"
	// SourceConditionValid says that the rest of the spec is valid.
	SourceConditionValid apis.ConditionType = "Valid"
	// SourceConditionCredentialsReady says that the source has the credentials for its sinks, or
	// needs none.
	SourceConditionCredentialsReady apis.ConditionType = "CredentialsReady"
	// SourceConditionDelivering says whether the sink accepts events.
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

// Version returns the CDEvents version of the events, or its default.
func (s *CDEventSourceSpec) Version() string {
	if s.CDEvents == nil || s.CDEvents.Version == "" {
		return "0.5"
	}
	return s.CDEvents.Version
}
