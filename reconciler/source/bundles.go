// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"knative.dev/pkg/logging"
)

// Truster keeps trusted certificates. trust.Trust implements it.
type Truster interface {
	Add(bundle *corev1.ConfigMap) error
	Remove(bundle *corev1.ConfigMap)
}

// TrustChanged is notified when a sink may have become trusted: its events need not wait longer.
type TrustChanged interface {
	TrustChanged()
}

// TrustBundles keeps the trusted certificates current, from ConfigMaps with bundles.
func TrustBundles(ctx context.Context, to Truster, changed TrustChanged) cache.ResourceEventHandler {
	trust := func(obj any) {
		bundle, ok := obj.(*corev1.ConfigMap)
		if !ok {
			return
		}
		if err := to.Add(bundle); err != nil {
			logging.FromContext(ctx).Errorw("A trust bundle is ignored, and its former content stays trusted", "error", err)
			return
		}
		changed.TrustChanged()
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    trust,
		UpdateFunc: func(_, obj any) { trust(obj) },
		DeleteFunc: func(obj any) {
			if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = tombstone.Obj
			}
			if bundle, ok := obj.(*corev1.ConfigMap); ok {
				to.Remove(bundle)
			}
		},
	}
}
