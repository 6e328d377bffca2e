package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/apis"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/reconciler"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/cdevents"
	"github.com/knative-cdevents/knative-cdevents/emitter/delivery"
	"github.com/knative-cdevents/knative-cdevents/emitter/delivery/sender"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/reconciler/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
)

// sourceUID is the one source of the simulation.
const sourceUID = types.UID("source")

// errCrash is thrown, as a panic, at the side effect at which a process dies.
var errCrash = errors.New("crash")

// process is one controller: everything in it is lost when it dies.
type process struct {
	w *world
	// started numbers the processes of a world.
	started int
	// upTo is how far each informer has read its log.
	upTo   [3]int
	cache  map[types.NamespacedName]observer.Parts
	ob     *observer.Observer
	ledger *ledger.Ledger
	send   *delivery.Delivery
	queue  map[types.NamespacedName]bool
	owed   map[ledger.Key]bool
	cancel context.CancelFunc
	ctx    context.Context //nolint:containedctx // the life of the process
}

// start begins as a new leader does: from a list that may be old, and from the
// ledger, of which the informer may show an old state too.
func (w *world) start() *process {
	ctx := logging.WithLogger(context.Background(), w.quiet)
	ctx, cancel := context.WithCancel(ctx)
	p := &process{w: w, cache: map[types.NamespacedName]observer.Parts{}, queue: map[types.NamespacedName]bool{}, owed: map[ledger.Key]bool{}, ctx: ctx, cancel: cancel}
	w.lastStart++
	p.started = w.lastStart
	router := &delivery.Router{
		Sources:     func() []*v1alpha1.CDEventSource { return []*v1alpha1.CDEventSource{w.source} },
		Namespace:   func(string) (map[string]string, bool) { return nil, false },
		Cluster:     func() string { return "https://cluster.example.com" },
		Environment: func() v1alpha1.Environment { return v1alpha1.Environment{ID: "sim"} },
		Render:      cdevents.Render,
		Trouble:     func(_ *v1alpha1.CDEventSource, err error) { w.fail("routing: %v", err) },
	}
	p.ledger = ledger.New(w.store, router, w)
	p.send = delivery.New(ctx, delivery.Options{
		Ledger: p.ledger, Sender: w, Render: cdevents.Render, Metrics: w, WorkersPerSource: -1, ProbeEvery: time.Nanosecond,
		Leads: func(types.NamespacedName) bool { return true },
	})
	p.ledger.OnOwed(func(key ledger.Key, _ types.UID) { p.owed[key] = true })
	p.send.Source(w.source)
	for _, o := range w.store.All() {
		p.ledger.Observe(o)
	}
	p.ob = observer.New(observer.Options{
		Kind: p, Ledger: p.ledger, Now: func() time.Time { return w.cluster.now }, Rules: func() lifecycle.Rules { return lifecycle.DefaultRules },
		Since: func(ctx context.Context) (time.Time, error) { return p.ledger.Baseline(ctx, "services") },
	})
	p.ob.Bind(p)
	// The list is as old as the furthest behind of its informers.
	for log := range p.upTo {
		lag := 0
		if w.rng.IntN(3) == 0 {
			lag = w.rng.IntN(6)
		}
		p.read(log, max(0, len(w.cluster.logs[log])-lag))
	}
	if err := p.ob.Promote(reconciler.UniversalBucket(), func(reconciler.Bucket, types.NamespacedName) {}); err != nil {
		w.fail("promotion: %v", err)
	}
	p.ob.Start()
	for _, key := range p.ledger.Standings()[sourceUID].Keys {
		p.owed[key] = true
	}
	return p
}

// read fills the cache from a log without telling the observer: a list.
func (p *process) read(log, upTo int) {
	for ; p.upTo[log] < upTo; p.upTo[log]++ {
		p.apply(p.w.cluster.logs[log][p.upTo[log]])
	}
}

func (p *process) apply(c change) {
	parts := p.cache[c.key]
	if parts == nil {
		parts = observer.Parts{}
		p.cache[c.key] = parts
	}
	if c.part.Value == nil {
		delete(parts, c.part.Name)
		return
	}
	parts[c.part.Name] = c.part
}

// watch hands the next change of a log to the observer.
func (p *process) watch(log int) bool {
	if p.upTo[log] >= len(p.w.cluster.logs[log]) {
		return false
	}
	c := p.w.cluster.logs[log][p.upTo[log]]
	p.upTo[log]++
	p.apply(c)
	p.ob.Saw(c.key, c.part)
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
	} else if err != nil {
		p.w.fail("reconciling %s: %v", key, err)
	}
	return true
}

