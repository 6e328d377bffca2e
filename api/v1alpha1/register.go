// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of all resources in this package.
const GroupName = "knative-cdevents.dev"

// SchemeGroupVersion is the group and version that this package registers.
var SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

// The kinds of this package, for callers that need more than the Go type.
var (
	SourceKind        = SchemeGroupVersion.WithKind("CDEventSource")
	SourceResource    = SchemeGroupVersion.WithResource("cdeventsources")
	SubjectKind       = SchemeGroupVersion.WithKind("CDEventSubject")
	SubjectResource   = SchemeGroupVersion.WithResource("cdeventsubjects")
	BaselineKind      = SchemeGroupVersion.WithKind("CDEventBaseline")
	BaselineResource  = SchemeGroupVersion.WithResource("cdeventbaselines")
	GateKind          = SchemeGroupVersion.WithKind("CanaryGate")
	GateResource      = SchemeGroupVersion.WithResource("canarygates")
	TemplateKind      = SchemeGroupVersion.WithKind("ClusterCanaryGateTemplate")
	TemplateResource  = SchemeGroupVersion.WithResource("clustercanarygatetemplates")
	GateRunKind       = SchemeGroupVersion.WithKind("CanaryGateRun")
	GateRunResource   = SchemeGroupVersion.WithResource("canarygateruns")
	PlacementKind     = SchemeGroupVersion.WithKind("ShardPlacement")
	PlacementResource = SchemeGroupVersion.WithResource("shardplacements")
)

// AddToScheme adds the types of this package to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion,
		&CDEventSource{}, &CDEventSourceList{},
		&CDEventSubject{}, &CDEventSubjectList{},
		&CDEventBaseline{}, &CDEventBaselineList{},
		&CanaryGate{}, &CanaryGateList{},
		&ClusterCanaryGateTemplate{}, &ClusterCanaryGateTemplateList{},
		&CanaryGateRun{}, &CanaryGateRunList{},
		&ShardPlacement{}, &ShardPlacementList{},
	)
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return nil
}
