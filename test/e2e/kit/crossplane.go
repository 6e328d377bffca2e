// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// crossplaneKinds are the composites that the tests use, with their claims and compositions.
//
//go:embed crossplane/kinds.yaml
var crossplaneKinds string

const platformGroup = "platform.example.com"

func crossplaneKind(group, version, plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: plural}
}

// The kinds of clusters that Crossplane provisions in the tests, and the resources that they consist of.
var (
	ClusterClaims       = crossplaneKind(platformGroup, "v1alpha1", "clusterclaims")
	CompositeClusters   = crossplaneKind(platformGroup, "v1alpha1", "compositeclusters")
	TeamClusters        = crossplaneKind(platformGroup, "v1alpha1", "teamclusters")
	FleetClusters       = crossplaneKind(platformGroup, "v1alpha1", "fleetclusters")
	NopResources        = crossplaneKind("nop.crossplane.io", "v1alpha1", "nopresources")
	ClusterNopResources = crossplaneKind("nop.crossplane.io", "v1alpha1", "clusternopresources")
)

var (
	xrds = crossplaneKind("apiextensions.crossplane.io", "v2", "compositeresourcedefinitions")
	crds = crossplaneKind("apiextensions.k8s.io", "v1", "customresourcedefinitions")
)

// InstallCrossplane installs Crossplane on the cluster made by test/cluster.
func (k Environments) InstallCrossplane(ctx context.Context) error {
	return k.cluster(ctx, "up", "--with", "crossplane")
}

// RemoveCrossplane removes it, with all objects of its kinds.
func (k Environments) RemoveCrossplane(ctx context.Context) error {
	return k.cluster(ctx, "remove", "crossplane")
}

// HasCrossplane reports whether Crossplane is installed.
func (k Environments) HasCrossplane(ctx context.Context) (bool, error) {
	_, err := k.Dynamic.Resource(crds).Get(ctx, xrds.GroupResource().String(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for Crossplane: %w", err)
	}
	return true, nil
}

// EnvironmentLabel chooses kinds of environments, if it is "true" on their definitions.
const EnvironmentLabel = "knative-cdevents.dev/watch-environment"

// LabelCRDs sets a label on the definitions of kinds. An empty value removes it; definitions that do not exist any more
// have none.
func (k *Kit) LabelCRDs(ctx context.Context, key, value string, of ...schema.GroupVersionResource) error {
	var v any
	if value != "" {
		v = value
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{key: v}}})
	if err != nil {
		return fmt.Errorf("encoding the label %s: %w", key, err)
	}
	for _, r := range of {
		if err := k.Merge(ctx, crds, "", r.GroupResource().String(), string(patch)); err != nil && (value != "" || !apierrors.IsNotFound(err)) {
			return err
		}
	}
	return nil
}

