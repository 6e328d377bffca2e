package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"knative.dev/eventing/pkg/eventingtls"
	kubeclient "knative.dev/pkg/client/injection/kube/client"
	"knative.dev/pkg/configmap"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/reconciler"
	"knative.dev/pkg/system"
	"knative.dev/serving/pkg/client/clientset/versioned"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
	"github.com/knative-cdevents/knative-cdevents/canary/attribution"
	"github.com/knative-cdevents/knative-cdevents/emitter/cdevents"
	"github.com/knative-cdevents/knative-cdevents/emitter/delivery"
	"github.com/knative-cdevents/knative-cdevents/emitter/delivery/credentials"
	"github.com/knative-cdevents/knative-cdevents/emitter/delivery/hosts"
	"github.com/knative-cdevents/knative-cdevents/emitter/delivery/sender"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/gate"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
	"github.com/knative-cdevents/knative-cdevents/reconciler/pods"
	"github.com/knative-cdevents/knative-cdevents/reconciler/service"
	"github.com/knative-cdevents/knative-cdevents/reconciler/settings"
	"github.com/knative-cdevents/knative-cdevents/reconciler/source"
	"github.com/knative-cdevents/knative-cdevents/reconciler/view"
)

// ackWorkers write acknowledgements side by side.
const ackWorkers = 16

// sweepEvery is how often sources are looked for that were deleted while nobody
// was watching.
const sweepEvery = time.Minute

// process is everything that the controllers of one process share.
type process struct {
	config *rest.Config
	// stopping ends when the process is told to stop; end tells it so, with a reason
	// unless that is a signal.
	stopping context.Context //nolint:containedctx // the life of the process, not of one call
	end      context.CancelCauseFunc
	// noted is closed when nothing is sent any more and all that was acknowledged is written.
	noted chan struct{}

	once       sync.Once
	ours       *client.Clientset
	settings   *settings.Store
	sources    cache.SharedIndexInformer
	subjects   cache.SharedIndexInformer
	namespaces cache.SharedIndexInformer
	labels     *namespaceLabels
	bundles    cache.SharedIndexInformer
	endpoints  *endpoints
	presence   *observer.Presence
	pods       *pods.Informer
	metrics    *delivery.Instruments
	ledger     *ledger.Ledger
	filters    *delivery.Filters
	router     *delivery.Router
	keeper     *credentials.Keeper
	delivery   *delivery.Delivery
	// services is the observer of Services; it also says what this process leads.
	services atomic.Pointer[service.Watch]
	// again says which of them are to be looked at again.
	again again
	// view is what is known of the Services.
	view *view.View
	// counts are the requests that they handled; gates judge by them.
	counts      *attribution.Counts
	gateMetrics *gate.Metrics
	verdicts    atomic.Pointer[service.Verdicts]
	gates       atomic.Pointer[gate.Gate]
	// statuses is the controller that writes the status of sources.
	statuses atomic.Pointer[controller.Impl]
	running  sync.WaitGroup
}

func newProcess(stopping context.Context, end context.CancelCauseFunc, config *rest.Config) *process {
	return &process{config: config, stopping: stopping, end: end, noted: make(chan struct{})}
}

// must ends the process where it could not even be put together: there is
// nobody yet to return an error to.
func must(ctx context.Context, doing string, err error) {
	if err != nil {
		logging.FromContext(ctx).Fatalw("The controller cannot start: "+doing, "error", err)
	}
}

// build makes what all controllers share, once.
func (p *process) build(ctx context.Context, cmw configmap.Watcher) {
	p.once.Do(func() {
		var err error
		p.ours, err = client.New(p.config)
		must(ctx, "making a client for knative-cdevents.dev", err)
		p.metrics, err = delivery.NewInstruments() //nolint:contextcheck // counters begin at zero, whoever asks
		must(ctx, "making the metrics", err)
		p.settings, err = settings.NewStore(ctx, cmw, p.resync)
		must(ctx, "reading the configuration", err)
		sending, stop := context.WithCancel(ctx)
		context.AfterFunc(p.stopping, stop) //nolint:contextcheck // ctx outlives the signal, sending must not
		p.watch(ctx)
		p.deliver(sending)
		p.run(ctx, sending)
		p.measure(ctx, cmw)
		p.runGates(ctx)
		p.serveGates(ctx)
	})
}

