// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// NewSourceInformer caches the CDEventSources of ns, or of all namespaces.
func NewSourceInformer(
	cs *Clientset,
	ns string,
	resync time.Duration,
	indexers cache.Indexers,
) cache.SharedIndexInformer {
	return newInformer(cs.CDEventSources(ns), &v1alpha1.CDEventSource{}, resync, indexers)
}

// NewSubjectInformer caches the CDEventSubjects of ns, or of all namespaces.
func NewSubjectInformer(
	cs *Clientset,
	ns string,
	resync time.Duration,
	indexers cache.Indexers,
) cache.SharedIndexInformer {
	return newInformer(cs.CDEventSubjects(ns), &v1alpha1.CDEventSubject{}, resync, indexers)
}

// NewGateInformer caches the CanaryGates of ns, or of all namespaces.
func NewGateInformer(
	cs *Clientset,
	ns string,
	resync time.Duration,
	indexers cache.Indexers,
) cache.SharedIndexInformer {
	return newInformer(cs.CanaryGates(ns), &v1alpha1.CanaryGate{}, resync, indexers)
}

// NewTemplateInformer caches the ClusterCanaryGateTemplates.
func NewTemplateInformer(cs *Clientset, resync time.Duration) cache.SharedIndexInformer {
	return newInformer(cs.ClusterCanaryGateTemplates(), &v1alpha1.ClusterCanaryGateTemplate{}, resync, cache.Indexers{})
}

// NewPlacementInformer caches the ShardPlacements of ns, or of all namespaces.
func NewPlacementInformer(
	cs *Clientset,
	ns string,
	resync time.Duration,
	indexers cache.Indexers,
) cache.SharedIndexInformer {
	return newInformer(cs.ShardPlacements(ns), &v1alpha1.ShardPlacement{}, resync, indexers)
}

func withoutManagedFields(obj any) (any, error) {
	if o, ok := obj.(metav1.Object); ok {
		o.SetManagedFields(nil)
	}
	return obj, nil
}

type listWatcher[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

func newInformer[L runtime.Object](
	lw listWatcher[L],
	example runtime.Object,
	resync time.Duration,
	indexers cache.Indexers,
) cache.SharedIndexInformer {
	if indexers == nil {
		indexers = cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	}
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			return lw.List(ctx, opts)
		},
		WatchFuncWithContext: lw.Watch,
	}, example, resync, indexers)
	// Managed fields are never read. SetTransform fails only for an informer that is already
	// running.
	if err := informer.SetTransform(withoutManagedFields); err != nil {
		panic(err)
	}
	return informer
}
