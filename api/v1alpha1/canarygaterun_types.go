// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// CanaryGateRun stores a run of a gate until its verdict is announced: the spec that it
// began with, and the evidence from which judging continues after a restart. With the label
// knative-cdevents.dev/finished, it keeps what a finished run measured.
//
// It is in the controller's namespace, and only the controller writes it. The
// status of the CanaryGate or CustomRun shows the result to users. It has no status
// subresource: a run and its evidence are written together or not at all.
//
// +kubebuilder:object:root=true
type CanaryGateRun struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec names the object that the run belongs to. It never changes.
	Spec CanaryGateRunSpec `json:"spec"`
	// status is the state of the run.
	Status CanaryGateRunStatus `json:"status,omitempty"`
}

// CanaryGateRunSpec names the object that a run belongs to.
type CanaryGateRunSpec struct {
	// kind is the kind of the object: CanaryGate or CustomRun.
	Kind string `json:"kind"`
	// namespace is the namespace of the object.
	Namespace string `json:"namespace"`
	// name is the name of the object.
	Name string `json:"name"`
	// uid is the UID of the object. It distinguishes objects that had the same name one
	// after the other.
	UID types.UID `json:"uid"`
}

// CanaryGateRunStatus is the state of a run.
type CanaryGateRunStatus struct {
	// run is the run, with the spec that it began with and its evidence.
	// +kubebuilder:pruning:PreserveUnknownFields
	Run *GateRun `json:"run,omitempty"`
}

// CanaryGateRunList is a list of CanaryGateRun.
//
// +kubebuilder:object:root=true
type CanaryGateRunList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []CanaryGateRun `json:"items"`
}
