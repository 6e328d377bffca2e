// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
)

// Change is a change of an object: Old is nil for a new one, and New for one that is gone.
type Change struct{ Old, New any }

// A Feed watches the objects of one kind.
type Feed struct {
	informer  cache.SharedIndexInformer
	of        schema.GroupVersionResource
	namespace string
	try       func(context.Context) error
}

// LedgerFeed watches the CDEventSubjects.
func (r *Reader) LedgerFeed() *Feed {
	return &Feed{
		client.NewSubjectInformer(r.Events, r.System, 0, nil),
		v1alpha1.SubjectResource,
		r.System,
		func(ctx context.Context) error {
			_, err := r.Events.CDEventSubjects(r.System).List(ctx, metav1.ListOptions{Limit: 1})
			return explain(err, "list", v1alpha1.SubjectResource, r.System)
		},
	}
}

// SourceFeed watches the CDEventSources of a namespace, or of all.
func (r *Reader) SourceFeed(namespace string) *Feed {
	return &Feed{
		client.NewSourceInformer(r.Events, namespace, 0, nil),
		v1alpha1.SourceResource,
		namespace,
		func(ctx context.Context) error {
			_, err := r.Events.CDEventSources(namespace).List(ctx, metav1.ListOptions{Limit: 1})
			return explain(err, "list", v1alpha1.SourceResource, namespace)
		},
	}
}

// GateFeed watches the CanaryGates of a namespace, or of all.
func (r *Reader) GateFeed(namespace string) *Feed {
	return &Feed{
		client.NewGateInformer(r.Events, namespace, 0, nil),
		v1alpha1.GateResource,
		namespace,
		func(ctx context.Context) error {
			_, err := r.Events.CanaryGates(namespace).List(ctx, metav1.ListOptions{Limit: 1})
			return explain(err, "list", v1alpha1.GateResource, namespace)
		},
	}
}

// ServiceFeed watches the Knative Services of a namespace, or of all.
func (r *Reader) ServiceFeed(namespace string) *Feed {
	api := r.Serving.Services(namespace)
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return api.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return api.Watch(ctx, o)
		},
	}, &servingv1.Service{}, 0, cache.Indexers{})
	return &Feed{informer, services, namespace, func(ctx context.Context) error {
		_, err := api.List(ctx, metav1.ListOptions{Limit: 1})
		return explain(err, "list", services, namespace)
	}}
}

// Run calls changed for each change from now on, and trouble when the API server does not answer, until
// ctx is done. It returns at once if the user may not read the kind, or when the present objects are known.
func (f *Feed) Run(ctx context.Context, changed func(Change), trouble func(error)) error {
	if err := f.try(ctx); err != nil {
		return err
	}
	err := f.informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *cache.Reflector, err error) {
		if ctx.Err() == nil {
			trouble(err)
		}
	})
	if err != nil {
		return fmt.Errorf("watching: %w", err)
	}
	_, err = f.informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			if !initial {
				changed(Change{New: obj})
			}
		},
		UpdateFunc: func(before, after any) { changed(Change{Old: before, New: after}) },
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			changed(Change{Old: obj})
		},
	})
	if err != nil {
		return fmt.Errorf("watching: %w", err)
	}
	go f.informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), f.informer.HasSynced) {
		return fmt.Errorf("reading what is there: %w", ctx.Err())
	}
	return nil
}