// watch makes the informers for our own resources and for namespaces.
func (p *process) watch(ctx context.Context) {
	meta, err := metadata.NewForConfig(p.config)
	must(ctx, "making a client for metadata", err)
	p.presence, err = observer.NewPresence(meta)
	must(ctx, "watching which kinds exist", err)

	p.sources = client.NewSourceInformer(p.ours, metav1.NamespaceAll, 0, nil)
	p.subjects = client.NewSubjectInformer(p.ours, system.Namespace(), 0, nil)
	p.namespaces = metadatainformer.NewSharedInformerFactory(meta, 0).
		ForResource(namespaces).Informer()
	must(ctx, "setting a transform on the informer for namespaces", p.namespaces.SetTransform(labelsOnly))
	p.labels = &namespaceLabels{cache: p.namespaces.GetIndexer(), live: meta.Resource(namespaces)}
	p.again.every = againEvery
	_, err = p.namespaces.AddEventHandler(p.labels.changes(p.relabelled))
	must(ctx, "watching namespaces", err)

	p.bundles = coreinformers.NewFilteredConfigMapInformer(kubeclient.Get(ctx), system.Namespace(), 0, cache.Indexers{}, func(o *metav1.ListOptions) {
		o.LabelSelector = eventingtls.TrustBundleLabelSelector
	})
	p.pods, err = pods.New(kubeclient.Get(ctx), meta)
	must(ctx, "watching pods", err)
	p.endpoints, err = newEndpoints(ctx, kubeclient.Get(ctx))
	must(ctx, "watching where the API server listens", err)
}

// deliver makes the ledger and what sends from it.
func (p *process) deliver(ctx context.Context) {
	logger := logging.FromContext(ctx)
	p.filters = delivery.NewFilters()
	p.router = &delivery.Router{
		Sources:         p.allSources,
		Namespace:       func(name string) (map[string]string, bool, error) { return p.labels.of(ctx, name) },
		SystemNamespace: system.Namespace(),
		Cluster:         func() string { return p.settings.Current().ClusterURI },
		Environment:     func() v1alpha1.Environment { return p.settings.Current().Environment },
		Render:          cdevents.Render,
		Rendering:       cdevents.Rendering,
		Passes:          p.filters.Passes,
	}
	p.ledger = ledger.New(p.ours.CDEventSubjects(system.Namespace()), p.router, p.metrics)
	p.ledger.OnLeftOut(func(key ledger.Key, sources []types.UID) {
		for _, uid := range sources {
			p.delivery.ReportProblem(uid, fmt.Sprintf("an event about %s was not sent: the sources that receive it need more room than the journal has; "+
				"those of the controller's namespace come first, then the oldest", key))
		}
	})
	p.ledger.OnRefused(func(_ ledger.Key, source types.UID, why ledger.Refusal) {
		if why.Reason == ledger.DroppedSelectorInvalid || why.Reason == ledger.DroppedTooManyLabels { // the others may be a flood; their conditions say it
			logger.Errorw("Could not decide whether a source receives an event, so it is not sent", "source", p.sourceNames()[source], "error", why.Err)
		}
		p.delivery.ReportProblem(source, "an event was not sent: "+why.Err.Error())
	})
	p.keeper = credentials.NewKeeper(kubeclient.Get(ctx), apiAudiences(p.config)...)
	clients := sender.NewClients(sender.Addresses{
		Refused: apiServer(p.config), RefusedPorts: p.endpoints.list, Hosts: p.sinkHosts,
	}, p.keeper)
	p.delivery = delivery.New(ctx, delivery.Options{
		Ledger: p.ledger, Transports: delivery.HTTP(clients), Render: cdevents.Render, Passes: p.filters.Passes, Incomplete: cdevents.Incomplete, Metrics: p.metrics, Leads: p.isLeaderFor,
	})
	p.ledger.OnOwed(p.delivery.Enqueue)
	must(ctx, "making the metrics of pending events", p.metrics.Watch(p.delivery, p.sourceNames))

	_, err := p.subjects.AddEventHandler(p.subjectsFollowed())
	must(ctx, "watching CDEventSubjects", err)
	_, err = p.sources.AddEventHandler(p.sourcesFollowed())
	must(ctx, "watching CDEventSources", err)

	trust := func(bundle *corev1.ConfigMap) {
		if err := clients.Trust(bundle); err != nil {
			logger.Errorw("A trust bundle is ignored, and its former content stays trusted", "error", err)
			return
		}
		p.delivery.TrustChanged() // what waits for a sink that was not trusted need not wait longer
	}
	_, err = p.bundles.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { with(obj, trust) },
		UpdateFunc: func(_, obj any) { with(obj, trust) },
		DeleteFunc: func(obj any) { with(obj, clients.Distrust) },
	})
	must(ctx, "watching trust bundles", err)
}

