// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"knative.dev/eventing/pkg/eventingtls"
	kubeclient "knative.dev/pkg/client/injection/kube/client"
	"knative.dev/pkg/configmap"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/system"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
	"github.com/knative-cdevents/knative-cdevents/emitter/delivery"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/emitter/route"
	"github.com/knative-cdevents/knative-cdevents/emitter/trace"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/credentials"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/hosts"
	"github.com/knative-cdevents/knative-cdevents/reconciler/settings"
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
	settings *settings.Store

	sources    cache.SharedIndexInformer
	subjects   cache.SharedIndexInformer
	namespaces cache.SharedIndexInformer
	bundles    cache.SharedIndexInformer
	// followed is how the ledger follows the subjects; known says that it has all of the first list.
	followed  cache.ResourceEventHandlerRegistration
	known     atomic.Bool
	labels    *namespaceLabels
	endpoints *endpoints

	metrics   *delivery.Instruments
	tracer    *trace.Tracer // nil if nothing is traced
	ledger    *ledger.Ledger
	baselines ledger.Baselines
	filters   *route.Filters
	router    *route.Router
	keeper    *credentials.Keeper
	delivery  *delivery.Delivery

	// again collects the namespaces whose Services need another look.
	again again
	// statuses is the controller that writes the status of sources.
	statuses atomic.Pointer[controller.Impl]
}

// newEmitting wires everything that sends. Sending ends as soon as the process must stop.
func newEmitting(ctx context.Context, p *process, cmw configmap.Watcher) *emitting {
	e := &emitting{process: p}
	var err error
	e.metrics, err = delivery.NewInstruments() //nolint:contextcheck // counters start at zero
	must(ctx, "making the metrics", err)
	e.settings, err = settings.NewStore(ctx, cmw, e.configured)
	must(ctx, "reading the configuration", err)
	e.trace(ctx)
	sending, stop := context.WithCancel(ctx)
	context.AfterFunc(p.stopping, stop) //nolint:contextcheck // ctx outlives the signal, sending must not
	e.watch(ctx)
	e.deliver(sending)
	e.start(ctx, sending)
	return e
}

// watch makes the informers of our own resources, namespaces and trust bundles.
func (e *emitting) watch(ctx context.Context) {
	e.sources = client.NewSourceInformer(e.clientset, metav1.NamespaceAll, 0, client.SourceIndexers())
	e.subjects = client.NewSubjectInformer(e.clientset, system.Namespace(), 0, nil)
	must(ctx, "setting a transform on the informer for CDEventSubjects", e.subjects.SetTransform(lean))
	e.namespaces = metadatainformer.NewSharedInformerFactory(e.metadata, 0).
		ForResource(namespaces).Informer()
	must(ctx, "setting a transform on the informer for namespaces", e.namespaces.SetTransform(labelsOnly))
	e.labels = &namespaceLabels{cache: e.namespaces.GetIndexer(), live: e.metadata.Resource(namespaces)}
	e.again.every = againEvery
	_, err := e.namespaces.AddEventHandler(e.labels.changes(e.relabelled))
	must(ctx, "watching namespaces", err)

	e.bundles = coreinformers.NewFilteredConfigMapInformer(kubeclient.Get(ctx), system.Namespace(), 0, cache.Indexers{}, func(o *metav1.ListOptions) {
		o.LabelSelector = eventingtls.TrustBundleLabelSelector
	})
	e.endpoints, err = newEndpoints(ctx, kubeclient.Get(ctx))
	must(ctx, "watching where the API server listens", err)
}

// lean is what is cached of a CDEventSubject.
func lean(obj any) (any, error) {
	s, ok := obj.(*v1alpha1.CDEventSubject)
	if !ok {
		return obj, nil
	}
	return ledger.Lean(s), nil
}

// start runs the informers, the ledger and the delivery.
func (e *emitting) start(ctx, sending context.Context) {
	for _, informer := range []cache.SharedIndexInformer{e.sources, e.subjects, e.namespaces, e.bundles, e.endpoints.informer} {
		e.running.Go(func() { informer.RunWithContext(ctx) })
	}
	e.running.Go(func() { e.presence.Run(ctx) })
	// The ledger runs until no more acknowledgements can come.
	acknowledging, enough := context.WithCancel(context.WithoutCancel(ctx))
	e.running.Go(func() {
		defer close(e.acknowledged)
		e.ledger.Run(acknowledging, ackWorkers)
	})
	e.running.Go(func() {
		defer enough()
		if cache.WaitForCacheSync(sending.Done(), e.followed.HasSynced) {
			e.known.Store(true)
			e.delivery.Resume()
		}
		if e.synced(sending) == nil {
			e.delivery.Sweep(sending, sweepEvery)
		}
		<-sending.Done()
		e.delivery.Wait()
	})
}

// synced waits until the sources, their namespaces and the ledger are known.
func (e *emitting) synced(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), e.sources.HasSynced, e.known.Load, e.namespaces.HasSynced) {
		return fmt.Errorf("waiting for the caches of sources, subjects and namespaces: %w", context.Cause(ctx))
	}
	return nil
}

// since returns from when on objects of a kind are announced. It reads the time once.
func (e *emitting) since(resource string) func(context.Context) (time.Time, error) {
	var mu sync.Mutex
	var known time.Time
	return func(ctx context.Context) (time.Time, error) {
		mu.Lock()
		defer mu.Unlock()
		if !known.IsZero() {
			return known, nil
		}
		if err := e.synced(ctx); err != nil {
			return known, err
		}
		at, err := e.baselines.Since(ctx, resource)
		if err != nil {
			return known, fmt.Errorf("taking the baseline: %w", err)
		}
		known = at
		return known, nil
	}
}

// configured is called when the settings have changed.
func (e *emitting) configured() {
	e.resync()
	if environments := e.environments.Load(); environments != nil {
		environments.Compare()
		environments.LookAgain(func(types.NamespacedName) bool { return true }) // their limits may be others
	}
}

// resync reconciles the status of all sources.
func (e *emitting) resync() {
	if impl := e.statuses.Load(); impl != nil {
		impl.GlobalResync(e.sources)
	}
}

// sinkHosts are the hosts that the operator lets sources send to.
func (e *emitting) sinkHosts() hosts.List { return e.settings.Current().SinkHosts }

// clusterURI is the cluster's name in events.
func (e *emitting) clusterURI() string { return e.settings.Current().ClusterURI }

func (e *emitting) allSources() []*v1alpha1.CDEventSource {
	all, err := client.NewSourceLister(e.sources.GetIndexer()).List(labels.Everything())
	if err != nil {
		return nil // listing everything from memory cannot fail
	}
	return all
}

// sourcesOf lists the sources of a namespace.
func (e *emitting) sourcesOf(namespace string) []*v1alpha1.CDEventSource {
	return client.SourcesOf(e.sources.GetIndexer(), namespace)
}

// sourceByUID returns a source, nil if there is none.
func (e *emitting) sourceByUID(uid types.UID) *v1alpha1.CDEventSource {
	return client.SourceByUID(e.sources.GetIndexer(), uid)
}

// sourceNames are the names of sources in metrics.
func (e *emitting) sourceNames() map[types.UID]string {
	out := map[types.UID]string{}
	for _, s := range e.allSources() {
		out[s.UID] = s.Namespace + "/" + s.Name
	}
	return out
}
