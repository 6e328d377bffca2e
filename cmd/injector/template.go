// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"knative.dev/pkg/apis"
	"knative.dev/pkg/webhook/resourcesemantics"
	"knative.dev/serving/pkg/apis/serving"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/reconciler/sidecar"
)

// templated is what a Service and a Configuration of Knative have in common, under admission. It is never changed.
type templated struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              servingv1.ConfigurationSpec `json:"spec"`
}

var (
	_ resourcesemantics.GenericCRD         = (*templated)(nil)
	_ resourcesemantics.VerbLimited        = (*templated)(nil)
	_ resourcesemantics.SubResourceLimited = (*templated)(nil)
)

// DeepCopyObject implements runtime.Object.
func (t *templated) DeepCopyObject() runtime.Object {
	out := &templated{TypeMeta: t.TypeMeta, Spec: *t.Spec.DeepCopy()}
	t.DeepCopyInto(&out.ObjectMeta)
	return out
}

// SetDefaults implements apis.Defaultable.
func (*templated) SetDefaults(context.Context) {}

// SupportedVerbs implements resourcesemantics.VerbLimited.
func (*templated) SupportedVerbs() []admissionregistrationv1.OperationType {
	return []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update}
}

// SupportedSubResources implements resourcesemantics.SubResourceLimited.
func (*templated) SupportedSubResources() []string { return []string{""} }

// Validate implements apis.Validatable. An unchanged template stays admitted even if it is wrong, so that all else can
// still be changed.
func (t *templated) Validate(ctx context.Context) *apis.FieldError {
	was, ok := apis.GetBaseline(ctx).(*templated)
	if ok && equality.Semantic.DeepEqual(was.Spec.Template, t.Spec.Template) {
		return nil
	}
	var errs *apis.FieldError
	const annotations = "spec.template.metadata.annotations"
	given := t.Spec.Template.Annotations
	declared, _, err := v1alpha1.ParseStateful(given)
	if err != nil {
		errs = errs.Also(wrong(err.Error(), annotations))
	}
	if known, ok := ctx.Value(proxiesKey{}).(*sidecar.Proxies); ok && declared.Proxy != "" {
		if _, err := known.Named(declared.Proxy); err != nil {
			errs = errs.Also(wrong(err.Error(), annotations))
		}
	}
	if strings.TrimSpace(given[v1alpha1.AnnotationRuntime]) == string(v1alpha1.RuntimeSidecar) {
		errs = errs.Also(t.sidecar(annotations))
	}
	return errs
}

// sidecar checks what pods with a sidecar need.
func (t *templated) sidecar(annotations string) (errs *apis.FieldError) {
	if t.Kind == "Configuration" && t.Labels[serving.ServiceLabelKey] == "" {
		errs = errs.Also(wrong("Configuration "+t.Name+" belongs to no Knative Service; the members of a cluster are the pods "+
			"of a Service, so make one", annotations))
	}
	for i, c := range t.Spec.Template.Spec.Containers {
		for j, p := range c.Ports {
			if p.ContainerPort == 0 {
				continue // Serving's default
			}
			if err := v1alpha1.CheckApplicationPort(int(p.ContainerPort)); err != nil {
				errs = errs.Also(wrong(err.Error(), "containerPort").ViaFieldIndex("ports", j).
					ViaFieldIndex("containers", i).ViaField("spec.template.spec"))
			}
		}
	}
	return errs
}

func wrong(details, path string) *apis.FieldError {
	return &apis.FieldError{Message: "invalid value", Paths: []string{path}, Details: details}
}
