// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/knative-cdevents/knative-cdevents/emitter/route"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

var namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// askNamespace bounds a request for the labels of a namespace.
const askNamespace = 10 * time.Second

// namespaceLabels returns the labels of namespaces. It asks the API server for one that is
// not cached: it may be new, with the Service in it.
type namespaceLabels struct {
	cache cache.Store
	live  interface {
		Get(ctx context.Context, name string, opts metav1.GetOptions, subresources ...string) (*metav1.PartialObjectMetadata, error)
	}
}

// of returns the labels of a namespace, false if there is none.
func (n *namespaceLabels) of(ctx context.Context, name string) (labels map[string]string, exists bool, err error) {
	obj, ok, err := n.cache.GetByKey(name)
	if m, isMeta := obj.(*metav1.PartialObjectMetadata); err == nil && ok && isMeta {
		return m.Labels, true, nil // bounded by labelsOnly
	}
	ctx, cancel := context.WithTimeout(ctx, askNamespace)
	defer cancel()
	m, err := n.live.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("asking the API server for namespace %s: %w", name, err)
	}
	return remembered(m.Labels), true, nil
}

// changes reports namespaces that are new or have other labels.
func (*namespaceLabels) changes(report func(namespace string)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			if !initial {
				with(obj, func(m *metav1.PartialObjectMetadata) { report(m.Name) })
			}
		},
		UpdateFunc: func(before, obj any) {
			withBoth(before, obj, func(was, is *metav1.PartialObjectMetadata) {
				if !maps.Equal(was.Labels, is.Labels) {
					report(is.Name)
				}
			})
		},
	}
}

// remembered bounds the labels of a namespace. It always keeps the one that events show.
func remembered(labels map[string]string) map[string]string {
	return lifecycle.BoundLabels(labels, route.EnvironmentLabel)
}

// labelsOnly reduces a namespace to its labels.
func labelsOnly(obj any) (any, error) {
	if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion, Labels: remembered(m.Labels),
		}}, nil
	}
	return obj, nil
}
