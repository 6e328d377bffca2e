// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"knative.dev/pkg/reconciler"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/delivery"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
	kind "github.com/knative-cdevents/knative-cdevents/reconciler/service"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// process is one controller. All of it is lost when it dies.
type process struct {
	w *world
	// watch is what its informers have delivered; leads says whether it acts on that.
	watch *watch
	leads bool
	// suspended is how many steps it does not take.
	suspended int
	// seen is how many changes of the ledger the informer has delivered.
	seen int
	// skew is the error of its clock.
	skew time.Duration
	// upTo is how far each informer has read its log.
	upTo [logs]int
	// caches are the informers' caches; kind reads them.
	caches [logs]cache.Indexer
	// position is the resourceVersion that the informer of DomainMappings has reached.
	position string
	kind     *kind.Kind
	ob       *observer.Observer
	// verdicts receives the verdicts of gates; judged are the runs that it has received.
	verdicts *kind.Verdicts
	judged   map[string]bool
	ledger   *ledger.Ledger
	acks     store.Acks
	delivery *delivery.Delivery
	// work delivers to each source, when a step chooses it.
	work map[types.UID]delivery.Work
	// looks are polls that have started and are not reported yet.
	looks []look
	queue map[types.NamespacedName]bool
	// environments watches them.
	environments *environments
	// pending are the objects with pending events.
	pending map[turn]bool
	cancel  context.CancelFunc
	ctx     context.Context //nolint:containedctx // the life of the process
}

// histories is how long a standby process keeps what it saw.
const histories = time.Hour

// all is more changes than there are.
const all = math.MaxInt

// turn is one object with pending events for one source.
type turn struct {
	key    ledger.Key
	source types.UID
}

// lead makes a process the leader.
func (p *process) lead() {
	if p.leads {
		return
	}
	w := p.w
	p.leads, p.judged = true, map[string]bool{}
	if err := p.ob.Promote(reconciler.UniversalBucket(), func(reconciler.Bucket, types.NamespacedName) {}); err != nil {
		w.fail("promotion: %v", err)
	}
	p.environments.lead()
	for source, backlog := range p.ledger.Backlogs() {
		for _, key := range backlog.Keys {
			p.pending[turn{key, source}] = true
		}
	}
}

// demote takes the lead from a process, which continues to run.
func (p *process) demote() {
	if !p.leads {
		return
	}
	p.leads = false
	p.ob.Demote(reconciler.UniversalBucket())
	p.environments.ob.Demote(reconciler.UniversalBucket())
	p.ledger.HandOver(reconciler.UniversalBucket().Has)
}

// read fills a cache from a log without notifying the observer, as a list does.
func (p *process) read(log, upTo int) {
	for ; p.upTo[log] < upTo; p.upTo[log]++ {
		p.apply(log, p.w.cluster.logs[log][p.upTo[log]])
	}
}

// apply applies a change to the cache, and returns the previous object.
func (p *process) apply(log int, c change) any {
	if log == logDomains {
		p.position = c.version
	}
	return p.w.apply(p.caches[log], c)
}

// apply applies a change to a cache, and returns the previous object.
func (w *world) apply(to cache.Indexer, c change) any {
	before, _, err := to.Get(c.obj)
	if err == nil && c.gone {
		err = to.Delete(c.obj)
	} else if err == nil {
		err = to.Update(c.obj)
	}
	if err != nil {
		w.fail("a cache: %v", err)
	}
	return before
}

// tell tells a handler of a change that was applied, as an informer does.
func (c change) tell(handler cache.ResourceEventHandler, before any) {
	switch {
	case c.gone:
		handler.OnDelete(c.obj)
	case before == nil:
		handler.OnAdd(c.obj, false)
	default:
		handler.OnUpdate(before, c.obj)
	}
}

// next lets an informer deliver the next change of a log.
func (p *process) next(log int) bool {
	if p.upTo[log] >= len(p.w.cluster.logs[log]) {
		if log == logDomains {
			p.position = p.w.store.Version() // a bookmark
		}
		return false
	}
	c := p.w.cluster.logs[log][p.upTo[log]]
	p.upTo[log]++
	c.tell(kind.Handler(p.ob), p.apply(log, c))
	return true
}

// EnqueueKey and EnqueueSlowKey implement observer.Queue.
func (p *process) EnqueueKey(key types.NamespacedName) { p.queue[key] = true }

// EnqueueSlowKey implements observer.Queue.
func (p *process) EnqueueSlowKey(key types.NamespacedName) { p.queue[key] = true }

// IsLeaderFor implements ledger.Leader and delivery.Leader.
func (p *process) IsLeaderFor(types.NamespacedName) bool { return p.leads }

// Enqueue implements ledger.Delivery.
func (p *process) Enqueue(key ledger.Key, source types.UID) { p.pending[turn{key, source}] = true }

