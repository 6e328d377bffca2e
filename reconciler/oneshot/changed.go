// SPDX-License-Identifier: Apache-2.0

package oneshot

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/serving/pkg/apis/serving"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
)

// Reference names an object. The version of its API does not matter.
type Reference struct{ APIVersion, Kind, Namespace, Name string }

func (r Reference) String() string {
	return r.groupKind().String() + " " + strings.TrimPrefix(r.Namespace+"/"+r.Name, "/")
}

func (r Reference) groupKind() schema.GroupKind {
	return schema.FromAPIVersionAndKind(r.APIVersion, r.Kind).GroupKind()
}

// NotFollowedError says that nothing is ever done about an object.
type NotFollowedError struct {
	Reference Reference
	// Right says what would be right.
	Right string
}

func (e *NotFollowedError) Error() string {
	return fmt.Sprintf("nothing follows from a change of %s; %s", e.Reference, e.Right)
}

// followed are the kinds of objects that a Service may have to be looked at for, or that may be measured.
const followed = "of serving.knative.dev, it must be a Service, Route, Configuration, Revision or DomainMapping, of " +
	v1alpha1.GroupName + " a CDEventSource, CDEventSubject, CanaryGate, CanaryGateRun or ShardPlacement, and otherwise a Namespace or " +
	"a CustomRun of Tekton"

// Changed takes an object that was created, changed or deleted: it processes the Services that the object may be about,
// as it is now, and wakes what measures if it or one of them is to be measured. A Service too many costs a look that
// finds nothing. The error is a *NotFollowedError if the object cannot be about any.
func (c *Core) Changed(ctx context.Context, o Reference) error {
	name := types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
	var find func(context.Context, types.NamespacedName) ([]types.NamespacedName, error)
	switch o.groupKind() {
	case v1alpha1.SourceKind.GroupKind():
		return c.Source(ctx, name)
	case servingv1.Kind("Service"), servingv1.Kind("Route"), servingv1.Kind("Configuration"):
		// Serving gives the Route and the Configuration of a Service its name.
		return c.rung(ctx, name)
	case servingv1.Kind("Revision"):
		find = c.ofRevision
	case servingv1.Kind("DomainMapping"):
		find = c.ofDomainMapping
	case schema.GroupKind{Kind: "Namespace"}:
		find = c.ofNamespace
	case v1alpha1.SubjectKind.GroupKind():
		if o.Namespace != c.SystemNamespace {
			return &NotFollowedError{o, "the ledger is in namespace " + c.SystemNamespace}
		}
		find = c.ofSubject
	default:
		if c.Measuring != nil {
			if is, err := c.Measuring.Object(ctx, o.groupKind(), name); is || err != nil {
				return err //nolint:wrapcheck // complete
			}
		}
		return &NotFollowedError{o, followed}
	}
	keys, err := find(ctx, name)
	if err != nil {
		return fmt.Errorf("looking for the Services that %s is about: %w", o, err)
	}
	return c.visit(ctx, keys, c.rung)
}

// rung processes a Service, and wakes what measures if anything of it is to be measured. That must not wait for sinks
// that do not answer.
func (c *Core) rung(ctx context.Context, service types.NamespacedName) error {
	if c.Measuring == nil {
		return c.swept(ctx, service)
	}
	return parallel(c.Parallel, []func() error{
		func() error { return c.Measuring.Service(ctx, service) },
		func() error { return c.swept(ctx, service) },
	})
}

// ofRevision returns the Service of a Revision.
func (c *Core) ofRevision(ctx context.Context, name types.NamespacedName) ([]types.NamespacedName, error) {
	rev, err := c.Serving.ServingV1().Revisions(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return c.remembering(ctx, name)
	case err != nil:
		return nil, fmt.Errorf("reading it: %w", err)
	}
	service := rev.Labels[serving.ServiceLabelKey]
	if service == "" {
		return nil, nil // nothing is reported of a Revision without a Service
	}
	return []types.NamespacedName{{Namespace: name.Namespace, Name: service}}, nil
}

// ofDomainMapping returns the Service that a DomainMapping points at, and those that it may have pointed at before.
func (c *Core) ofDomainMapping(ctx context.Context, name types.NamespacedName) ([]types.NamespacedName, error) {
	before, err := c.remembering(ctx, name)
	if err != nil {
		return nil, err
	}
	d, err := c.Serving.ServingV1beta1().DomainMappings(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return before, nil
	case err != nil:
		return nil, fmt.Errorf("reading it: %w", err)
	}
	now := types.NamespacedName{Namespace: name.Namespace, Name: d.Spec.Ref.Name}
	ref := schema.FromAPIVersionAndKind(d.Spec.Ref.APIVersion, d.Spec.Ref.Kind).GroupKind()
	if ref != servingv1.Kind("Service") || slices.Contains(before, now) {
		return before, nil
	}
	return append(before, now), nil
}

