// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/system"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
	planner "github.com/knative-cdevents/knative-cdevents/canary/placement"
	"github.com/knative-cdevents/knative-cdevents/reconciler/placement"
	"github.com/knative-cdevents/knative-cdevents/reconciler/placement/web"
	"github.com/knative-cdevents/knative-cdevents/reconciler/servicestate"
	"github.com/knative-cdevents/knative-cdevents/reconciler/stateful"
)

// placing plans which member of each cluster owns which shard.
type placing struct {
	*process
	placer *placement.Placer
	// plans holds the plans that every replica serves.
	plans *web.Plans
}

// newPlacing wires and starts the planning of placements.
func newPlacing(ctx context.Context, p *process, m *measuring) *placing {
	out := &placing{process: p}
	informer := client.NewPlacementInformer(p.clientset, system.Namespace(), 0, web.Indexers)
	var err error
	out.plans, err = web.NewPlans(informer)
	must(ctx, "watching placements", err)
	m.view.SetPlans(out.plans.Get)
	metrics := placement.NewMetrics(p.isLeaderFor)
	must(ctx, "registering the metrics of placements", prometheus.Register(metrics))
	out.placer = placement.NewPlacer(placement.Options{
		Client: p.clientset.ShardPlacements(system.Namespace()), Shares: func(key types.NamespacedName) []planner.Share { return shares(m.view, key) },
		Loads: m.counts.Loads, Services: out.services, Leads: p.isLeaderFor, Plans: out.plans, Metrics: metrics, Now: time.Now,
	})
	p.running.Go(func() { informer.RunWithContext(ctx) })
	p.running.Go(func() { out.placer.Run(ctx) })
	return out
}

// shares returns the effective traffic split of a Service, or none if it is not known.
func shares(v *servicestate.View, key types.NamespacedName) []planner.Share {
	service := v.Split(key)
	if service == nil {
		return nil
	}
	var out []planner.Share
	for _, r := range service.Revisions {
		if r.Percent > 0 {
			out = append(out, planner.Share{Revision: r.Name, Percent: int(r.Percent)})
		}
	}
	return out
}

// services returns the Services that declare a cluster, or nil until they are known.
func (p *placing) services() map[types.NamespacedName]types.UID {
	services := p.process.services.Load()
	if services == nil || !services.Active() {
		return nil
	}
	out := map[types.NamespacedName]types.UID{}
	for key, d := range services.Declared() {
		if d.Stateful {
			out[key] = d.UID
		}
	}
	return out
}

// place plans a cluster after each complete poll of it.
func (p *placing) place(ctx context.Context, key types.NamespacedName, layout stateful.Layout) *stateful.Placement {
	placement, err := p.placer.Place(ctx, key, layout)
	if err != nil && ctx.Err() == nil {
		logging.FromContext(ctx).Warnw("Could not plan the placement of a cluster; retrying with the next poll", "service", key, "error", err)
	}
	return placement
}
