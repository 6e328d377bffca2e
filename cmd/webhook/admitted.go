package main

import (
	"context"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"knative.dev/pkg/apis"
	"knative.dev/pkg/webhook/resourcesemantics"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/reconciler/source"
)

// admitted is a CDEventSource on its way into the cluster.
type admitted struct {
	v1alpha1.CDEventSource
	// system is the namespace whose sources may select other namespaces.
	system string
}

var (
	_ resourcesemantics.GenericCRD         = (*admitted)(nil)
	_ resourcesemantics.VerbLimited        = (*admitted)(nil)
	_ resourcesemantics.SubResourceLimited = (*admitted)(nil)
)

// DeepCopyObject implements runtime.Object.
func (a *admitted) DeepCopyObject() runtime.Object {
	return &admitted{CDEventSource: *a.DeepCopy(), system: a.system}
}

// SetDefaults implements apis.Defaultable. The defaults are the controller's.
func (*admitted) SetDefaults(context.Context) {}

// SupportedVerbs implements resourcesemantics.VerbLimited.
func (*admitted) SupportedVerbs() []admissionregistrationv1.OperationType {
	return []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update}
}

// SupportedSubResources implements resourcesemantics.SubResourceLimited: the
// controller's own writes of the status need nobody's leave.
func (*admitted) SupportedSubResources() []string { return []string{""} }

// Validate implements apis.Validatable. What was let in once is let in again as
// long as it stays as it is: a label or a finalizer must not wait for its author.
func (a *admitted) Validate(ctx context.Context) *apis.FieldError {
	if before, ok := apis.GetBaseline(ctx).(*admitted); ok && equality.Semantic.DeepEqual(before.Spec, a.Spec) {
		return nil
	}
	if err := source.Check(&a.CDEventSource, a.system); err != nil {
		return &apis.FieldError{Message: err.Error(), Paths: []string{"spec"}}
	}
	return nil
}
