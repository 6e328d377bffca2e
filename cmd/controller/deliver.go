// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/types"
	kubeclient "knative.dev/pkg/client/injection/kube/client"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/system"

	"github.com/knative-cdevents/knative-cdevents/emitter/cdevents"
	"github.com/knative-cdevents/knative-cdevents/emitter/delivery"
	"github.com/knative-cdevents/knative-cdevents/emitter/follow"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/emitter/route"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/credentials"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/credentials/clientset"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/transports"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/trust"
	"github.com/knative-cdevents/knative-cdevents/reconciler/apiserver"
	"github.com/knative-cdevents/knative-cdevents/reconciler/source"
)

// deliver wires the ledger, and the delivery that sends from it.
func (e *emitting) deliver(ctx context.Context) {
	e.journal(ctx)
	kube := clientset.API{Interface: kubeclient.Get(ctx)}
	e.keeper = credentials.NewKeeper(kube, transports.Schemes, apiserver.Audiences(e.config)...)
	authorities := trust.New()
	access := transport.Access{
		Addresses: transport.Addresses{
			Refused: apiserver.Prefixes(e.config), RefusedPorts: e.endpoints.List, Hosts: e.settings.SinkHosts,
		},
		Credentials: e.keeper, Trust: authorities,
	}
	e.delivery = delivery.New(ctx, e.tracedDelivery(delivery.Options{
		Ledger: e.ledger, Transport: transports.New(access), Render: cdevents.Render, Filters: e.filters,
		Metrics: e.metrics, Leader: e,
	}))
	e.ledger.UseDelivery(reporting{e.delivery, e.lister, logging.FromContext(ctx)})
	must(ctx, "making the metrics of pending events", e.metrics.Watch(e.delivery, e.lister.Names))

	must(ctx, "making the metric of acknowledgements", ledger.Watch(e.ledger))

	var err error
	e.followed, err = e.subjects.AddEventHandler(follow.Subjects{Ledger: e.ledger, Observers: e.registry, Restarter: e})
	must(ctx, "watching CDEventSubjects", err)
	changes := source.NewChanges(e.delivery, e.filters, e.router, e.registry, e.lister, system.Namespace())
	_, err = e.sources.AddEventHandler(changes)
	must(ctx, "watching CDEventSources", err)
	must(ctx, "watching namespaces", e.namespaces.OnChange(changes.Relabelled))
	_, err = e.bundles.AddEventHandler(source.TrustBundles(ctx, authorities, e.delivery))
	must(ctx, "watching trust bundles", err)
}

// journal makes the router and the ledger.
func (e *emitting) journal(ctx context.Context) {
	e.filters = route.NewFilters()
	e.router = &route.Router{
		Sources:         e.lister,
		Namespace:       func(name string) (map[string]string, bool, error) { return e.namespaces.Labels(ctx, name) },
		SystemNamespace: system.Namespace(),
		Settings:        e.settings,
		Render:          cdevents.Render,
		Rendering:       cdevents.Rendering,
		Filters:         e.filters,
	}
	e.baselines = ledger.Baselines{Client: e.clientset.CDEventBaselines(system.Namespace())}
	options := append(e.traced(), ledger.WithLeader(e), ledger.WithInformer(e.subjects))
	e.ledger = ledger.New(e.clientset.CDEventSubjects(system.Namespace()), e.router, e.metrics, options...)
}

// reporting is a delivery that reports what the ledger cannot route.
type reporting struct {
	*delivery.Delivery
	sources source.Lister
	logger  *zap.SugaredLogger
}

// LeftOut implements ledger.Delivery.
func (r reporting) LeftOut(key ledger.Key, sources []types.UID) {
	for _, uid := range sources {
		r.ReportProblem(uid, fmt.Sprintf(
			"an event about %s was not sent: the sources that receive it need more room than the journal has; those of the controller's "+
				"namespace come first, then the oldest",
			key,
		))
	}
}

// Refused implements ledger.Delivery.
func (r reporting) Refused(_ ledger.Key, source types.UID, why ledger.Refusal) {
	// The others may be a flood; their conditions say it.
	if why.Reason == ledger.DroppedSelectorInvalid || why.Reason == ledger.DroppedTooManyLabels {
		r.logger.Errorw("Could not decide whether a source receives an event, so it is not sent",
			"source", r.sources.Names()[source], "error", why.Err)
	}
	r.ReportProblem(source, "an event was not sent: "+why.Err.Error())
}