// remembering returns the Services of whose memory in the ledger something contains the name of an object: a Revision
// that was known, or the URL of a DomainMapping that was published. About any other Service, there is nothing to report
// when that object is gone. It costs a list of the entries of the namespace, of some KiB each.
func (c *Core) remembering(ctx context.Context, object types.NamespacedName) ([]types.NamespacedName, error) {
	return c.entered(ctx, object.Namespace, func(e *v1alpha1.CDEventSubject) bool {
		return strings.Contains(e.Status.Memory, object.Name)
	})
}

// ofNamespace returns the Services of a namespace, and those that only the ledger knows.
func (c *Core) ofNamespace(ctx context.Context, name types.NamespacedName) ([]types.NamespacedName, error) {
	all, err := c.entered(ctx, name.Name, func(*v1alpha1.CDEventSubject) bool { return true })
	if err != nil {
		return nil, err
	}
	keys := map[types.NamespacedName]bool{}
	for _, key := range all {
		keys[key] = true
	}
	err = c.services(ctx, name.Name, func(s *servingv1.Service) bool {
		keys[types.NamespacedName{Namespace: s.Namespace, Name: s.Name}] = true
		return true
	})
	return inOrder(keys), err
}

// ofSubject returns the Service of an entry of the ledger: one that is due, or is to be forgotten. One that is gone, a
// user has deleted, so that its Service is announced anew, or it has ended with its Service. Only its name is left,
// which has the UID. Services cannot be selected by that, so all are listed, until it is found.
func (c *Core) ofSubject(ctx context.Context, name types.NamespacedName) (keys []types.NamespacedName, err error) {
	e, err := c.Subjects.Get(ctx, name.Name, metav1.GetOptions{})
	switch {
	case err == nil:
		key := types.NamespacedName{Namespace: e.Spec.Namespace, Name: e.Spec.Name}
		if ledger.KeyOf(e.Spec) != keyOf(key) {
			return nil, &NotFollowedError{
				Reference{e.Spec.APIVersion, e.Spec.Kind, e.Spec.Namespace, e.Spec.Name},
				"it needs the controller that stays",
			}
		}
		return []types.NamespacedName{key}, nil
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("reading it: %w", err)
	}
	err = c.services(ctx, metav1.NamespaceAll, func(s *servingv1.Service) bool {
		if (v1alpha1.CDEventSubjectSpec{Kind: "Service", UID: s.UID}).ObjectName() == name.Name {
			keys = append(keys, types.NamespacedName{Namespace: s.Namespace, Name: s.Name})
		}
		return len(keys) == 0
	})
	return keys, err
}

// services calls a function for the Services of a namespace, or of all, until it returns false.
func (c *Core) services(ctx context.Context, namespace string, each func(*servingv1.Service) bool) error {
	return pages(func(opts metav1.ListOptions) (metav1.ListInterface, error) {
		list, err := c.Serving.ServingV1().Services(namespace).List(ctx, opts)
		if err != nil {
			_, err := missing(err)
			return &metav1.ListMeta{}, err
		}
		for i := range list.Items {
			if !each(&list.Items[i]) {
				return &metav1.ListMeta{}, nil
			}
		}
		return list, nil
	})
}

// entered returns the Services of a namespace that have a chosen entry in the ledger.
func (c *Core) entered(ctx context.Context, namespace string, choose func(*v1alpha1.CDEventSubject) bool,
) ([]types.NamespacedName, error) {
	selected := fields.Set{"spec.kind": keyOf(types.NamespacedName{}).Kind, "spec.namespace": namespace}
	keys := map[types.NamespacedName]bool{}
	err := c.entries(ctx, selected.AsSelector().String(), func(e *v1alpha1.CDEventSubject) {
		key := types.NamespacedName{Namespace: namespace, Name: e.Spec.Name}
		if ledger.KeyOf(e.Spec) == keyOf(key) && choose(e) {
			keys[key] = true
		}
	})
	return inOrder(keys), err
}

func inOrder(keys map[types.NamespacedName]bool) []types.NamespacedName {
	return slices.SortedFunc(maps.Keys(keys), func(a, b types.NamespacedName) int {
		return strings.Compare(a.String(), b.String())
	})
}