// InstallCrossplaneKinds installs the composites of the tests, and waits until they can be created.
func (k Environments) InstallCrossplaneKinds(ctx context.Context) error {
	if err := k.Apply(ctx, "default", crossplaneKinds); err != nil {
		return err
	}
	for _, r := range []schema.GroupVersionResource{CompositeClusters, TeamClusters, FleetClusters} {
		name := r.GroupResource().String()
		err := Wait(ctx, patience, "the definition "+name, func(ctx context.Context) error {
			o, err := k.Dynamic.Resource(xrds).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if got := ConditionOf(o, "Established"); got != "True" {
				return NotYet("Established is %q", got)
			}
			_, err = k.Dynamic.Resource(r).List(ctx, metav1.ListOptions{})
			if apierrors.IsNotFound(err) {
				return NotYet("the kind is not served")
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// RemoveCrossplaneKinds removes the composites of the tests, and before them all objects of these kinds: Crossplane
// does not remove the definition of a namespaced composite as long as there is one.
func (k Environments) RemoveCrossplaneKinds(ctx context.Context) error {
	for _, r := range []schema.GroupVersionResource{ClusterClaims, CompositeClusters, TeamClusters, FleetClusters} {
		err := Wait(ctx, patience, "the end of all "+r.Resource, func(ctx context.Context) error {
			list, err := k.Dynamic.Resource(r).List(ctx, metav1.ListOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			if err != nil {
				return err
			}
			for _, o := range list.Items {
				err := k.Dynamic.Resource(r).Namespace(o.GetNamespace()).Delete(ctx, o.GetName(), metav1.DeleteOptions{})
				if err != nil && !apierrors.IsNotFound(err) {
					return err
				}
			}
			if len(list.Items) > 0 {
				return NotYet("%d still exist", len(list.Items))
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if err := k.Unapply(ctx, "default", crossplaneKinds); err != nil {
		return err
	}
	for _, r := range []schema.GroupVersionResource{ClusterClaims, CompositeClusters, TeamClusters, FleetClusters} {
		name := r.GroupResource().String()
		err := Wait(ctx, patience, "the end of "+name, func(ctx context.Context) error {
			_, err := k.Dynamic.Resource(crds).Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			if err != nil {
				return err
			}
			return NotYet("the CRD still exists")
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ConditionSince returns when an object's condition got its status; the zero time if it has none of that type.
func ConditionSince(o *unstructured.Unstructured, kind string) time.Time {
	at, err := time.Parse(time.RFC3339, conditionField(o, kind, "lastTransitionTime"))
	if err != nil {
		return time.Time{}
	}
	return at
}

// ConditionOf returns the status of an object's condition; "" if it has none of that type.
func ConditionOf(o *unstructured.Unstructured, kind string) string {
	return conditionField(o, kind, "status")
}

func conditionField(o *unstructured.Unstructured, kind, field string) string {
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions") // absent or strange: none
	for _, c := range all {
		if c, ok := c.(map[string]any); ok && c["type"] == kind {
			return fmt.Sprint(c[field])
		}
	}
	return ""
}

// NewObject returns an object of one of the kinds above. Namespace is empty for kinds without one.
func NewObject(of schema.GroupVersionResource, kind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetGroupVersionKind(of.GroupVersion().WithKind(kind))
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

// WaitCondition waits until a condition has that status.
func (k *Kit) WaitCondition(ctx context.Context, of schema.GroupVersionResource, namespace, name, kind, status string, atMost time.Duration) error {
	return Wait(ctx, atMost, fmt.Sprintf("%s %s to have %s=%s", of.Resource, name, kind, status), func(ctx context.Context) error {
		o, err := k.Dynamic.Resource(of).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got := ConditionOf(o, kind); got != status {
			conditions, _, _ := unstructured.NestedFieldNoCopy(o.Object, "status", "conditions") // only for the message
			return NotYet("it is %q; %v", got, conditions)
		}
		return nil
	})
}

// Merge changes an object by a merge patch.
func (k *Kit) Merge(ctx context.Context, of schema.GroupVersionResource, namespace, name, patch string) error {
	if _, err := k.Dynamic.Resource(of).Namespace(namespace).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("changing %s %s: %w", of.Resource, name, err)
	}
	return nil
}

// Composed returns the resources that a composite of that name consists of.
func (k Environments) Composed(ctx context.Context, of schema.GroupVersionResource, namespace, composite string) ([]unstructured.Unstructured, error) {
	list, err := k.Dynamic.Resource(of).Namespace(namespace).List(ctx, metav1.ListOptions{LabelSelector: "crossplane.io/composite=" + composite})
	if err != nil {
		return nil, fmt.Errorf("listing the resources of %s: %w", composite, err)
	}
	return list.Items, nil
}

// WaitGone waits until an object does not exist any more.
func (k *Kit) WaitGone(ctx context.Context, of schema.GroupVersionResource, namespace, name string, atMost time.Duration) error {
	return Wait(ctx, atMost, fmt.Sprintf("the end of %s %s", of.Resource, name), func(ctx context.Context) error {
		_, err := k.Dynamic.Resource(of).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
			return nil
		case err != nil:
			return err
		}
		return NotYet("it still exists")
	})
}
