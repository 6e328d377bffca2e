// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the resources of the API group knative-cdevents.dev: CDEventSource selects
// events and their sink; CDEventSubject is the ledger of observed state and pending events;
// CanaryGate specifies how a canary is judged, and ClusterCanaryGateTemplate the policy that many gates
// share. The package also reads the annotations with which a
// template declares that its pods form a stateful cluster.
//
// Its invariant: a resource that Validate accepts stays valid with its defaults.
//
// It imports only the small packages of api, so that clients can use it alone.
//
// +kubebuilder:object:generate=true
// +groupName=knative-cdevents.dev
package v1alpha1