// LeftOut implements ledger.Delivery.
func (*process) LeftOut(ledger.Key, []types.UID) {}

// Refused implements ledger.Delivery.
func (p *process) Refused(_ ledger.Key, _ types.UID, why ledger.Refusal) {
	p.w.fail("routing: %v", why.Err)
}

// reconcile reconciles one queued key.
func (p *process) reconcile() bool {
	return reconcileOne(p, p.ob, p.queue)
}

// deliver sends the pending events of one object.
func (p *process) deliver() bool {
	all := slices.SortedFunc(maps.Keys(p.pending), func(a, b turn) int {
		return cmp.Or(strings.Compare(a.key.Name, b.key.Name), strings.Compare(string(a.source), string(b.source)))
	})
	if len(all) == 0 {
		return false
	}
	one := all[p.w.rng.IntN(len(all))]
	delete(p.pending, one)
	if p.work[one.source].Deliver(one.key) > 0 {
		p.pending[one] = true
	}
	return true
}

// flush writes the acknowledgements that are held.
func (p *process) flush() {
	err := p.acks.Write(func(name string) error { return p.ledger.WriteAcks(p.ctx, name) })
	if err != nil && !apierrors.IsTimeout(err) && !apierrors.IsNotFound(err) {
		p.w.fail("acknowledging: %v", err)
	}
}

// ledgered passes a state of an entry to the ledger.
func (p *process) ledgered(o *v1alpha1.CDEventSubject) {
	if p.ledger.Observe(o) && p.environments != nil {
		p.refresh(o)
	}
}

func (p *process) refresh(o *v1alpha1.CDEventSubject) {
	switch key := ledger.KeyOf(o.Spec); key.Group {
	case platforms.Group:
		p.environments.ob.Notify(key)
	default:
		p.ob.Notify(key)
	}
}

// follow lets the informer deliver the next changes of the ledger, at most n.
func (p *process) follow(n int) {
	all := p.w.store.Changes(p.seen)
	for _, c := range all[:min(n, len(all))] {
		p.seen++
		if !c.Deleted {
			p.ledgered(c.Object)
			continue
		}
		p.ledger.Forget(c.Object, true)
		p.refresh(c.Object)
	}
}

// relist lets the informer list everything again, and deliver it in any order.
func (p *process) relist() {
	if p.w.with.vandals {
		p.follow(all) // nobody restores an entry that was deleted while no watch worked
	}
	for _, c := range p.w.store.Changes(p.seen) {
		if p.seen++; c.Deleted {
			p.ledger.Forget(c.Object, false) // its last state is not known
		}
	}
	all := p.w.store.All()
	p.w.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, o := range all {
		p.ledgered(o)
	}
}

// vandalise deletes an entry, as a user might, unless its object is gone: nobody restores that.
func (p *process) vandalise() {
	names := p.w.store.Names()
	if len(names) == 0 {
		return
	}
	o := p.w.store.Peek(names[p.w.rng.IntN(len(names))])
	if o.Status.Removed {
		return
	}
	p.w.silent += 2
	p.w.store.Remove(o.Name)
	if p.w.rng.IntN(2) == 0 {
		p.follow(all) // otherwise a write may notice first
	}
}

// overtake lets the watch of the ledger go on while a request of a process is under way.
func (w *world) overtake(name string) {
	p := w.acting
	if !w.with.overtakes || p == nil || w.rng.IntN(3) > 0 {
		return
	}
	limit := 1
	if w.with.leaders {
		limit = 2
	}
	if o := w.store.Peek(name); w.with.vandals && len(w.processes) == limit && o != nil && !o.Status.Removed &&
		w.rng.IntN(30) == 0 {
		for _, other := range w.processes {
			if other != p {
				other.follow(all) // who has not seen an entry cannot restore it
			}
		}
		w.silent += 2
		w.store.Remove(name)
	}
	p.follow(1 + w.rng.IntN(4))
}

// meanwhile lets a process do something else while it waits for the answer of a sink.
func (w *world) meanwhile() {
	p := w.acting
	if !w.with.overtakes || p == nil {
		return
	}
	switch w.rng.IntN(12) {
	case 0:
		p.follow(1 + w.rng.IntN(4))
	case 1:
		p.flush()
	case 2:
		p.reconcile()
	case 3:
		p.next(w.rng.IntN(logs))
	case 4:
		p.collect()
	}
}

// collect deletes finished entries. It keeps an entry for longer than histories while a
// history may still contain its object: that of a standby, or of a process that lost the lead and regains it.
func (p *process) collect() {
	keep := 2 * histories
	if p.leads && !p.w.with.leaders && len(p.w.processes) == 1 && len(p.queue)+len(p.environments.queue) == 0 {
		keep = 30 * time.Second
	}
	if err := p.ledger.Collect(p.ctx, p.w.cluster.now, keep); err != nil && !apierrors.IsTimeout(err) {
		p.w.fail("collecting: %v", err)
	}
}
