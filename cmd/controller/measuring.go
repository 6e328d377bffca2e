// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
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
	"github.com/knative-cdevents/knative-cdevents/reconciler/servicestate"
	"github.com/knative-cdevents/knative-cdevents/reconciler/settings/canary"
)

const (
	mostConnected = 4096
	forgetEvery   = time.Minute
	lastPush      = 500 * time.Millisecond
)

// measuring counts which Revision handles what, and exports it to Prometheus.
type measuring struct {
	*process
	// view is what is known of the Services.
	view *servicestate.View
	// counts are the requests that they handled; gates judge by them.
	counts      *attribution.Counts
	gateMetrics *gate.Metrics
	// runner reads the pods.
	runner *scrape.Runner
	// settings are those of ConfigMap config-canary.
	settings *canary.Store
}

// newMeasuring makes the scraping of pods, and exports metrics, with those of further collectors.
func newMeasuring(
	ctx context.Context, p *process, w *watching, cmw configmap.Watcher, further ...prometheus.Collector,
) *measuring {
	m := &measuring{process: p, view: servicestate.New(p.pods, w.services, w.plans, logging.FromContext(ctx))}
	m.counts = attribution.NewCounts(m.view.Facts, time.Now)
	m.gateMetrics = gate.NewMetrics(time.Now, p.registry)
	m.settings = canary.NewStore(logging.FromContext(ctx), system.Namespace(), cmw)
	m.export(ctx, further)
	m.runner = &scrape.Runner{
		Client: scrape.NewClient(mostConnected), Discovery: m.view, Sink: m.counts, Leader: p.registry,
		Budget:   scrape.NewBudget(),
		Settings: scraping{m.settings},
	}
	must(ctx, "watching pods", p.pods.OnChange(m.runner.Changed))
	w.services.OnChange(m.runner.Changed)
	return m
}

// scraping has the settings for the scrape runner.
type scraping struct{ *canary.Store }

func (s scraping) Scraping() scrape.Settings {
	c := s.Current()
	return scrape.Settings{Interval: c.Interval, Limits: c.Limits, Reader: c.Reader, Entry: c.Entry()}
}

// start starts the scraping of pods.
func (m *measuring) start(ctx context.Context) {
	m.running.Go(func() { m.runner.Run(ctx) })
	m.running.Go(func() { wait.UntilWithContext(ctx, func(context.Context) { m.view.Forget() }, forgetEvery) })
}

// export registers the metrics with Prometheus, and pushes them if that is configured.
func (m *measuring) export(ctx context.Context, further []prometheus.Collector) {
	collector := prometheus.NewRegistry()
	must(ctx, "registering the metrics of canaries", collector.Register(export.NewCollector(m.counts)))
	must(ctx, "registering the metrics of gates", collector.Register(m.gateMetrics))
	for _, c := range further {
		must(ctx, "registering further metrics", collector.Register(c))
	}
	must(ctx, "registering the metrics of canaries and gates", prometheus.Register(collector))
	observability, err := sharedmain.GetObservabilityConfig(ctx)
	must(ctx, "reading config-observability", err)
	stop, err := export.Push(ctx, observability.Metrics, collector, resource.Default(component))
	must(ctx, "sending the metrics of canaries", err)
	m.running.Go(func() {
		<-ctx.Done()
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastPush)
		defer cancel()
		if err := stop(last); err != nil {
			logging.FromContext(ctx).Warnw("The last metrics of canaries were not sent", "error", err)
		}
	})
}
