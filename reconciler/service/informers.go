// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"fmt"
	"hash/fnv"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"knative.dev/pkg/logging"
	"knative.dev/serving/pkg/client/informers/externalversions"

	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
)

// watch runs informers until the context ends, and starts the observer when their caches are
// complete. The informers are not injected: injection waits for all of them, so the
// controller would never start on a cluster without Serving.
func (k *Kind) watch(ctx context.Context, ob *observer.Observer, changed func(types.NamespacedName)) error {
	factory := externalversions.NewSharedInformerFactoryWithOptions(k.client, 0, externalversions.WithTransform(k.Project))
	v1 := factory.Serving().V1()
	informers := []cache.SharedIndexInformer{
		v1.Services().Informer(), v1.Routes().Informer(), v1.Revisions().Informer(),
		factory.Serving().V1beta1().DomainMappings().Informer(),
	}

	synced := make([]cache.InformerSynced, 0, len(informers))
	indexers := make([]cache.Indexer, 0, len(informers))
	for _, informer := range informers {
		if err := informer.AddIndexers(Indexers()); err != nil {
			return fmt.Errorf("adding an index: %w", err)
		}
		registration, err := informer.AddEventHandler(handler(ob, changed))
		if err != nil {
			return fmt.Errorf("adding a handler: %w", err)
		}
		// Not the informer's own HasSynced: it does not wait for the handlers, and the first
		// list must not look like updates.
		synced = append(synced, registration.HasSynced)
		indexers = append(indexers, informer.GetIndexer())
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil // the kind went away again, or the process is stopping
	}
	position := newPosition(informers[len(informers)-1].LastSyncResourceVersion)
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(arrives): // by then, the cache has what was read until now
	}
	k.Use(indexers, position.get)
	ob.Start()
	logging.FromContext(ctx).Infow("The caches of Knative Serving are complete", "services", len(k.Keys()))
	<-ctx.Done()
	return nil
}

func rootIndex(obj any) ([]string, error) {
	if s, ok := obj.(*stored); ok && s.service != "" && !s.named() {
		return []string{indexValueOf(s.root())}, nil
	}
	return nil, nil
}

// indexValues are what the objects of Services are indexed by: an index keeps a map for each value, which takes more
// room than the few objects of one Service. With a hundred thousand Revisions, a value has a hundred.
var indexValues = func() (all [1024]string) {
	for i := range all {
		all[i] = strconv.Itoa(i)
	}
	return all
}()

// indexValueOf returns the value for what belongs to a Service, and to others.
func indexValueOf(service types.NamespacedName) string {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(service.String())) // it never fails
	return indexValues[hash.Sum32()%uint32(len(indexValues))]
}

// named reports whether the object has the key of its Service, so that no index is needed to find it.
func (s *stored) named() bool { return s.service == s.name }

func declarationIndex(obj any) ([]string, error) {
	if s, ok := obj.(*stored); ok && s.service != "" && s.declares {
		return []string{s.root().String()}, nil
	}
	return nil, nil
}

// Handler passes every update on. It never blocks: it only appends.
func Handler(ob *observer.Observer) cache.ResourceEventHandler {
	return handler(ob, func(types.NamespacedName) {})
}

// handler also calls changed with each Service that gains or loses a part.
func handler(ob *observer.Observer, changed func(types.NamespacedName)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if s, ok := obj.(*stored); ok && s.service != "" {
				ob.Update(s.root(), s.part)
				changed(s.root())
			}
		},
		UpdateFunc: func(before, obj any) {
			was, had := before.(*stored)
			s, ok := obj.(*stored)
			if !ok || !had {
				return
			}
			if was.root() != s.root() {
				moved(ob, was, s.part.Version) // a DomainMapping now refers to another Service
				changed(was.root())
				changed(s.root())
			}
			if s.service != "" {
				ob.Replace(was.part.Version, s.root(), s.part)
			}
		},
		DeleteFunc: func(obj any) {
			if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = tombstone.Obj
			}
			if s, ok := obj.(*stored); ok {
				moved(ob, s, s.part.Version)
				changed(s.root())
			}
		},
	}
}

// moved reports that an object no longer belongs to its root.
func moved(ob *observer.Observer, s *stored, version string) {
	if s.service == "" {
		return
	}
	gone := s.part
	gone.Value, gone.Version = nil, version
	ob.Update(s.root(), gone)
}
