// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CDEventBaseline says since when objects of a kind are announced: older ones were there before the
// controller watched the kind. Its name is the resource and the group of the kind, or only the resource.
//
// It is in the controller's namespace, and only the controller writes it.
//
// +kubebuilder:object:root=true
type CDEventBaseline struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what never changes.
	Spec CDEventBaselineSpec `json:"spec,omitempty"`
	// status is what was last observed of the kind.
	Status CDEventBaselineStatus `json:"status,omitempty"`
}

// CDEventBaselineSpec is what never changes.
type CDEventBaselineSpec struct {
	// since is when the controller first watched the kind, by the API server's clock. An object that was
	// created before is not announced. It is absent only while the controller sets it.
	Since *metav1.Time `json:"since,omitempty"`
}

// CDEventBaselineStatus is what was last observed of a kind.
type CDEventBaselineStatus struct {
	// conditions are the latest observations of the kind. Readable says whether the controller may read
	// its objects.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// CDEventBaselineList is a list of CDEventBaseline.
//
// +kubebuilder:object:root=true
type CDEventBaselineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []CDEventBaseline `json:"items"`
}
