// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/system"

	"github.com/knative-cdevents/knative-cdevents/canary/judge"
	"github.com/knative-cdevents/knative-cdevents/reconciler/gate"
	"github.com/knative-cdevents/knative-cdevents/reconciler/service"
)

// prometheusAccess is where config/500-controller.yaml mounts the credentials for the operator's Prometheus.
const prometheusAccess = "/etc/canary-prometheus"

// gating runs gates and serves their verdicts.
type gating struct {
	*process
	measuring *measuring
	watching  *watching
	gates     *gate.Gate
}

// newGating makes the gates that watch, and those that Tekton requests.
func newGating(ctx context.Context, p *process, m *measuring, w *watching) *gating {
	g := &gating{process: p, measuring: m, watching: w}
	runs, err := dynamic.NewForConfig(p.config)
	must(ctx, "making a client for CustomRuns", err)
	g.gates = gate.New(gate.Options{
		Client: p.clientset, Namespace: system.Namespace(), Runs: runs, Presence: p.presence, Services: m.view,
		Counts: m.counts, Leader: p.registry, Verdicts: service.NewVerdicts(w.services), Metrics: m.gateMetrics,
		Clock: clock.RealClock{}, Analyze: (*judge.Run).Analyze, Stopping: ctx.Done(),
		Queries: &gate.Queries{Settings: m.settings.Current, Access: prometheusAccess},
	})
	return g
}

// start starts the gates and their HTTP API. Their controllers have no leases, as the leader of a Service works on
// its gates. So sharedmain, which makes leases for all that it runs, does not run them.
func (g *gating) start(ctx context.Context) {
	gates := g.gates.Gates(ctx)
	for _, impl := range []*controller.Impl{gates, g.gates.CustomRuns(ctx, gates)} {
		g.running.Go(func() {
			if err := impl.RunContext(ctx, impl.Concurrency); err != nil {
				logging.FromContext(ctx).Errorw("This replica cannot run gates", "controller", impl.Name, "error", err)
			}
		})
	}
	g.serve(ctx, g.measuring.view, g.watching)
}
