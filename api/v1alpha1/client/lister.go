// SPDX-License-Identifier: Apache-2.0

package client

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/listers"
	"k8s.io/client-go/tools/cache"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// Lister reads from an informer's cache. Its results are shared and must not be modified.
type Lister[T runtime.Object] struct {
	listers.ResourceIndexer[T]
	indexer  cache.Indexer
	resource schema.GroupResource
}

// SourceLister reads CDEventSources.
type SourceLister = Lister[*v1alpha1.CDEventSource]

// GateLister reads CanaryGates.
type GateLister = Lister[*v1alpha1.CanaryGate]

// NewSourceLister reads from the indexer of an informer for CDEventSources.
func NewSourceLister(indexer cache.Indexer) SourceLister {
	return newLister[*v1alpha1.CDEventSource](indexer, v1alpha1.SourceResource.GroupResource())
}

// NewGateLister reads from the indexer of an informer for CanaryGates.
func NewGateLister(indexer cache.Indexer) GateLister {
	return newLister[*v1alpha1.CanaryGate](indexer, v1alpha1.GateResource.GroupResource())
}

func newLister[T runtime.Object](indexer cache.Indexer, resource schema.GroupResource) Lister[T] {
	return Lister[T]{ResourceIndexer: listers.New[T](indexer, resource), indexer: indexer, resource: resource}
}

// Namespaced returns a lister for one namespace.
func (l Lister[T]) Namespaced(ns string) listers.ResourceIndexer[T] {
	return listers.NewNamespaced(listers.New[T](l.indexer, l.resource), ns)
}

// byUID is the index of objects by UID.
const byUID = "uid"

// SourceIndexers are the indexes that SourcesOf and SourceByUID look into.
func SourceIndexers() cache.Indexers {
	return cache.Indexers{
		cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
		byUID: func(obj any) ([]string, error) {
			o, err := meta.Accessor(obj)
			if err != nil {
				return nil, fmt.Errorf("indexing by UID: %w", err)
			}
			return []string{string(o.GetUID())}, nil
		},
	}
}

// SourcesOf lists the CDEventSources of a namespace, at a cost that does not depend on other namespaces.
func SourcesOf(indexer cache.Indexer, namespace string) []*v1alpha1.CDEventSource {
	return indexedSources(indexer, cache.NamespaceIndex, namespace)
}

// SourceByUID returns a CDEventSource, nil if there is none.
func SourceByUID(indexer cache.Indexer, uid types.UID) *v1alpha1.CDEventSource {
	for _, s := range indexedSources(indexer, byUID, string(uid)) {
		return s
	}
	return nil
}

func indexedSources(indexer cache.Indexer, index, value string) []*v1alpha1.CDEventSource {
	found, err := indexer.ByIndex(index, value)
	if err != nil {
		return nil // the indexer has both indexes
	}
	out := make([]*v1alpha1.CDEventSource, 0, len(found))
	for _, obj := range found {
		if s, ok := obj.(*v1alpha1.CDEventSource); ok {
			out = append(out, s)
		}
	}
	return out
}
