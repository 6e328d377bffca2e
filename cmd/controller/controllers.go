// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"sync"

	"knative.dev/pkg/configmap"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/leaderelection"
	"knative.dev/pkg/reconciler"

	"github.com/knative-cdevents/knative-cdevents/reconciler/logs"
)

// controllers are what sharedmain runs, with everything that they need.
type controllers struct {
	*process
	once      sync.Once
	emitting  *emitting
	watching  *watching
	measuring *measuring
	gating    *gating
}

// serviceController watches Knative Services, and elects.
func (c *controllers) serviceController(ctx context.Context, cmw configmap.Watcher) *controller.Impl {
	c.start(logs.WithoutCredentials(ctx), cmw)
	return c.watching.elector
}

// sourceController resolves sinks and writes the status of sources.
func (c *controllers) sourceController(ctx context.Context, cmw configmap.Watcher) *controller.Impl {
	c.start(logs.WithoutCredentials(ctx), cmw)
	return c.emitting.statuses
}

// start makes and starts everything that the controllers need, once: the first constructor that sharedmain calls does
// it. Everything is made before the first part starts.
func (c *controllers) start(ctx context.Context, cmw configmap.Watcher) {
	c.once.Do(func() {
		c.connect(ctx)
		c.emitting = newEmitting(ctx, c.process, cmw)
		c.watching = newWatching(ctx, c.process, c.emitting)
		c.emitting.chooses = c.watching.environments
		c.measuring = newMeasuring(ctx, c.process, c.watching, cmw, append(c.watching.metrics(), c.emitting.performance())...)
		c.watching.watchClusters(ctx, c.measuring)
		c.gating = newGating(ctx, c.process, c.measuring, c.watching)
		c.registry.OnElection(c)

		c.emitting.start(ctx)
		c.watching.start(ctx)
		c.measuring.start(ctx)
		c.gating.start(ctx)
		sleeper := c.sleeper(ctx)
		c.running.Go(func() { sleeper.Run(ctx) })
		if !leaderelection.HasLeaderElection(ctx) {
			// sharedmain promotes then as well, but does not have pending work requeued.
			must(ctx, "leading without an election", c.registry.LeadAll())
		}
	})
}

// Promoted implements observer.Elected: this process sends the pending events of more objects, writes the status of
// sources, and continues their gates.
func (c *controllers) Promoted(b reconciler.Bucket) {
	c.emitting.delivery.Promoted(b)
	c.emitting.resync()
	c.gating.gates.Resync()
	c.measuring.runner.AllChanged()
}

// Demoted implements observer.Elected.
func (c *controllers) Demoted(b reconciler.Bucket) {
	c.emitting.ledger.HandOver(b.Has)
	c.emitting.delivery.Demoted(b)
	c.measuring.runner.AllChanged()
}
