// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/metadata"
	"knative.dev/pkg/apis"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/webhook/resourcesemantics"

	"github.com/knative-cdevents/knative-cdevents/api/tolerant"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/route"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/transports"
	"github.com/knative-cdevents/knative-cdevents/reconciler/source"
	"github.com/knative-cdevents/knative-cdevents/reconciler/source/valid"
)

// admitted is a CDEventSource under admission. It is validated on writes, and never
// defaulted or changed.
type admitted struct {
	v1alpha1.CDEventSource
	// system is the namespace whose sources may select other namespaces.
	system string
	// full reports whether a namespace already has the maximum number of sources.
	full func(ctx context.Context, namespace string) (bool, error)
	// budget limits what checking the sources of a namespace may cost.
	budget *source.Budget
}

var (
	_ resourcesemantics.GenericCRD         = (*admitted)(nil)
	_ resourcesemantics.VerbLimited        = (*admitted)(nil)
	_ resourcesemantics.SubResourceLimited = (*admitted)(nil)
)

// SetDefaults implements apis.Defaultable. Only the controller applies defaults.
func (*admitted) SetDefaults(context.Context) {}

// SupportedVerbs implements resourcesemantics.VerbLimited.
func (*admitted) SupportedVerbs() []admissionregistrationv1.OperationType {
	return []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update}
}

// SupportedSubResources implements resourcesemantics.SubResourceLimited: the
// controller's status updates are not validated.
func (*admitted) SupportedSubResources() []string { return []string{""} }

// DeepCopyObject implements runtime.Object.
func (a *admitted) DeepCopyObject() runtime.Object {
	return &admitted{CDEventSource: *a.DeepCopy(), system: a.system, full: a.full, budget: a.budget}
}

// Validate implements apis.Validatable. An unchanged spec stays admitted even if it
// is no longer valid, so that labels and finalizers can still be changed.
func (a *admitted) Validate(ctx context.Context) *apis.FieldError {
	if before, ok := apis.GetBaseline(ctx).(*admitted); ok && same(before.Spec, a.Spec, before.Unread, a.Unread) {
		return nil
	}
	if err := a.budget.Spend(&a.CDEventSource); err != nil {
		return err
	}
	if err := valid.Check(&a.CDEventSource, a.system, transports.Schemes); err != nil {
		return err
	}
	return a.tooMany(ctx)
}

// tooMany refuses a new source in a namespace that already has the maximum.
func (a *admitted) tooMany(ctx context.Context) *apis.FieldError {
	if !apis.IsInCreate(ctx) || a.Namespace == a.system {
		return nil
	}
	full, err := a.full(ctx, a.Namespace)
	if err != nil {
		// Admit it: the controller enforces the limit too, and reports it in the condition.
		logging.FromContext(ctx).Warnw("Could not count the sources of a namespace; the new source is admitted", "namespace",
			a.Namespace, "error", err)
	}
	if !full {
		return nil
	}
	return &apis.FieldError{
		Message: "invalid value", Paths: []string{"metadata.namespace"},
		Details: valid.TooMany(a.Namespace, a.system).Error(),
	}
}

// same reports whether two specs are equal, including their unreadable fields.
func same(was, is any, wasUnread, isUnread []tolerant.FieldError) bool {
	return equality.Semantic.DeepEqual(was, is) && slices.Equal(wasUnread, isUnread)
}

// countSources returns a function that asks the API server whether a namespace is full.
func countSources(client metadata.Interface) func(context.Context, string) (bool, error) {
	return func(ctx context.Context, namespace string) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, countFor)
		defer cancel()
		got, err := client.Resource(v1alpha1.SourceResource).Namespace(namespace).List(ctx,
			metav1.ListOptions{Limit: route.MaxSources})
		if err != nil {
			return false, fmt.Errorf("listing the CDEventSources of namespace %s: %w", namespace, err)
		}
		return len(got.Items) >= route.MaxSources, nil
	}
}

// countFor bounds the request that counts sources. The API server waits ten seconds
// for the webhook.
const countFor = 2 * time.Second
