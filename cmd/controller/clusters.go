// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
	"github.com/knative-cdevents/knative-cdevents/reconciler/service"
	"github.com/knative-cdevents/knative-cdevents/reconciler/stateful"
)

// watchClusters polls the stateful clusters of the Services that this process leads for.
// Each observation becomes a part of its Service and the input of its placement plan.
func (m *measuring) watchClusters(ctx context.Context, services *service.Watch, placing *placing) {
	metrics, err := stateful.NewInstruments()
	must(ctx, "making the metrics of clusters", err)
	w := stateful.NewWatcher(stateful.Options{
		Pods: m.pods, API: stateful.NewManagement(), Leads: services.IsLeaderFor, Sequence: services.Sequence, Metrics: metrics, Now: time.Now,
		Saw: func(key types.NamespacedName, part observer.Part) {
			m.view.UpdateCluster(key, part)
			services.Saw(key, part)
		},
		Place: placing.place,
		Services: func() map[types.NamespacedName]stateful.Service {
			out := map[types.NamespacedName]stateful.Service{}
			for key, d := range services.Declared() {
				out[key] = stateful.Service(d)
			}
			return out
		},
	})
	services.AskPolls(w.Polled)
	must(ctx, "watching pods", m.pods.OnChange(w.Changed))
	must(ctx, "making the metrics of clusters", metrics.Watch(w))
	m.running.Go(func() { m.pods.Run(ctx) })
	m.running.Go(func() { w.Run(ctx) })
}
