// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"knative.dev/pkg/logging"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/cdevents"
	"github.com/knative-cdevents/knative-cdevents/emitter/delivery"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/emitter/route"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
	kind "github.com/knative-cdevents/knative-cdevents/reconciler/service"
)

// start starts a process as a new leader, from a list that may be stale and from the
// ledger, whose informer may lag behind too.
func (w *world) start() *process {
	ctx, cancel := context.WithCancel(logging.WithLogger(context.Background(), w.log))
	p := &process{
		w: w, ctx: ctx, cancel: cancel, position: "1", judged: map[string]bool{}, queue: map[types.NamespacedName]bool{},
		pending: map[turn]bool{}, work: map[types.UID]delivery.Work{},
	}
	if w.with.clocks {
		p.skew = time.Duration(w.rng.IntN(7200)-3600) * time.Second
	}
	p.startEmitter()
	p.startObserver()
	p.startEnvironments()
	p.list()
	p.watch = &watch{era: w.cluster.era, from: p.upTo[logRoutes]}
	w.watches = append(w.watches, p.watch)
	if w.rng.IntN(2) == 0 {
		p.lead()
		p.ob.Start()
		p.environments.ob.Start()
	} else {
		p.ob.Start()
		p.environments.ob.Start()
		p.lead()
	}
	return p
}

// startEmitter creates the ledger and the delivery.
func (p *process) startEmitter() {
	w := p.w
	router := &route.Router{
		Sources:   sources{w},
		Namespace: func(string) (map[string]string, bool, error) { return nil, false, nil },
		Settings:  settings{},
		Render:    cdevents.Render,
	}
	p.ledger = ledger.New(w.client(), router, w, ledger.WithAcks(&p.acks), ledger.WithMaxHeld(1+w.rng.IntN(4)),
		ledger.WithLeader(p))
	p.ledger.UseDelivery(p)
	p.delivery = delivery.New(p.ctx, delivery.Options{
		Ledger: impatient{p.ledger}, Transport: w, Render: cdevents.Render, Metrics: w,
		ProbeEvery: time.Nanosecond,
		NewQueue:   p.newQueue,
		Leader:     p,
	})
	for _, s := range w.sources {
		p.delivery.UpdateSource(s)
	}
	p.seen = len(w.store.Changes(0))
	for _, o := range w.store.All() {
		p.ledger.Observe(o)
	}
}

// startObserver creates the watched kind and its observer.
func (p *process) startObserver() {
	w := p.w
	p.kind = kind.NewKind(api{w: w}, cdevents.CarriedAnnotations(), installed{}, settings{})
	for log := range p.caches {
		p.caches[log] = cache.NewIndexer(cache.MetaNamespaceKeyFunc, kind.Indexers())
	}
	p.kind.Use(p.caches[:], func() string { return p.position })
	p.ob = observer.New(observer.Options{
		Kind: p.kind, Ledger: p.ledger, Now: func() time.Time { return w.cluster.now.Add(p.skew) },
		Keep:  histories,
		Since: func(ctx context.Context) (time.Time, error) { return w.baselines().Since(ctx, "services") },
	})
	p.ob.Bind(p)
	p.verdicts = kind.NewVerdicts(p.ob)
}

// list fills the caches. Each informer may lag behind by a different number of changes.
func (p *process) list() {
	w := p.w
	for log := range p.upTo {
		lag := 0
		if w.rng.IntN(3) == 0 {
			lag = w.rng.IntN(6)
		}
		if p.read(log, max(w.cluster.floor[log], len(w.cluster.logs[log])-lag)); lag == 0 && log == logDomains {
			p.position = w.store.Version()
		}
	}
}

// sources are those of a world, as they are when the router looks. It implements route.Sources.
type sources struct{ w *world }

func (s sources) Of(namespace string) []*v1alpha1.CDEventSource {
	return slices.DeleteFunc(slices.Clone(s.w.sources), func(s *v1alpha1.CDEventSource) bool { return s.Namespace != namespace })
}

func (s sources) ByUID(uid types.UID) *v1alpha1.CDEventSource {
	if i := slices.IndexFunc(s.w.sources, func(s *v1alpha1.CDEventSource) bool { return s.UID == uid }); i >= 0 {
		return s.w.sources[i]
	}
	return nil
}

// installed is a cluster with Serving. It implements kind.Presence.
type installed struct{}

func (installed) Synced() bool       { return true }
func (installed) Has(...string) bool { return true }

// settings are those of the operator.
type settings struct{}

// ClusterURI implements route.Settings.
func (settings) ClusterURI() string { return "https://cluster.example.com" }

// Environment implements route.Settings.
func (settings) Environment() v1alpha1.Environment { return v1alpha1.Environment{ID: "sim"} }

// Rules implements observer.Settings. They are the default, except that a process at rest does not have to wait for
// long until a new Service is an incident.
func (settings) Rules() lifecycle.Rules {
	rules := lifecycle.DefaultRules
	rules.NotDeployedAfter = 5 * time.Second
	return rules
}
