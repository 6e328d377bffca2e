// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// dynamicAPI answers the live requests for the whole of what is beneath environments.
type dynamicAPI struct {
	w *world
	dynamic.NamespaceableResourceInterface
	resource schema.GroupVersionResource
}

// Resource implements dynamic.Interface.
func (a dynamicAPI) Resource(of schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	a.resource = of
	return a
}

// Namespace implements dynamic.NamespaceableResourceInterface.
func (a dynamicAPI) Namespace(string) dynamic.ResourceInterface { return a }

// Get implements dynamic.ResourceInterface.
func (a dynamicAPI) Get(ctx context.Context, name string, o metav1.GetOptions, _ ...string) (*unstructured.Unstructured, error) {
	m, err := metadataAPI{w: a.w, resource: a.resource}.Get(ctx, name, o)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{}
	u.SetName(m.Name)
	return u, nil
}
