// SPDX-License-Identifier: Apache-2.0

// Package namespaces caches the labels of namespaces, by which sources select and which name the environment of events.
//
// Its invariant: a namespace that is not cached is read from the API server, because it may be new.
package namespaces

import (
	"context"
	"fmt"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/route"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

var resource = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// readWithin bounds a request for the labels of a namespace.
const readWithin = 10 * time.Second

// Settings are those of the operator.
type Settings interface {
	// Environment is that of namespaces that name none.
	Environment() v1alpha1.Environment
}

// Informer caches the labels of all namespaces.
type Informer struct {
	cache.SharedIndexInformer
	client   metadata.Getter
	settings Settings
}

// New returns an informer that the caller runs.
func New(client metadata.Interface, settings Settings) (*Informer, error) {
	n := &Informer{
		SharedIndexInformer: metadatainformer.NewSharedInformerFactory(client, 0).ForResource(resource).Informer(),
		client:              client.Resource(resource), settings: settings,
	}
	if err := n.SetTransform(labelsOnly); err != nil {
		return nil, fmt.Errorf("setting a transform on the informer for namespaces: %w", err)
	}
	return n, nil
}

// Labels returns the labels of a namespace, false if there is none.
func (n *Informer) Labels(ctx context.Context, name string) (labels map[string]string, exists bool, err error) {
	if labels, ok := n.cached(name); ok {
		return labels, true, nil
	}
	return read(ctx, n.client, name)
}

// Read returns the labels of a namespace as they are now, false if there is none.
func Read(ctx context.Context, client metadata.Interface, name string) (labels map[string]string, exists bool,
	err error,
) {
	return read(ctx, client.Resource(resource), name)
}

func read(ctx context.Context, client metadata.Getter, name string) (map[string]string, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	m, err := client.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("asking the API server for namespace %s: %w", name, err)
	}
	return bounded(m.Labels), true, nil
}

func (n *Informer) cached(name string) (map[string]string, bool) {
	obj, ok, err := n.GetStore().GetByKey(name)
	if m, isMeta := obj.(*metav1.PartialObjectMetadata); err == nil && ok && isMeta {
		return m.Labels, true // bounded by labelsOnly
	}
	return nil, false
}

// EnvironmentOf returns the environment of a namespace, as events without a setting of their source have it. It never
// blocks.
func (n *Informer) EnvironmentOf(namespace string) string {
	if labels, _ := n.cached(namespace); labels[route.EnvironmentLabel] != "" {
		return labels[route.EnvironmentLabel]
	}
	return n.settings.Environment().ID
}

// OnChange has f called with each namespace that is new or has other labels. Call it before the informer runs.
func (n *Informer) OnChange(f func(namespace string)) error {
	if _, err := n.AddEventHandler(changes(f)); err != nil {
		return fmt.Errorf("adding a handler to the informer for namespaces: %w", err)
	}
	return nil
}

func changes(report func(namespace string)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			if m, ok := obj.(*metav1.PartialObjectMetadata); ok && !initial {
				report(m.Name)
			}
		},
		UpdateFunc: func(before, obj any) {
			was, had := before.(*metav1.PartialObjectMetadata)
			is, ok := obj.(*metav1.PartialObjectMetadata)
			if had && ok && !maps.Equal(was.Labels, is.Labels) {
				report(is.Name)
			}
		},
	}
}

// bounded limits the labels of a namespace. It always keeps the one that events show.
func bounded(labels map[string]string) map[string]string {
	return lifecycle.BoundLabels(labels, route.EnvironmentLabel)
}

// labelsOnly reduces a namespace to its labels. It is a cache.TransformFunc.
func labelsOnly(obj any) (any, error) {
	if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion, Labels: bounded(m.Labels),
		}}, nil
	}
	return obj, nil
}
