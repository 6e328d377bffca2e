// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	kubeclient "knative.dev/pkg/client/injection/kube/client"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/system"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/cdevents"
	"github.com/knative-cdevents/knative-cdevents/emitter/delivery"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/emitter/route"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/credentials"
	httptransport "github.com/knative-cdevents/knative-cdevents/emitter/transport/http"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/kafka"
)

// deliver wires the ledger, and the delivery that sends from it.
func (e *emitting) deliver(ctx context.Context) {
	e.journal(ctx)
	e.keeper = credentials.NewKeeper(kubeclient.Get(ctx), schemes, apiAudiences(e.config)...)
	access := transport.Access{
		Addresses:   transport.Addresses{Refused: apiServer(e.config), RefusedPorts: e.endpoints.list, Hosts: e.sinkHosts},
		Credentials: e.keeper, Trust: transport.NewTrust(),
	}
	transports := &transport.Registry{}
	transports.Register(httptransport.Schemes, httptransport.NewClients(access))
	transports.Register(kafka.Schemes, kafka.NewClients(access))
	e.delivery = delivery.New(ctx, e.tracedDelivery(delivery.Options{
		Ledger: e.ledger, Transport: transports, Render: cdevents.Render, Passes: e.filters.Passes, Metrics: e.metrics,
		Leads: e.sends,
	}))
	e.ledger.OnPending(e.delivery.Enqueue)
	must(ctx, "making the metrics of pending events", e.metrics.Watch(e.delivery, e.sourceNames))

	must(ctx, "making the metric of acknowledgements", ledger.Watch(e.ledger))

	var err error
	e.followed, err = e.subjects.AddEventHandler(e.subjectsFollowed())
	must(ctx, "watching CDEventSubjects", err)
	_, err = e.sources.AddEventHandler(e.sourcesFollowed())
	must(ctx, "watching CDEventSources", err)
	_, err = e.bundles.AddEventHandler(e.bundlesFollowed(ctx, access.Trust))
	must(ctx, "watching trust bundles", err)
}

// schemes are those that the URIs of sinks may have.
var schemes = transport.Join(httptransport.Schemes, kafka.Schemes)

// sends reports whether this process sends events about a watched object: it leads, and has seen the whole ledger.
func (e *emitting) sends(key types.NamespacedName) bool { return e.known.Load() && e.isLeaderFor(key) }

// journal makes the router and the ledger, which reports what it cannot route.
func (e *emitting) journal(ctx context.Context) {
	logger := logging.FromContext(ctx)
	e.filters = route.NewFilters()
	e.router = &route.Router{
		Sources:         e.sourcesOf,
		Source:          e.sourceByUID,
		Namespace:       func(name string) (map[string]string, bool, error) { return e.labels.of(ctx, name) },
		SystemNamespace: system.Namespace(),
		Cluster:         e.clusterURI,
		Environment:     func() v1alpha1.Environment { return e.settings.Current().Environment },
		Render:          cdevents.Render,
		Rendering:       cdevents.Rendering,
		Passes:          e.filters.Passes,
	}
	e.baselines = ledger.Baselines{Client: e.clientset.CDEventBaselines(system.Namespace())}
	options := append(e.traced(), ledger.WithLeads(e.sends))
	e.ledger = ledger.New(e.clientset.CDEventSubjects(system.Namespace()), e.router, e.metrics, options...)
	e.ledger.OnLeftOut(func(key ledger.Key, sources []types.UID) {
		for _, uid := range sources {
			e.delivery.ReportProblem(uid, fmt.Sprintf("an event about %s was not sent: the sources that receive it need more room than the journal has; "+
				"those of the controller's namespace come first, then the oldest", key))
		}
	})
	e.ledger.OnRefused(func(_ ledger.Key, source types.UID, why ledger.Refusal) {
		if why.Reason == ledger.DroppedSelectorInvalid || why.Reason == ledger.DroppedTooManyLabels { // the others may be a flood; their conditions say it
			logger.Errorw("Could not decide whether a source receives an event, so it is not sent", "source", e.sourceNames()[source], "error", why.Err)
		}
		e.delivery.ReportProblem(source, "an event was not sent: "+why.Err.Error())
	})
}

// bundlesFollowed keeps the trusted certificates current.
func (e *emitting) bundlesFollowed(ctx context.Context, trust *transport.Trust) cache.ResourceEventHandler {
	add := func(bundle *corev1.ConfigMap) {
		if err := trust.Add(bundle); err != nil {
			logging.FromContext(ctx).Errorw("A trust bundle is ignored, and its former content stays trusted", "error", err)
			return
		}
		e.delivery.TrustChanged() // events for a sink that was not trusted need not wait longer
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { with(obj, add) },
		UpdateFunc: func(_, obj any) { with(obj, add) },
		DeleteFunc: func(obj any) { with(obj, trust.Remove) },
	}
}