// run starts what is no controller of Knative's.
func (p *process) run(ctx, sending context.Context) {
	for _, informer := range []cache.SharedIndexInformer{p.sources, p.subjects, p.namespaces, p.bundles, p.endpoints.informer} {
		p.running.Go(func() { informer.RunWithContext(ctx) })
	}
	p.running.Go(func() { p.presence.Run(ctx) })
	// Acknowledgements are written for as long as any can come.
	noting, enough := context.WithCancel(context.WithoutCancel(ctx))
	p.running.Go(func() {
		defer close(p.noted)
		p.ledger.Run(noting, ackWorkers)
	})
	p.running.Go(func() {
		defer enough()
		if p.synced(sending) == nil {
			p.delivery.Sweep(sending, sweepEvery)
		}
		<-sending.Done()
		p.delivery.Wait()
	})
}

// wait returns when everything has ended.
func (p *process) wait() { p.running.Wait() }

// synced waits until it is known who wants to be told and what was journaled.
func (p *process) synced(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), p.sources.HasSynced, p.subjects.HasSynced, p.namespaces.HasSynced) {
		return fmt.Errorf("waiting for the caches of sources, subjects and namespaces: %w", context.Cause(ctx))
	}
	return nil
}

// since returns from when on objects of a kind are announced. It is read once.
func (p *process) since(resource string) func(context.Context) (time.Time, error) {
	var mu sync.Mutex
	var known time.Time
	return func(ctx context.Context) (time.Time, error) {
		mu.Lock()
		defer mu.Unlock()
		if !known.IsZero() {
			return known, nil
		}
		if err := p.synced(ctx); err != nil {
			return known, err
		}
		at, err := p.ledger.Baseline(ctx, resource)
		if err != nil {
			return known, fmt.Errorf("taking the baseline: %w", err)
		}
		known = at
		return known, nil
	}
}

// serviceController watches Knative Services.
func (p *process) serviceController(ctx context.Context, cmw configmap.Watcher) *controller.Impl {
	p.build(ctx, cmw)
	serving, err := versioned.NewForConfig(p.config)
	must(ctx, "making a client for Knative Serving", err)
	since := p.since(service.Resource)
	// The baseline is taken when the controller starts, not when the kind is
	// first seen: a Service that comes with Serving, later, is news.
	p.running.Go(func() {
		for ctx.Err() == nil {
			if _, err := since(ctx); err == nil {
				return
			}
			time.Sleep(time.Second)
		}
	})
	impl, services := service.NewController(ctx, service.Options{
		Client: serving, Presence: p.presence, Carried: cdevents.CarriedAnnotations(),
		Rules: func() lifecycle.Rules { return p.settings.Current().Rules() },
		Options: observer.Options{
			Ledger: p.ledger, Since: since, Promoted: p.promoted, Demoted: p.delivery.Demoted, Merged: p.metrics.Merged, Now: time.Now,
			Stopping: ctx.Done(), Reverted: p.reverted,
		},
	})
	p.services.Store(services)
	p.verdicts.Store(service.NewVerdicts(services.Saw))
	p.watchClusters(ctx, services)
	return impl
}

// isLeaderFor says whether this process leads for a watched object.
func (p *process) isLeaderFor(key types.NamespacedName) bool {
	ob := p.services.Load()
	return ob != nil && ob.IsLeaderFor(key)
}

// sourceController resolves sinks and reports how sources stand.
func (p *process) sourceController(ctx context.Context, cmw configmap.Watcher) *controller.Impl {
	p.build(ctx, cmw)
	impl := source.NewController(ctx, source.Options{
		Client: p.ours, Sources: p.sources, Deliveries: p.delivery, Credentials: p.keeper, Hosts: p.sinkHosts,
		Cluster: func() string { return p.settings.Current().ClusterURI }, Leads: p.isLeaderFor,
	})
	p.statuses.Store(impl)
	return impl
}

// promoted is told that this process leads for more objects than before: it sends
// what is owed about them, reports how sources stand, and goes on with their gates.
func (p *process) promoted(b reconciler.Bucket) {
	p.delivery.Promoted(b)
	p.resync()
	if g := p.gates.Load(); g != nil {
		g.Resync()
	}
}

// resync has the status of all sources looked at again.
func (p *process) resync() {
	if impl := p.statuses.Load(); impl != nil {
		impl.GlobalResync(p.sources)
	}
}

// sinkHosts are the hosts that the operator lets sources send to.
func (p *process) sinkHosts() hosts.List { return p.settings.Current().SinkHosts }

func (p *process) allSources() []*v1alpha1.CDEventSource {
	all, err := client.NewSourceLister(p.sources.GetIndexer()).List(labels.Everything())
	if err != nil {
		return nil // listing everything from memory cannot fail
	}
	return all
}

// sourceNames is how sources are called in metrics.
func (p *process) sourceNames() map[types.UID]string {
	out := map[types.UID]string{}
	for _, s := range p.allSources() {
		out[s.UID] = s.Namespace + "/" + s.Name
	}
	return out
}
