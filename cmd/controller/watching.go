// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/system"
	"knative.dev/serving/pkg/client/clientset/versioned"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
	"github.com/knative-cdevents/knative-cdevents/emitter/cdevents"
	"github.com/knative-cdevents/knative-cdevents/reconciler/cluster"
	"github.com/knative-cdevents/knative-cdevents/reconciler/cluster/web"
	"github.com/knative-cdevents/knative-cdevents/reconciler/environment"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
	"github.com/knative-cdevents/knative-cdevents/reconciler/service"
)

// watching is what is watched.
type watching struct {
	*process
	services     *service.Watch
	environments *environment.Watch
	clusters     *cluster.Poller
	// elector is the controller of Services. It takes part in the election for all kinds.
	elector *controller.Impl
	// plans are the placement plans that every replica serves, from the cache of placements.
	plans      *web.Plans
	placements cache.SharedIndexInformer
	placed     *cluster.Metrics
}

// metrics of environments and placements.
func (w *watching) metrics() []prometheus.Collector {
	return []prometheus.Collector{environment.Metrics(w.environments.Readings), w.placed}
}

// newWatching makes the watches of Services, environments and placement plans. The observers write to the ledger.
func newWatching(ctx context.Context, p *process, e *emitting) *watching {
	w := &watching{process: p}
	serving, err := versioned.NewForConfig(p.config)
	must(ctx, "making a client for Knative Serving", err)
	found, err := discovery.NewDiscoveryClientForConfig(p.config)
	must(ctx, "making a client for discovery", err)
	objects, err := dynamic.NewForConfig(p.config)
	must(ctx, "making a client for environments", err)
	shared := observer.Shared{
		Options:  observer.Options{Ledger: e.ledger, Metrics: e.metrics, Now: time.Now, Stopping: ctx.Done(), Restarter: e},
		Registry: p.registry, Baselines: observer.NewBaselines(e.baselines, e.sources.HasSynced, e.known.Load,
			e.namespaces.HasSynced),
		Presence: p.presence, Metadata: p.metadata, Carried: cdevents.CarriedAnnotations(), Settings: e.settings,
	}
	w.elector, w.services = service.New(ctx, shared, serving)
	w.environments = environment.New(ctx, environment.Options{
		Shared: shared, Discovery: found, Dynamic: objects, Settings: e.settings, Markers: e.baselines,
	})
	w.placed = cluster.NewMetrics(w.services)
	w.placements = client.NewPlacementInformer(p.clientset, system.Namespace(), 0, web.Indexers)
	w.plans, err = web.NewPlans(w.placements)
	must(ctx, "watching placements", err)
	return w
}

// watchClusters makes the watch of stateful clusters. Each observation becomes a part of its Service, and the input
// of its placement plan.
func (w *watching) watchClusters(ctx context.Context, m *measuring) {
	placer := cluster.NewPlacer(cluster.PlacerOptions{
		Client: w.clientset.ShardPlacements(system.Namespace()), Traffic: m.view, Loads: m.counts, Services: w.services,
		Plans: w.plans, Metrics: w.placed, Living: w.pods, Now: time.Now,
	})
	polls, err := cluster.NewInstruments()
	must(ctx, "making the metrics of clusters", err)
	w.clusters = cluster.NewPoller(cluster.Options{
		Pods: w.pods, API: cluster.NewManagement(), Services: w.services, View: m.view, Planner: placer, Metrics: polls,
		Now: time.Now,
	})
	w.services.UseClusters(w.clusters)
	must(ctx, "watching pods", w.pods.OnChange(w.clusters.Changed))
	must(ctx, "making the metrics of clusters", polls.Watch(w.clusters))
	w.running.Go(func() { w.placements.RunWithContext(ctx) })
	w.running.Go(func() { placer.Run(ctx) })
}

// start starts the watches. A further kind is one line here: the watch that its package makes.
func (w *watching) start(ctx context.Context) {
	w.running.Go(func() { w.presence.Run(ctx) })
	w.running.Go(func() { w.pods.Run(ctx) })
	for _, watch := range []observer.Watch{
		w.services,
		w.environments,
		w.clusters,
	} {
		w.registry.Start(ctx, &w.running, watch)
	}
}
