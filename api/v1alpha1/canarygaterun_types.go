package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// CanaryGateRun keeps a run of a gate while it is under way: what it was asked, and
// everything that judging goes on from after a restart.
//
// It lies in the controller's namespace, and only the controller reads and writes it.
// What people are told stands in the status of the CanaryGate or the CustomRun. It has
// no status subresource: a run and its evidence are written together or not at all.
//
// +kubebuilder:object:root=true
type CanaryGateRun struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says who asked for the run. It never changes.
	Spec CanaryGateRunSpec `json:"spec"`
	// Status is the run as a whole.
	Status CanaryGateRunStatus `json:"status,omitempty"`
}

// CanaryGateRunSpec names the object that the run is for.
type CanaryGateRunSpec struct {
	// Kind is CanaryGate or CustomRun.
	Kind      string    `json:"kind"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
}

// CanaryGateRunStatus is how the run stands.
type CanaryGateRunStatus struct {
	// Run with its spec and its evidence.
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
