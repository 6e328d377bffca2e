package main

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
	"github.com/knative-cdevents/knative-cdevents/reconciler/service"
	"github.com/knative-cdevents/knative-cdevents/reconciler/stateful"
)

// watchClusters looks at the stateful clusters of the Services that this process
// leads for. What it sees is one more part of what is seen of a Service.
func (p *process) watchClusters(ctx context.Context, services *service.Watch) {
	metrics, err := stateful.NewInstruments()
	must(ctx, "making the metrics of clusters", err)
	w := stateful.NewWatcher(stateful.Options{
		Pods: p.pods, API: stateful.NewManagement(), Leads: services.IsLeaderFor, Sequence: services.Sequence, Metrics: metrics, Now: time.Now,
		Saw: func(key types.NamespacedName, part observer.Part) {
			p.view.SawCluster(key, part)
			services.Saw(key, part)
		},
		Services: func() map[types.NamespacedName]stateful.Service {
			out := map[types.NamespacedName]stateful.Service{}
			for key, d := range services.Declared() {
				out[key] = stateful.Service(d)
			}
			return out
		},
	})
	must(ctx, "watching pods", p.pods.OnChange(w.Changed))
	must(ctx, "making the metrics of clusters", metrics.Watch(w))
	p.running.Go(func() { p.pods.Run(ctx) })
	p.running.Go(func() { w.Run(ctx) })
}
