package client

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