// deliver sends what is owed about one object.
func (p *process) deliver() bool {
	keys := slices.SortedFunc(maps.Keys(p.owed), func(a, b ledger.Key) int { return strings.Compare(a.Name, b.Name) })
	if len(keys) == 0 {
		return false
	}
	key := keys[p.w.rng.IntN(len(keys))]
	delete(p.owed, key)
	if p.send.Deliver(p.ctx, key, sourceUID) > 0 {
		p.owed[key] = true
	}
	return true
}

// flush writes what was acknowledged.
func (p *process) flush() {
	if err := p.ledger.Flush(p.ctx); err != nil {
		p.w.fail("acknowledging: %v", err)
	}
}

// ledgered hands a written entry to the ledger, as its informer would.
func (p *process) ledgered(o *v1alpha1.CDEventSubject) {
	if p.ledger.Observe(o) {
		p.ob.Ledgered(ledger.KeyOf(o.Spec))
	}
}

// collect deletes what is finished.
func (p *process) collect(before time.Time) {
	if err := p.ledger.Collect(p.ctx, before); err != nil {
		p.w.fail("collecting: %v", err)
	}
}

// The observer's view of the kind.

// APIVersion implements observer.Kind.
func (*process) APIVersion() string { return "serving.knative.dev/v1" }

// Name implements observer.Kind.
func (*process) Name() string { return "Service" }

// Served implements observer.Kind.
func (*process) Served() bool { return true }

// Keys implements observer.Kind.
func (p *process) Keys() []types.NamespacedName { return slices.Collect(maps.Keys(p.cache)) }

// Cached implements observer.Kind.
func (p *process) Cached(key types.NamespacedName) observer.Parts { return maps.Clone(p.cache[key]) }

// Live implements observer.Kind.
func (p *process) Live(_ context.Context, key types.NamespacedName) (types.UID, error) {
	if s, ok := p.w.cluster.live[key]; ok {
		return s.uid, nil
	}
	return "", nil
}

// Fetch implements observer.Kind.
func (p *process) Fetch(_ context.Context, namespace string, revisions []string) (observer.Parts, error) {
	out := observer.Parts{}
	for key, s := range p.w.cluster.live {
		for _, r := range revisions {
			if part, ok := s.parts[partRevision+r]; ok && key.Namespace == namespace {
				out[part.Name] = part
			}
		}
	}
	return out, nil
}

// Compose implements observer.Kind.
func (*process) Compose(parts observer.Parts) *observer.Subject {
	svc, ok := parts[partService].Value.(serviceValue)
	if !ok {
		return nil
	}
	s := lifecycle.Snapshot{
		Seen: map[string]string{partService: parts[partService].Version}, Generation: svc.Gen, Ready: svc.Ready,
		Revisions: map[string]lifecycle.Revision{},
	}
	for _, part := range parts {
		switch v := part.Value.(type) {
		case routeValue:
			if v.Owner == svc.UID {
				route := v.Route
				s.Route = &route
				s.Seen[partRoute] = part.Version
			}
		case revisionValue:
			if v.Owner == svc.UID {
				s.Revisions[v.Facts.Name] = v.Facts
			}
		}
	}
	return &observer.Subject{UID: svc.UID, Created: svc.Created, Snapshot: s}
}

// The sink, and the metrics that nobody reads here.

// Send implements delivery.Sender: the sink keeps what it gets, and sometimes
// its answer is lost on the way back.
func (w *world) Send(_ context.Context, _ sender.Target, ev event.Event, _ sender.Policy) sender.Outcome {
	w.effect("send")
	if w.sinkDown {
		return sender.Outcome{Class: sender.Retry, Status: 503, Err: errors.New("503")}
	}
	raw, err := ev.MarshalJSON()
	if err != nil {
		w.fail("an event cannot be encoded: %v", err)
	}
	w.received(ev, string(raw))
	w.effect("sent")
	if w.flaky && w.rng.IntN(20) == 0 {
		return sender.Outcome{Class: sender.Retry, Err: errors.New("the answer was lost")}
	}
	return sender.Outcome{Class: sender.Acknowledged, Status: 202}
}

// Forget implements delivery.Sender.
func (*world) Forget(types.UID) {}

// Attempt and the others implement the metrics.
func (*world) Attempt(string, string) {}

// Delivered implements delivery.Metrics.
func (*world) Delivered(string, string, time.Duration) {}

// DeadLetter implements delivery.Metrics.
func (*world) DeadLetter(string) {}

// Conflict implements ledger.Metrics.
func (*world) Conflict() {}

// Dropped implements ledger.Metrics: nothing may be given up here.
func (w *world) Dropped(reason string, n int64) { w.fail("%d events dropped: %s", n, reason) }

func newSource() *v1alpha1.CDEventSource {
	sink, err := apis.ParseURL("http://sink.example.com")
	if err != nil {
		panic(fmt.Sprintf("a constant URL does not parse: %v", err))
	}
	s := &v1alpha1.CDEventSource{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "all", UID: sourceUID}}
	s.Status.SinkURI = sink
	return s
}
