package sim

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/reconciler"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/cdevents"
	"github.com/knative-cdevents/knative-cdevents/emitter/delivery"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
	kind "github.com/knative-cdevents/knative-cdevents/reconciler/service"
)

// errCrash is thrown, as a panic, at the side effect at which a process dies.
var errCrash = errors.New("crash")

// process is one controller: everything in it is lost when it dies.
type process struct {
	w *world
	// watch is what it has been told of; leads says whether it acts on it.
	watch *watch
	leads bool
	// gone are the entries whose deletion the informer has not told yet.
	gone []*v1alpha1.CDEventSubject
	// skew is by how much its clock is wrong.
	skew time.Duration
	// upTo is how far each informer has read its log.
	upTo [logs]int
	// caches are those of the informers, and kind reads them.
	caches [logs]cache.Indexer
	// position is the version up to which the informer of DomainMappings has read.
	position string
	kind     *kind.Kind
	ob       *observer.Observer
	// verdicts are told by the gates of this process, judged says which.
	verdicts *kind.Verdicts
	judged   map[string]bool
	ledger   *ledger.Ledger
	send     *delivery.Delivery
	// work is what there is to do for each source, when it is its turn.
	work map[types.UID]delivery.Work
	// looks were begun and not told of.
	looks  []look
	queue  map[types.NamespacedName]bool
	owed   map[debt]bool
	cancel context.CancelFunc
	ctx    context.Context //nolint:containedctx // the life of the process
}

// histories is how long a process that stands by keeps what it saw.
const histories = time.Hour

// debt is one object that something is owed about to one source.
type debt struct {
	key    ledger.Key
	source types.UID
}

// start begins as a new leader does: from a list that may be old, and from the
// ledger, of which the informer may show an old state too.
func (w *world) start() *process {
	ctx := logging.WithLogger(context.Background(), w.quiet)
	ctx, cancel := context.WithCancel(ctx)
	p := &process{w: w, position: "1", judged: map[string]bool{}, queue: map[types.NamespacedName]bool{}, owed: map[debt]bool{}, work: map[types.UID]delivery.Work{}, ctx: ctx, cancel: cancel}
	if w.with.clocks {
		p.skew = time.Duration(w.rng.IntN(7200)-3600) * time.Second
	}
	router := &delivery.Router{
		Sources:     func() []*v1alpha1.CDEventSource { return w.sources },
		Namespace:   func(string) (map[string]string, bool, error) { return nil, false, nil },
		Cluster:     func() string { return "https://cluster.example.com" },
		Environment: func() v1alpha1.Environment { return v1alpha1.Environment{ID: "sim"} },
		Render:      cdevents.Render,
	}
	p.ledger = ledger.New(w.store, router, w)
	p.ledger.OnRefused(func(_ ledger.Key, _ types.UID, why ledger.Refusal) { w.fail("routing: %v", why.Err) })
	p.send = delivery.New(ctx, delivery.Options{
		Ledger: p.ledger, Transports: delivery.HTTP(w), Render: cdevents.Render, Metrics: w, ProbeEvery: time.Nanosecond,
		NewQueue: p.newQueue,
		Leads:    func(types.NamespacedName) bool { return p.leads },
	})
	p.ledger.OnOwed(func(key ledger.Key, source types.UID) { p.owed[debt{key, source}] = true })
	for _, s := range w.sources {
		p.send.UpdateSource(s)
	}
	for _, name := range w.store.Names() {
		p.ledger.Observe(w.store.Peek(name))
	}
	p.kind = kind.NewKind(api{w: w}, cdevents.CarriedAnnotations(), func() bool { return true }, func() lifecycle.Rules { return lifecycle.DefaultRules })
	for log := range p.caches {
		p.caches[log] = cache.NewIndexer(cache.MetaNamespaceKeyFunc, kind.Indexers())
	}
	p.kind.Use(p.caches[:], func() string { return p.position })
	p.ob = observer.New(observer.Options{
		Kind: p.kind, Ledger: p.ledger, Now: func() time.Time { return w.cluster.now.Add(p.skew) },
		Keep:  histories,
		Since: func(ctx context.Context) (time.Time, error) { return p.ledger.Baseline(ctx, "services") },
	})
	p.ob.Bind(p)
	p.verdicts = kind.NewVerdicts(p.ob.Saw)
	// The list is as old as the furthest behind of its informers.
	for log := range p.upTo {
		lag := 0
		if w.rng.IntN(3) == 0 {
			lag = w.rng.IntN(6)
		}
		if p.read(log, max(w.cluster.floor[log], len(w.cluster.logs[log])-lag)); lag == 0 && log == logDomains {
			p.position = w.store.Version()
		}
	}
	p.watch = &watch{era: w.cluster.era, from: p.upTo[logRoutes]}
	w.watches = append(w.watches, p.watch)
	if w.rng.IntN(2) == 0 {
		p.lead()
		p.ob.Start()
	} else {
		p.ob.Start()
		p.lead()
	}
	return p
}

