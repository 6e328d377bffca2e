// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"knative.dev/pkg/logging"

	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
)

// begin watches a kind until end is called.
func (w *Watch) begin(ctx context.Context, k *watched, at Target) {
	ctx, stop := context.WithCancel(ctx)
	stopped := make(chan struct{})
	w.mu.Lock()
	k.stop, k.stopped = stop, stopped
	w.mu.Unlock()
	go func() {
		defer close(stopped)
		w.inform(ctx, k, at)
	}()
}

// end stops the watch of a kind. Nothing is announced of its objects after that.
func (w *Watch) end(k *watched) {
	w.mu.Lock()
	stop, stopped := k.stop, k.stopped
	k.stop = nil
	w.mu.Unlock()
	if stop == nil {
		return
	}
	stop()
	<-stopped
	k.Use(nil)
	k.Stop()
}

// inform runs the informer of a kind, and starts the observer when its cache is complete.
func (w *Watch) inform(ctx context.Context, k *watched, at Target) {
	log := logging.FromContext(ctx)
	resource := w.Dynamic.Resource(at.Resource)
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := resource.List(ctx, o)
			w.tried(ctx, k, err)
			return list, err //nolint:wrapcheck // the reflector looks at it
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			i, err := resource.Watch(ctx, o)
			w.tried(ctx, k, err)
			return i, err //nolint:wrapcheck // the reflector looks at it
		},
	}, &unstructured.Unstructured{}, 0, cache.Indexers{})
	if err := informer.SetTransform(Transform(w.Carried, at.Composite)); err != nil {
		log.Errorw("Environments cannot be watched", "kind", k.of, "error", err)
		return
	}
	// tried reports them
	if err := informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {}); err != nil {
		log.Errorw("Environments cannot be watched", "kind", k.of, "error", err)
		return
	}
	registration, err := informer.AddEventHandler(Handler(k.Observer))
	if err != nil {
		log.Errorw("Environments cannot be watched", "kind", k.of, "error", err)
		return
	}
	running := make(chan struct{})
	go func() {
		defer close(running)
		informer.RunWithContext(ctx)
	}()
	defer func() { <-running }()
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return
	}
	k.Use(informer.GetIndexer())
	k.Start()
	log.Infow("Watching environments", "kind", k.of, "version", at.Resource.Version, "objects", len(k.Keys()))
	<-ctx.Done()
}

// Handler passes every update on. It never blocks: it only appends.
func Handler(ob *observer.Observer) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if s, ok := obj.(*stored); ok {
				ob.Update(s.key(), s.part)
			}
		},
		UpdateFunc: func(before, obj any) {
			was, had := before.(*stored)
			s, ok := obj.(*stored)
			if !ok || !had {
				return
			}
			if was.UID != s.UID { // deleted and made again while the watch was interrupted
				ob.Update(s.key(), gone(was, s.part.Version))
			}
			ob.Replace(was.part.Version, s.key(), s.part)
		},
		DeleteFunc: func(obj any) {
			if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = tombstone.Obj
			}
			if s, ok := obj.(*stored); ok {
				ob.Update(s.key(), gone(s, s.part.Version))
			}
		},
	}
}

func gone(s *stored, version string) observer.Part {
	p := s.part
	p.Value, p.Version = nil, version
	return p
}
