// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
)

// passing are kinds whose objects are created and deleted all the time.
var passing = []string{
	"events", "leases", "endpoints", "endpointslices", "pods", "replicasets", "ipaddresses", "componentstatuses",
}

// inventory has all objects in the cluster, by resource, namespace and name, but those of passing kinds.
type inventory map[string]thing

// thing is what tells two objects of one name apart: its UID, and a hash of what its owners wrote.
type thing struct {
	uid types.UID
	sum string
}

func takeInventory(ctx context.Context) (inventory, error) {
	all := inventory{}
	// The error lists groups whose server is down; none of them matters here.
	lists, err := suite.Kube.Discovery().ServerPreferredResources()
	var partly *discovery.ErrGroupDiscoveryFailed
	if err != nil && !errors.As(err, &partly) {
		return nil, fmt.Errorf("discovering kinds: %w", err)
	}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, fmt.Errorf("parsing discovered kinds: %w", err)
		}
		for _, r := range list.APIResources {
			if !slices.Contains(r.Verbs, "list") || slices.Contains(passing, r.Name) {
				continue
			}
			items, err := suite.Dynamic.Resource(gv.WithResource(r.Name)).List(ctx, metav1.ListOptions{})
			if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
				continue // a CRD that is being deleted
			}
			if err != nil {
				return nil, fmt.Errorf("listing %s: %w", r.Name, err)
			}
			for i := range items.Items {
				o := &items.Items[i]
				all[objectName(r.Name, gv.Group, o.GetNamespace(), o.GetName())] = thing{o.GetUID(), written(o)}
			}
		}
	}
	return all, nil
}

func objectName(resource, group, namespace, name string) string {
	return fmt.Sprintf("%s.%s %s/%s", resource, group, namespace, name)
}

// written returns a hash of what the owners of an object wrote, without what the API server counts and its status.
func written(o *unstructured.Unstructured) string {
	delete(o.Object, "status")
	for _, field := range []string{"managedFields", "resourceVersion", "generation"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(compact(o.Object))))
}

// changes lists what differs from an earlier inventory.
func (i inventory) changes(before inventory) []string {
	var out []string
	for name, now := range i {
		switch was, existed := before[name]; {
		case !existed:
			out = append(out, "left "+name)
		case was.uid != now.uid:
			out = append(out, "replaced "+name)
		case was.sum != now.sum:
			out = append(out, "changed "+name)
		}
	}
	for name := range before {
		if _, exists := i[name]; !exists {
			out = append(out, "deleted "+name)
		}
	}
	slices.Sort(out)
	return out
}
