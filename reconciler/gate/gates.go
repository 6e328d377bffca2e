// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/logging"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// Gates returns the controller of CanaryGates.
func (g *Gate) Gates(ctx context.Context) *controller.Impl {
	c := &gates{Gate: g, written: map[string]time.Time{}}
	impl := g.controller(ctx, "canarygates", c, func() cache.SharedIndexInformer { return g.gates })
	go g.collectRecords(ctx)
	_, err := g.gates.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    impl.Enqueue,
		UpdateFunc: controller.PassNew(impl.Enqueue),
		DeleteFunc: func(obj any) {
			if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
				g.Metrics.forgetGate(key)
				c.forget(key)
			}
		},
	})
	if err != nil {
		logging.FromContext(ctx).Fatalw("CanaryGates cannot be watched", "error", err)
	}
	g.watchTemplates(ctx, impl)
	// The CRD may be missing, as with the manifests of an older release.
	started := false
	go g.Presence.While(ctx, []string{definition}, func(context.Context) {
		if !started {
			started = true
			go g.gates.RunWithContext(ctx)
		}
	}, func() {})
	return impl
}

type gates struct {
	*Gate
	mu      sync.Mutex
	written map[string]time.Time
}

// Reconcile syncs one CanaryGate.
func (c *gates) Reconcile(ctx context.Context, key string) error {
	obj, ok, err := c.gates.GetStore().GetByKey(key)
	gate, is := obj.(*v1alpha1.CanaryGate)
	if err != nil || !ok || !is || gate.DeletionTimestamp != nil || c.stopping() {
		return nil //nolint:nilerr // an invalid key names no object
	}
	l := &gateSync{gates: c, gate: gate, status: *gate.Status.DeepCopy(), spec: gate.Spec.DeepCopy()}
	l.spec.SetDefaults(ctx)
	if !c.Leader.IsLeaderFor(l.service()) {
		return nil
	}
	if err := l.resolve(ctx); err != nil {
		return c.retry(ctx, "CanaryGate", err)
	}
	if err := l.load(ctx); err != nil {
		return c.retry(ctx, "CanaryGate", err)
	}
	wait := l.do(ctx)
	if c.stopping() {
		return nil
	}
	if err := l.store(ctx); err != nil {
		return c.retry(ctx, "CanaryGate", err)
	}
	if err := l.write(ctx); err != nil {
		return c.retry(ctx, "CanaryGate", err)
	}
	if l.reopen {
		wait = pollInterval // a separate write opens the run of the new split
	}
	return controller.NewRequeueAfter(wait)
}
