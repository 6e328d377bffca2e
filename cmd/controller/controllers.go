// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"knative.dev/pkg/configmap"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/reconciler"
	"knative.dev/serving/pkg/client/clientset/versioned"

	"github.com/knative-cdevents/knative-cdevents/emitter/cdevents"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/logs"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
	"github.com/knative-cdevents/knative-cdevents/reconciler/service"
	"github.com/knative-cdevents/knative-cdevents/reconciler/source"
)

// serviceController watches Knative Services.
func (c *controllers) serviceController(ctx context.Context, cmw configmap.Watcher) *controller.Impl {
	ctx = logs.WithoutCredentials(ctx)
	c.start(ctx, cmw)
	e := c.emitting
	serving, err := versioned.NewForConfig(c.config)
	must(ctx, "making a client for Knative Serving", err)
	since := e.since(service.Resource)
	// The baseline is the start of the controller, not the first time that the kind
	// exists: a Service that comes with Serving, later, is news.
	c.running.Go(func() { observer.UntilKnown(ctx, since) })
	c.watchEnvironments(ctx)
	impl, services := service.NewController(ctx, service.Options{
		Client: serving, Presence: c.presence, Carried: cdevents.CarriedAnnotations(),
		Rules: func() lifecycle.Rules { return e.settings.Current().Rules() },
		Options: observer.Options{
			Ledger: e.ledger, Since: since, Promoted: c.promoted(ctx), Demoted: c.demoted, Merged: e.metrics.Merged, Now: time.Now,
			Stopping: ctx.Done(), Reverted: e.reverted,
		},
		Changed: c.measuring.runner.Changed,
	})
	c.services.Store(services)
	c.gating.verdicts.Store(service.NewVerdicts(services.Saw))
	c.measuring.watchClusters(ctx, services, c.placing)
	return impl
}

// sourceController resolves sinks and writes the status of sources.
func (c *controllers) sourceController(ctx context.Context, cmw configmap.Watcher) *controller.Impl {
	ctx = logs.WithoutCredentials(ctx)
	c.start(ctx, cmw)
	e := c.emitting
	impl := source.NewController(ctx, source.Options{
		Client: c.clientset, Sources: e.sources, Deliveries: e.delivery, Credentials: e.keeper, Schemes: schemes,
		Hosts:   e.sinkHosts,
		Cluster: e.clusterURI, Leads: c.isLeaderFor,
	})
	e.statuses.Store(impl)
	return impl
}

// promoted is called when this process leads for more objects: it watches their environments, sends their
// pending events, writes the status of sources, and continues their gates.
func (c *controllers) promoted(ctx context.Context) func(reconciler.Bucket) {
	return func(b reconciler.Bucket) {
		c.environments.Load().Promoted(ctx, b)
		c.emitting.delivery.Promoted(b)
		c.emitting.resync()
		c.gating.gates.Resync()
		c.measuring.runner.AllChanged()
	}
}

// demoted is called when it no longer leads for them.
func (c *controllers) demoted(b reconciler.Bucket) {
	c.emitting.ledger.HandOver(b.Has)
	c.environments.Load().Demoted(b)
	c.emitting.delivery.Demoted(b)
	c.measuring.runner.AllChanged()
}