// lead makes a process the leader, which is told what there is to do.
func (p *process) lead() {
	if p.leads {
		return
	}
	w := p.w
	p.leads, p.judged = true, map[string]bool{}
	if err := p.ob.Promote(reconciler.UniversalBucket(), func(reconciler.Bucket, types.NamespacedName) {}); err != nil {
		w.fail("promotion: %v", err)
	}
	for source, standing := range p.ledger.Standings() {
		for _, key := range standing.Keys {
			p.owed[debt{key, source}] = true
		}
	}
}

// demote takes the lead from a process, which lives on.
func (p *process) demote() {
	if !p.leads {
		return
	}
	p.leads = false
	p.ob.Demote(reconciler.UniversalBucket())
}

// read fills the cache from a log without telling the observer: a list.
func (p *process) read(log, upTo int) {
	for ; p.upTo[log] < upTo; p.upTo[log]++ {
		p.apply(log, p.w.cluster.logs[log][p.upTo[log]])
	}
}

// apply takes a change into the cache. It returns what was there before.
func (p *process) apply(log int, c change) any {
	if log == logDomains {
		p.position = c.version
	}
	before, _, err := p.caches[log].Get(c.obj)
	if err == nil && c.gone {
		err = p.caches[log].Delete(c.obj)
	} else if err == nil {
		err = p.caches[log].Update(c.obj)
	}
	if err != nil {
		p.w.fail("a cache: %v", err)
	}
	return before
}

// next has an informer tell of the next change of a log.
func (p *process) next(log int) bool {
	if p.upTo[log] >= len(p.w.cluster.logs[log]) {
		if log == logDomains {
			p.position = p.w.store.Version() // a bookmark
		}
		return false
	}
	c := p.w.cluster.logs[log][p.upTo[log]]
	p.upTo[log]++
	before := p.apply(log, c)
	switch handler := kind.Handler(p.ob); {
	case c.gone:
		handler.OnDelete(c.obj)
	case before == nil:
		handler.OnAdd(c.obj, false)
	default:
		handler.OnUpdate(before, c.obj)
	}
	return true
}

// EnqueueKey and EnqueueSlowKey implement observer.Queue.
func (p *process) EnqueueKey(key types.NamespacedName) { p.queue[key] = true }

// EnqueueSlowKey implements observer.Queue.
func (p *process) EnqueueSlowKey(key types.NamespacedName) { p.queue[key] = true }

// reconcile folds one key that is in the queue.
func (p *process) reconcile() bool {
	keys := slices.SortedFunc(maps.Keys(p.queue), func(a, b types.NamespacedName) int { return strings.Compare(a.Name, b.Name) })
	if len(keys) == 0 {
		return false
	}
	key := keys[p.w.rng.IntN(len(keys))]
	delete(p.queue, key)
	err := p.ob.Reconcile(p.ctx, key.String())
	if again, _ := controller.IsRequeueKey(err); again {
		p.queue[key] = true
	} else if err != nil && !controller.IsSkipKey(err) {
		p.w.fail("reconciling %s: %v", key, err)
	}
	return true
}

// deliver sends what is pending about one object.
func (p *process) deliver() bool {
	all := slices.SortedFunc(maps.Keys(p.owed), func(a, b debt) int {
		return cmp.Or(strings.Compare(a.key.Name, b.key.Name), strings.Compare(string(a.source), string(b.source)))
	})
	if len(all) == 0 {
		return false
	}
	one := all[p.w.rng.IntN(len(all))]
	delete(p.owed, one)
	if p.work[one.source].Deliver(one.key) > 0 {
		p.owed[one] = true
	}
	return true
}

// flush writes what was acknowledged.
func (p *process) flush() {
	if err := p.ledger.Flush(p.ctx); err != nil && !apierrors.IsTimeout(err) && !apierrors.IsNotFound(err) {
		p.w.fail("acknowledging: %v", err)
	}
}

// ledgered hands a written entry to the ledger, as its informer would.
func (p *process) ledgered(o *v1alpha1.CDEventSubject) {
	if p.ledger.Observe(o) {
		p.ob.Ledgered(ledger.KeyOf(o.Spec))
	}
}

// vandalise deletes an entry by hand.
func (p *process) vandalise() {
	names := p.w.store.Names()
	if len(names) == 0 {
		return
	}
	o := p.w.store.Peek(names[p.w.rng.IntN(len(names))])
	if o.Spec.Kind == ledger.BaselineKind || o.Status.Removed {
		return
	}
	p.w.silent += 2
	p.w.store.Remove(o.Name)
	p.gone = append(p.gone, o)
	if p.w.rng.IntN(2) == 0 {
		p.notice() // else a write may find out first
	}
}

// notice has the informer tell of what was deleted.
func (p *process) notice() {
	for _, o := range p.gone {
		p.ledger.Forget(o, true)
	}
	p.gone = nil
}

// collect deletes what is finished. Where a history may be folded that shows it still, it
// is kept for longer than histories are.
func (p *process) collect() {
	keep := 2 * histories
	if p.leads && len(p.w.processes) == 1 && len(p.queue) == 0 {
		keep = 30 * time.Second
	}
	if err := p.ledger.Collect(p.ctx, p.w.cluster.now, keep); err != nil && !apierrors.IsTimeout(err) {
		p.w.fail("collecting: %v", err)
	}
}
