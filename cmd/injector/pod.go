// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"knative.dev/pkg/apis"
	"knative.dev/pkg/apis/duck"
	"knative.dev/pkg/webhook/resourcesemantics"

	"github.com/knative-cdevents/knative-cdevents/reconciler/sidecar"
)

var podKind = corev1.SchemeGroupVersion.WithKind("Pod")

// admittedPod is a pod as the API server sent it. The library does not change it; without such a type, it would add
// annotations about users to all that a callback changes.
type admittedPod struct{ unstructured.Unstructured }

var _ resourcesemantics.GenericCRD = (*admittedPod)(nil)

// DeepCopyObject implements runtime.Object.
func (p *admittedPod) DeepCopyObject() runtime.Object {
	return &admittedPod{Unstructured: unstructured.Unstructured{Object: runtime.DeepCopyJSON(p.Object)}}
}

// SetDefaults implements apis.Defaultable.
func (*admittedPod) SetDefaults(context.Context) {}

// Validate implements apis.Validatable.
func (*admittedPod) Validate(context.Context) *apis.FieldError { return nil }

// injectInto returns what is done to each pod that the API server asks about. Fields that this version of the API does
// not know stay as they are.
func injectInto(
	settings func(context.Context, *corev1.Pod) (sidecar.Settings, error),
) func(context.Context, *unstructured.Unstructured) error {
	return func(ctx context.Context, u *unstructured.Unstructured) error {
		var before corev1.Pod
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &before); err != nil {
			return fmt.Errorf("reading the pod: %w", err)
		}
		s, err := settings(ctx, &before)
		if err != nil {
			return err
		}
		after := before.DeepCopy()
		if err := sidecar.Inject(after, s); err != nil {
			return err //nolint:wrapcheck // the user sees it, and it is complete
		}
		difference, err := duck.CreateBytePatch(&before, after)
		if err != nil {
			return fmt.Errorf("comparing the pod: %w", err)
		}
		patch, err := jsonpatch.DecodePatch(difference)
		if err != nil {
			return fmt.Errorf("reading what changes in the pod: %w", err)
		}
		was, err := u.MarshalJSON()
		if err != nil {
			return fmt.Errorf("writing the pod: %w", err)
		}
		is, err := patch.Apply(was)
		if err != nil {
			return fmt.Errorf("changing the pod: %w", err)
		}
		if err := u.UnmarshalJSON(is); err != nil {
			return fmt.Errorf("reading the changed pod: %w", err)
		}
		return nil
	}
}
