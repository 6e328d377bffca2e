// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
)

// follower watches one object for the sources that reference it.
type follower struct {
	at       reference
	informer cache.SharedIndexInformer
	run      func()
	stop     func()
	// sources is guarded by the mutex of objects.
	sources map[types.NamespacedName]bool
}

func newFollower(o *objects, at reference) *follower {
	ctx, cancel := context.WithCancel(o.ctx)
	informer := dynamicinformer.NewFilteredDynamicInformer(o.dynamic, at.resource, at.namespace, 0, cache.Indexers{},
		func(opts *metav1.ListOptions) {
			opts.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, at.name).String()
		}).Informer()
	f := &follower{
		at: at, informer: informer, stop: cancel, sources: map[types.NamespacedName]bool{},
		run: func() { informer.RunWithContext(ctx) },
	}
	// These three cannot fail before the informer is started.
	_ = informer.SetTransform(onlyStatus)
	_ = informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		switch {
		case apierrors.IsNotFound(err):
			o.gone(at)
		case apierrors.IsForbidden(err):
			// Reported once, in the conditions of the sources that reference it.
		default:
			cache.DefaultWatchErrorHandler(ctx, r, err)
		}
	})
	notify := func(any) { o.changed(at) }
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: notify, DeleteFunc: notify,
		UpdateFunc: func(any, any) { o.changed(at) },
	})
	return f
}

// cached returns the object in the cache; nil if it does not exist. known is false
// while the cache is incomplete.
func (f *follower) cached() (object *unstructured.Unstructured, known bool) {
	if !f.informer.HasSynced() {
		return nil, false
	}
	key := f.at.name
	if f.at.namespace != "" {
		key = f.at.namespace + "/" + key
	}
	item, exists, err := f.informer.GetStore().GetByKey(key)
	if err != nil || !exists {
		return nil, err == nil
	}
	object, known = item.(*unstructured.Unstructured)
	return object, known
}

// onlyStatus drops everything that is not used here. It is idempotent, because informers
// may call it more than once for an object.
func onlyStatus(obj any) (any, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	small := &unstructured.Unstructured{Object: map[string]any{}}
	small.SetAPIVersion(u.GetAPIVersion())
	small.SetKind(u.GetKind())
	small.SetNamespace(u.GetNamespace())
	small.SetName(u.GetName())
	small.SetUID(u.GetUID())
	small.SetResourceVersion(u.GetResourceVersion())
	if status, ok := u.Object["status"]; ok {
		small.Object["status"] = status
	}
	return small, nil
}
