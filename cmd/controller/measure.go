package main

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"knative.dev/pkg/configmap"
	"knative.dev/pkg/injection/sharedmain"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/observability/resource"
	"knative.dev/pkg/system"

	"github.com/knative-cdevents/knative-cdevents/canary/attribution"
	"github.com/knative-cdevents/knative-cdevents/canary/export"
	"github.com/knative-cdevents/knative-cdevents/canary/scrape"
	"github.com/knative-cdevents/knative-cdevents/reconciler/gate"
	"github.com/knative-cdevents/knative-cdevents/reconciler/settings/canary"
	"github.com/knative-cdevents/knative-cdevents/reconciler/view"
)

const (
	mostConnected = 4096
	forgetEvery   = time.Minute
	lastPush      = 500 * time.Millisecond
)

// measure counts who handled what, and tells Prometheus.
func (p *process) measure(ctx context.Context, cmw configmap.Watcher) {
	store := canary.NewStore(logging.FromContext(ctx), system.Namespace(), cmw)
	p.view = view.New(p.pods, p.watched, logging.FromContext(ctx).Warnw)
	counts := attribution.NewCounts(p.view.Facts, time.Now)
	p.counts = counts
	p.gateMetrics = gate.NewMetrics(time.Now, func(namespace, service string) bool {
		return p.isLeaderFor(types.NamespacedName{Namespace: namespace, Name: service})
	})
	collector := prometheus.NewRegistry()
	must(ctx, "registering the metrics of canaries", collector.Register(export.NewCollector(counts)))
	must(ctx, "registering the metrics of gates", collector.Register(p.gateMetrics))
	must(ctx, "registering the metrics of canaries and gates", prometheus.Register(collector))
	observability, err := sharedmain.GetObservabilityConfig(ctx)
	must(ctx, "reading config-observability", err)
	stop, err := export.Push(ctx, observability.Metrics, collector, resource.Default(component))
	must(ctx, "sending the metrics of canaries", err)
	runner := &scrape.Runner{
		Client: scrape.NewClient(mostConnected), Plan: p.view, Sink: counts, Leads: p.isLeaderFor,
		Settings: func() scrape.Settings { return store.Current().Scraping() },
	}
	p.running.Go(func() {
		<-ctx.Done()
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastPush)
		defer cancel()
		if err := stop(last); err != nil {
			logging.FromContext(ctx).Warnw("The last metrics of canaries were not sent", "error", err)
		}
	})
	p.running.Go(func() { runner.Run(ctx) })
	p.running.Go(func() { wait.UntilWithContext(ctx, func(context.Context) { p.view.Forget() }, forgetEvery) })
}

// watched is the watch of Services, nil until there is one.
func (p *process) watched() view.Services {
	if services := p.services.Load(); services != nil {
		return services
	}
	return nil
}
