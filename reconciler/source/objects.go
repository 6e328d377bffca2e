// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
)

// reference locates an object, which may not exist.
type reference struct {
	resource        schema.GroupVersionResource
	kind            schema.GroupVersionKind
	namespace, name string
}

// objects reads single objects of any kind and watches each one separately, so that a
// source is reconciled when its sink is created, changed or deleted. Objects that no
// source references cost nothing.
type objects struct {
	ctx     context.Context //nolint:containedctx // the lifetime of all watches, not of one call
	kinds   *kinds
	dynamic dynamic.Interface
	// enqueue is nil if nothing is to be watched.
	enqueue func(types.NamespacedName)

	mu       sync.Mutex
	followed map[reference]*follower
}

func newObjects(
	ctx context.Context, d discovery.ServerResourcesInterface, dyn dynamic.Interface, enqueue func(types.NamespacedName),
) *objects {
	return &objects{ctx: ctx, kinds: newKinds(d), dynamic: dyn, enqueue: enqueue, followed: map[reference]*follower{}}
}

// locate fails with errNoKind if the cluster does not serve the kind, and with
// errNoNamespace if the kind is cluster-scoped.
func (o *objects) locate(kind schema.GroupVersionKind, namespace, name string) (reference, error) {
	at, err := o.kinds.of(kind)
	if err != nil {
		return reference{}, err
	}
	if !at.namespaced {
		return reference{}, errNoNamespace
	}
	return reference{at.resource, kind, namespace, name}, nil
}

// get returns an object and watches it from now on, if anything is to be watched. The caller must not change the
// object.
func (o *objects) get(
	ctx context.Context, source types.NamespacedName, at reference,
) (*unstructured.Unstructured, error) {
	if o.enqueue == nil {
		return o.read(ctx, at)
	}
	watch := o.follow(source, at) //nolint:contextcheck // a watch outlives the call that starts it
	if object, known := watch.cached(); known {
		if object == nil {
			return nil, apierrors.NewNotFound(at.resource.GroupResource(), at.name)
		}
		return object, nil
	}
	// The watch has not synced, or cannot: a GET returns the error.
	return o.read(ctx, at)
}

func (o *objects) read(ctx context.Context, at reference) (*unstructured.Unstructured, error) {
	return o.dynamic.Resource(at.resource).Namespace(at.namespace).Get(ctx, at.name, metav1.GetOptions{})
}

func (o *objects) follow(source types.NamespacedName, at reference) *follower {
	o.mu.Lock()
	defer o.mu.Unlock()
	f := o.followed[at]
	if f == nil {
		f = newFollower(o, at)
		o.followed[at] = f
		go f.run()
	}
	f.sources[source] = true
	return f
}

// keep stops watching for a source everything that is not in used.
func (o *objects) keep(source types.NamespacedName, used map[reference]bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for at, f := range o.followed {
		if used[at] || !f.sources[source] {
			continue
		}
		delete(f.sources, source)
		if len(f.sources) == 0 {
			f.stop()
			delete(o.followed, at)
		}
	}
}

// changed enqueues the sources that reference an object.
func (o *objects) changed(at reference) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if f := o.followed[at]; f != nil {
		for source := range f.sources {
			o.enqueue(source)
		}
	}
}

// gone stops watching objects of a kind that is no longer served. The next get
// discovers whether it is back.
func (o *objects) gone(at reference) {
	o.kinds.forget(at.kind)
	o.changed(at)
	o.mu.Lock()
	defer o.mu.Unlock()
	if f := o.followed[at]; f != nil {
		f.stop()
		delete(o.followed, at)
	}
}
