// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The annotations of a CanaryGateRun repeat its spec for readers of the metadata alone.
const (
	runKindAnnotation      = GroupName + "/kind"
	runNamespaceAnnotation = GroupName + "/namespace"
	runNameAnnotation      = GroupName + "/name"
	runUIDAnnotation       = GroupName + "/uid"
)

// FinishedRunLabel is on CanaryGateRuns that keep what a run measured after its end. RunServiceAnnotation repeats the
// Service.
const (
	FinishedRunLabel     = GroupName + "/finished"
	RunServiceAnnotation = GroupName + "/judged-service"
)

// AnnotateOwner repeats the spec in the annotations.
func (r *CanaryGateRun) AnnotateOwner() {
	for name, value := range map[string]string{
		runKindAnnotation: r.Spec.Kind, runNamespaceAnnotation: r.Spec.Namespace, runNameAnnotation: r.Spec.Name,
		runUIDAnnotation: string(r.Spec.UID),
	} {
		metav1.SetMetaDataAnnotation(&r.ObjectMeta, name, value)
	}
}

// RunOwner returns the object that a CanaryGateRun belongs to, from its metadata.
func RunOwner(run metav1.Object) CanaryGateRunSpec {
	a := run.GetAnnotations()
	return CanaryGateRunSpec{
		Kind: a[runKindAnnotation], Namespace: a[runNamespaceAnnotation], Name: a[runNameAnnotation],
		UID: types.UID(a[runUIDAnnotation]),
	}
}

// InProgress reports whether there is a run that has not ended.
func (r *GateRun) InProgress() bool { return r != nil && r.CompletionTime == nil }

// Needs returns how many requests of each side the run needs; nil if that is not known.
func (e *GateEffective) Needs() (canary, baseline *int64) {
	if e == nil || e.Minimum == nil {
		return nil, nil
	}
	return e.Minimum.CanaryRequests, e.Minimum.BaselineRequests
}

// Judged returns the name of the Service that the gate judges. A run in progress keeps its Service.
func (g *CanaryGate) Judged() string {
	if run := g.Status.Run; run.InProgress() {
		return run.Service.Name
	}
	return g.Spec.Service
}

// Public returns the part of the run that users see.
func (r *GateRun) Public() *GateRun {
	if r == nil {
		return nil
	}
	out := r.DeepCopy()
	out.Spec, out.WaitingSince, out.PlacedSince, out.Evidence = nil, nil, nil, nil
	return out
}
