// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/tolerant"
)

// ClusterCanaryGateTemplate is a policy by which many gates judge. A CanaryGate, or a CustomRun that embeds
// a gate, refers to it with templateRef.
//
// What a template says, holds: each group of the policy that it states replaces the group of that name in
// the gate. What it leaves open, the gate says.
//
// +kubebuilder:object:root=true
type ClusterCanaryGateTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the policy. A group that is not stated stays open. Within a group that is stated, defaults are
	// stored.
	Spec ClusterCanaryGateTemplateSpec `json:"spec"`

	// Unread lists the fields that could not be read.
	Unread []tolerant.FieldError `json:"-"`
}

// ClusterCanaryGateTemplateSpec is the policy of a template. All of its groups are optional.
type ClusterCanaryGateTemplateSpec struct {
	GatePolicy `json:",inline"`
}

// ClusterCanaryGateTemplateList is a list of ClusterCanaryGateTemplate.
//
// +kubebuilder:object:root=true
type ClusterCanaryGateTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []ClusterCanaryGateTemplate `json:"items"`
}
