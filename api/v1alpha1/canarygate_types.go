// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/tolerant"
)

// CanaryGate specifies how the canary of a Knative Service in the same namespace is
// judged. `spec: {service: cart}` is enough.
//
// A gate judges in runs. A run is a Tekton CustomRun that refers to the gate. With
// `watch: true`, the gate also starts a run itself at each new split of the Service's
// traffic, and keeps it in its status.
//
// +kubebuilder:object:root=true
type CanaryGate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec specifies how the canary is judged. Only service is required. Defaults are stored
	// when the gate is written. What depends on other fields is chosen when a run begins, and
	// shown in its effective values.
	Spec CanaryGateSpec `json:"spec"`
	// status is the observed state of the gate.
	Status CanaryGateStatus `json:"status,omitempty"`

	// Unread lists the fields that could not be read.
	Unread []tolerant.FieldError `json:"-"`
}

// CanaryGateSpec specifies how a canary is judged. A CustomRun can embed it instead of
// referring to a CanaryGate.
type CanaryGateSpec struct {
	// service is the name of the Knative Service, in the gate's namespace. Required.
	Service string `json:"service"`
	// canary is the name of the Revision to judge. Defaults to the newest Revision to which
	// the Route sends traffic.
	Canary string `json:"canary,omitempty"`
	// baseline is the name of the Revision to compare the canary with. It must not be the
	// same as canary. Defaults to the Revision with the largest share of the traffic, apart
	// from the canary.
	Baseline string `json:"baseline,omitempty"`
	// watch specifies whether the gate starts a run at each new split of the Service's
	// traffic and keeps it in status.run. Defaults to false.
	Watch bool `json:"watch,omitempty"`
	// dryRun specifies that the gate judges and reports, but never stops anything. Defaults
	// to false.
	DryRun bool `json:"dryRun,omitempty"`
	// suspend specifies that no further run begins: the gate starts none, and a CustomRun that
	// refers to the gate fails at once or instead of a retry, with the reason GateSuspended. A run
	// that has begun goes on. Defaults to false.
	Suspend bool `json:"suspend,omitempty"`
	// historyLimit is the number of finished runs that status.history keeps, from 0 to 100.
	// Defaults to 10.
	HistoryLimit *int32 `json:"historyLimit,omitempty"`
	// templateRef names a ClusterCanaryGateTemplate. What the template says, holds: each group that it
	// states replaces the group of that name here. What it leaves open, this gate says. A run takes
	// the template as it is when the run begins.
	// +structType=atomic
	TemplateRef *GateTemplateReference `json:"templateRef,omitempty"`

	GatePolicy `json:",inline"`
}

// GateTemplateReference names a ClusterCanaryGateTemplate.
//
// +structType=atomic
type GateTemplateReference struct {
	// name is the name of the ClusterCanaryGateTemplate. Required.
	Name string `json:"name"`
}

// Template returns the name of the template that the spec refers to, or empty.
func (s *CanaryGateSpec) Template() string {
	if s.TemplateRef == nil {
		return ""
	}
	return s.TemplateRef.Name
}

// CanaryGateList is a list of CanaryGate.
//
// +kubebuilder:object:root=true
type CanaryGateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []CanaryGate `json:"items"`
}
