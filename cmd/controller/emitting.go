// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
	"knative.dev/eventing/pkg/eventingtls"
	kubeclient "knative.dev/pkg/client/injection/kube/client"
	"knative.dev/pkg/configmap"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/system"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
	"github.com/knative-cdevents/knative-cdevents/emitter/delivery"
	"github.com/knative-cdevents/knative-cdevents/emitter/dora"
	"github.com/knative-cdevents/knative-cdevents/emitter/follow"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/emitter/route"
	"github.com/knative-cdevents/knative-cdevents/emitter/trace"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/credentials"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/transports"
	"github.com/knative-cdevents/knative-cdevents/reconciler/apiserver"
	"github.com/knative-cdevents/knative-cdevents/reconciler/namespaces"
	"github.com/knative-cdevents/knative-cdevents/reconciler/settings/store"
	"github.com/knative-cdevents/knative-cdevents/reconciler/source"
)

const (
	// ackWorkers is the number of concurrent writes of acknowledgements. Transitions come first.
	ackWorkers = 4
	// sweepEvery is how often to look for sources that were deleted unnoticed.
	sweepEvery = time.Minute
)

// emitting sends events: informers, the ledger, and the delivery.
type emitting struct {
	*process
	settings *store.Store
	// chooses is notified when the settings have changed, which choose the kinds of environments.
	chooses interface{ Compare() }

	sources    cache.SharedIndexInformer
	lister     source.Lister
	subjects   cache.SharedIndexInformer
	bundles    cache.SharedIndexInformer
	namespaces *namespaces.Informer
	endpoints  *apiserver.Endpoints
	// followed is how the ledger follows the subjects; known says that it has all of the first list.
	followed cache.ResourceEventHandlerRegistration
	known    atomic.Bool

	metrics   *delivery.Instruments
	tracer    *trace.Tracer // nil if nothing is traced
	ledger    *ledger.Ledger
	baselines ledger.Baselines
	filters   *route.Filters
	router    *route.Router
	keeper    *credentials.Keeper
	delivery  *delivery.Delivery
	// sending ends as soon as the process must stop.
	sending context.Context //nolint:containedctx // the life of what sends, not of one call
	// statuses is the controller that writes the status of sources.
	statuses *controller.Impl
}

// newEmitting makes everything that sends.
func newEmitting(ctx context.Context, p *process, cmw configmap.Watcher) *emitting {
	e := &emitting{process: p}
	var err error
	e.metrics, err = delivery.NewInstruments() //nolint:contextcheck // counters start at zero
	must(ctx, "making the metrics", err)
	e.settings, err = store.New(ctx, cmw, e.configured)
	must(ctx, "reading the configuration", err)
	e.trace(ctx)
	sending, stop := context.WithCancel(ctx)
	context.AfterFunc(p.stopping, stop) //nolint:contextcheck // ctx outlives the signal, sending must not
	e.sending = sending
	e.informers(ctx)
	e.deliver(sending)
	e.statuses = source.NewController(ctx, source.Options{
		Client:      p.clientset,
		Sources:     e.sources,
		Deliveries:  e.delivery,
		Credentials: e.keeper,
		Schemes:     transports.Schemes,
		Settings:    e.settings,
		Leader:      p.registry,
	})
	return e
}

// informers makes the informers of our own resources, namespaces and trust bundles.
func (e *emitting) informers(ctx context.Context) {
	e.sources = client.NewSourceInformer(e.clientset, metav1.NamespaceAll, 0, client.SourceIndexers())
	e.lister = source.Lister{Indexer: e.sources.GetIndexer()}
	e.subjects = client.NewSubjectInformer(e.clientset, system.Namespace(), 0, nil)
	must(ctx, "setting a transform on the informer for CDEventSubjects", e.subjects.SetTransform(follow.Lean))
	e.bundles = coreinformers.NewFilteredConfigMapInformer(kubeclient.Get(ctx), system.Namespace(), 0, cache.Indexers{},
		func(o *metav1.ListOptions) { o.LabelSelector = eventingtls.TrustBundleLabelSelector })
	var err error
	e.namespaces, err = namespaces.New(e.metadata, e.settings)
	must(ctx, "watching namespaces", err)
	e.endpoints, err = apiserver.NewEndpoints(ctx, kubeclient.Get(ctx))
	must(ctx, "watching where the API server listens", err)
}

// start runs the informers, the ledger and the delivery.
func (e *emitting) start(ctx context.Context) {
	for _, informer := range []cache.SharedIndexInformer{e.sources, e.subjects, e.namespaces, e.bundles, e.endpoints} {
		e.running.Go(func() { informer.RunWithContext(ctx) })
	}
	// The ledger runs until no more acknowledgements can come.
	acknowledging, enough := context.WithCancel(context.WithoutCancel(ctx))
	e.running.Go(func() {
		defer close(e.acknowledged)
		e.ledger.Run(acknowledging, ackWorkers)
	})
	e.running.Go(func() {
		defer enough()
		if cache.WaitForCacheSync(e.sending.Done(), e.followed.HasSynced) {
			e.known.Store(true)
			e.delivery.Resume()
		}
		if cache.WaitForCacheSync(e.sending.Done(), e.sources.HasSynced, e.known.Load, e.namespaces.HasSynced) {
			e.delivery.Sweep(e.sending, sweepEvery)
		}
		<-e.sending.Done()
		e.delivery.Wait()
	})
}

// IsLeaderFor implements the Leader of ledger and delivery: this process sends events about a watched object if it
// leads for it, and has seen the whole ledger.
func (e *emitting) IsLeaderFor(key types.NamespacedName) bool {
	return e.known.Load() && e.registry.IsLeaderFor(key)
}

// configured is called when the settings have changed. All objects are folded again: what a limit of 0 held back has
// no time at which it is looked at, and what a longer one held back has a later one.
func (e *emitting) configured() {
	e.resync()
	e.chooses.Compare()
	e.registry.Requeue(func(types.NamespacedName) bool { return true })
}

// resync reconciles the status of all sources.
func (e *emitting) resync() { e.statuses.GlobalResync(e.sources) }

// performance exports DORA's metrics.
func (e *emitting) performance() *dora.Collector {
	return &dora.Collector{Ledger: e.ledger, Leader: e.registry, Environments: e.namespaces}
}

var errReverted = errors.New("the API server has gone back in time, as after a backup was restored: " +
	"what this process remembers may never have happened, so it exits and is restarted")

// Reverted implements observer.Restarter: it stops the process, and writes nothing of its memory, which is invalid.
func (e *emitting) Reverted() {
	e.ledger.Discard()
	e.end(errReverted)
}
