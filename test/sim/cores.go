// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/logging"
	"knative.dev/serving/pkg/apis/serving"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
	servingv1beta1 "knative.dev/serving/pkg/apis/serving/v1beta1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/reconciler/oneshot"
	"github.com/knative-cdevents/knative-cdevents/reconciler/source"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// cores is what a history has instead of resident processes: one-shot cores, and whoever rings them.
type cores struct {
	// calls are those under way, of which current has its turn. At most most are.
	calls   []*coreCall
	current *coreCall
	most    int
	// turns counts turns: it is the time in which calls overlap.
	turns int
	// rings are the Services that somebody is to be asked about. Lossy rings get lost, or come twice.
	rings  []types.NamespacedName
	lossy  bool
	sights map[types.NamespacedName][]*sight
	// domains says which Service a DomainMapping referred to last.
	domains  map[string]string
	requests int
	looks    int
	answered int
	// reads counts objects that were read by name.
	reads int
	// lists are the lists of which more pages may be asked for, and listed counts these pages.
	lists  map[string]rest
	listed int
}

// coreCall is one call of a core, in a process of its own. It runs until its next request, and then waits for its next
// turn, or dies.
type coreCall struct {
	w *world
	// of is whom it was asked about, nil for everything.
	of    *types.NamespacedName
	turns chan bool // false: it dies
	waits chan struct{}
	// until is when its sleep ends, and skew the error of its clock.
	until time.Time
	skew  time.Duration

	over, lived bool
	err         error
	// fresh says that a look has begun, which has not read the Route yet; uid is that of the Service that it has read.
	fresh  bool
	uid    types.UID
	sights []*sight
	// lists are what lists have shown of Services at which it has not looked since.
	lists map[types.NamespacedName]*sight
}

// sight is what a look has seen of a Service: its Route as of a position in the log of Routes.
type sight struct {
	uid types.UID
	at  int
	// from and to are the turns between which it was read, and everything that follows from it was journaled.
	from, to int
	// answered says that whoever asked was told that this is done.
	answered bool
}

// startCores has one-shot cores in a history, at most so many at once.
func (w *world) startCores(most int, lossy bool) {
	w.cores = &cores{most: most, lossy: lossy, sights: map[types.NamespacedName][]*sight{}, domains: map[string]string{}, lists: map[string]rest{}}
	w.cluster.wrote = w.changed
}

// changed rings for each Service that an object belongs to, or belonged to.
func (w *world) changed(o object) {
	names := []string{o.GetName()}
	switch o := o.(type) {
	case *servingv1.Revision:
		names = []string{o.Labels[serving.ServiceLabelKey]}
	case *servingv1beta1.DomainMapping:
		names = []string{o.Spec.Ref.Name}
		if was := w.cores.domains[o.Name]; was != "" {
			names = append(names, was)
		}
		w.cores.domains[o.Name] = o.Spec.Ref.Name
	}
	for _, name := range names {
		times := 1
		if w.cores.lossy {
			times = []int{0, 1, 1, 1, 2}[w.rng.IntN(5)]
		}
		for range times {
			w.ring(types.NamespacedName{Namespace: o.GetNamespace(), Name: name})
		}
	}
}

func (w *world) ring(key types.NamespacedName) { w.cores.rings = append(w.cores.rings, key) }

// ask starts a call.
func (w *world) ask(of *types.NamespacedName) *coreCall {
	c := &coreCall{w: w, of: of, turns: make(chan bool), waits: make(chan struct{})}
	if w.with.clocks {
		c.skew = time.Duration(w.rng.IntN(4000)-2000) * time.Millisecond
	}
	w.cores.calls = append(w.cores.calls, c)
	go func() {
		defer func() { c.over = true; c.waits <- struct{}{} }()
		if !<-c.turns {
			return
		}
		c.err = c.run()
		c.lived = true
	}()
	return c
}

// turn lets a call continue, or die.
func (w *world) turn(c *coreCall, lives bool) {
	w.cores.turns++
	w.cores.current = c
	c.turns <- lives
	<-c.waits
	w.cores.current = nil
	if !c.over {
		return
	}
	w.cores.calls = slices.DeleteFunc(w.cores.calls, func(o *coreCall) bool { return o == c })
	c.leave(c.lived && c.err == nil)
	switch {
	case c.lived && c.err == nil:
		w.cores.answered++
		return
	case !c.lived:
		w.crashes++
	}
	if c.of != nil {
		w.ring(*c.of) // nobody was told that it is done
	}
}

// leave ends the sights of a call.
func (c *coreCall) leave(answered bool) {
	for _, s := range slices.AppendSeq(c.sights, maps.Values(c.lists)) {
		if s.answered = answered; s.to == math.MaxInt {
			s.to = c.w.cores.turns
		}
	}
}

// pause ends the turn of a call, if one has it.
func (w *world) pause() {
	if w.cores == nil || w.cores.current == nil {
		return
	}
	c := w.cores.current
	w.cores.requests++
	c.waits <- struct{}{}
	if !<-c.turns {
		runtime.Goexit()
	}
}

// sees notes which Service a call has read.
func (w *world) sees(uid types.UID) {
	if w.cores != nil && w.cores.current != nil {
		w.cores.current.uid = uid
	}
}

// seesRoute notes that a call has read the Route of a Service. The first read of each look counts.
func (w *world) seesRoute(name string) {
	if w.cores == nil || w.cores.current == nil || !w.cores.current.fresh {
		return
	}
	c := w.cores.current
	c.fresh = false
	if n := len(c.sights); n > 0 {
		c.sights[n-1].to = w.cores.turns // a look follows only if the one before it is done
	}
	s := &sight{uid: c.uid, at: len(w.cluster.logs[logRoutes]), from: w.cores.turns, to: math.MaxInt}
	key := types.NamespacedName{Namespace: "ns", Name: name}
	c.sights, w.cores.sights[key] = append(c.sights, s), append(w.cores.sights[key], s)
	w.cores.looks++
}

// listsRoutes notes that a call has listed all Routes.
func (w *world) listsRoutes() {
	c := w.cores.current
	if c == nil {
		return
	}
	c.lists = map[types.NamespacedName]*sight{}
	for key, s := range w.cluster.live {
		if s.objects[partRoute] == nil {
			continue
		}
		c.lists[key] = &sight{uid: s.uid, at: len(w.cluster.logs[logRoutes]), from: w.cores.turns, to: math.MaxInt}
		w.cores.sights[key] = append(w.cores.sights[key], c.lists[key])
	}
}

// decides notes that a call has decided, from lists, at what to look.
func (c *coreCall) decides() {
	for _, s := range c.lists {
		if s.to == math.MaxInt {
			s.to = c.w.cores.turns
		}
	}
}

// reads notes that an object is read by name. If it is a Service, what lists have shown of it does not count any more.
func (w *world) reads(name string) {
	if w.cores == nil || w.cores.current == nil {
		return
	}
	w.cores.reads++
	c, key := w.cores.current, types.NamespacedName{Namespace: "ns", Name: name}
	if s := c.lists[key]; s != nil {
		delete(c.lists, key)
		w.cores.sights[key] = slices.DeleteFunc(w.cores.sights[key], func(o *sight) bool { return o == s })
	}
}

// sighted reports whether a split must be announced: a look has read the Route as it was then, whoever asked for it was
// told that it is done, and no other look that it overlaps has read another state of it. One that has read a later state
// may have journaled that first. One that has read an earlier state may journal that last: to this look, nothing has
// changed if the split is what it was before that one. The other look then looks again, which may be too late.
func (w *world) sighted(s *service, c commit) bool {
	all := w.cores.sights[s.key]
	return slices.ContainsFunc(all, func(a *sight) bool {
		if !a.answered || a.uid != s.uid || a.at <= c.at || c.until >= 0 && a.at > c.until {
			return false
		}
		return !slices.ContainsFunc(all, func(b *sight) bool {
			other := b.at <= c.at || c.until >= 0 && b.at > c.until
			return b != a && other && b.from <= a.to && a.from <= b.to
		})
	})
}

// differs reports whether a split was another one than what is known to have been seen before it. If it is the same
// again, and nobody is known to have seen what was in between, nothing has changed.
func (w *world) differs(s *service, c commit) bool {
	for i := slices.IndexFunc(s.splits, func(o commit) bool { return o.at == c.at }) - 1; i >= 0; i-- {
		if slices.Equal(s.splits[i].split, c.split) {
			return false
		}
		if w.sighted(s, s.splits[i]) {
			return true
		}
	}
	return true
}

// run calls a core.
func (c *coreCall) run() error {
	ctx := logging.WithLogger(context.Background(), c.w.log)
	core := oneshot.New(c.w.coreOptions(c))
	if c.of == nil {
		return core.Sweep(ctx)
	}
	_, err := core.Process(ctx, *c.of)
	return err
}

func (w *world) coreOptions(c *coreCall) oneshot.Options {
	return oneshot.Options{
		Serving: api{w: w}, Subjects: entries{w.store, w}, Baselines: w.baselines(),
		Sources: func(_ context.Context, namespace string, _ metav1.ListOptions) (*v1alpha1.CDEventSourceList, error) {
			w.pause()
			out := &v1alpha1.CDEventSourceList{}
			for _, s := range w.sources {
				if namespace == "" || s.Namespace == namespace {
					out.Items = append(out.Items, *s)
				}
			}
			return out, w.mishap("list", "sources", "before")
		},
		Settings:  func(context.Context) (oneshot.Settings, error) { return settings{}, nil },
		Namespace: func(context.Context, string) (map[string]string, bool, error) { return nil, false, nil },
		Installed: func(context.Context, ...string) (bool, error) { return true, nil },
		Resolve: func(context.Context, *v1alpha1.CDEventSource, []*v1alpha1.CDEventSource, source.Deliveries) error {
			return nil
		},
		Prepare:   func(context.Context) error { return nil },
		Transport: w, Metrics: w, SystemNamespace: "knative-cdevents", Parallel: 1,
		Now: func() time.Time { return w.cluster.now.Add(c.skew) }, Random: w.rng.Float64,
		Sleep: func(_ context.Context, d time.Duration) error {
			for c.until = w.cluster.now.Add(d); w.cluster.now.Before(c.until); {
				w.pause()
			}
			return nil
		},
	}
}

// entries are the CDEventSubjects. To list those of one object is how a look begins.
type entries struct {
	*store.Store
	w *world
}

// List implements oneshot.Subjects.
func (e entries) List(ctx context.Context, opts metav1.ListOptions) (*v1alpha1.CDEventSubjectList, error) {
	c := e.w.cores.current
	if c != nil {
		c.fresh = opts.FieldSelector != ""
	}
	if opts.FieldSelector != "" {
		return e.Store.List(ctx, opts) //nolint:wrapcheck // as the API server says it
	}
	out, all := &v1alpha1.CDEventSubjectList{}, &v1alpha1.CDEventSubjectList{}
	if opts.Continue == "" {
		var err error
		if all, err = e.Store.List(ctx, metav1.ListOptions{}); err != nil {
			return nil, err //nolint:wrapcheck // as the API server says it
		}
	}
	err := page(e.w, opts, &out.ListMeta, &out.Items, func() []v1alpha1.CDEventSubject { return all.Items })
	if c != nil && out.Continue == "" {
		c.decides()
	}
	return out, err
}

// step lets a call continue, or starts one.
func (w *world) coreStep() {
	ready := slices.DeleteFunc(slices.Clone(w.cores.calls), func(c *coreCall) bool { return c.until.After(w.cluster.now) })
	switch n := len(w.cores.rings); {
	case len(w.cores.calls) < w.cores.most && n > 0 && (len(ready) == 0 || w.rng.IntN(4) == 0):
		i := w.rng.IntN(n)
		key := w.cores.rings[i]
		w.cores.rings = slices.Delete(w.cores.rings, i, i+1)
		w.ask(&key)
	case len(ready) > 0:
		w.turn(ready[w.rng.IntN(len(ready))], !w.with.crashes || w.rng.IntN(80) != 0)
	}
}

// wakes rings for each entry whose time has come, and returns the next time; zero if there is none.
func (w *world) wakes() (next time.Time) {
	for _, o := range w.store.All() {
		at, key := ledger.Woken(o), types.NamespacedName{Namespace: o.Spec.Namespace, Name: o.Spec.Name}
		switch {
		case at.IsZero():
		case !at.After(w.cluster.now):
			if !slices.Contains(w.cores.rings, key) {
				w.ring(key)
			}
		case next.IsZero() || at.Before(next):
			next = at
		}
	}
	return next
}

// rests checks that nothing is left to announce, and then nothing to write.
func (w *world) rests() {
	before := w.announced()
	w.finish(w.ask(nil))
	if n := w.announced() - before; n > 0 {
		w.fail("%d transitions were found by a sweep, although everything that was rung is answered", n)
	}
	writes, reads := w.store.Writes(), w.cores.reads
	w.finish(w.ask(nil))
	if n := w.store.Writes() - writes; n > 0 {
		w.fail("%d writes at rest", n)
	}
	if n := w.cores.reads - reads; n > 0 {
		w.fail("a sweep at rest reads %d objects by name", n)
	}
}

// announced counts the transitions in the ledger.
func (w *world) announced() (n int64) {
	for _, o := range w.store.All() {
		n += o.Status.Sequence
	}
	return n
}

func (w *world) disturbSinks() {
	if w.with.outages && w.rng.IntN(30) == 0 {
		s := w.sources[w.rng.IntN(len(w.sources))].UID
		w.down[s], w.flaky = !w.down[s], true
	}
}

// finish gives a call all turns that it needs.
func (w *world) finish(c *coreCall) {
	for !c.over {
		if c.until.After(w.cluster.now) {
			w.cluster.now = c.until
		}
		w.turn(c, true)
	}
}

// settleCores runs until nothing is left to do: what was rung is answered, and the time of each entry comes. A sweep finds
// what was not rung; if no ring is lost, none is needed.
func (w *world) settleCores() {
	w.down, w.flaky, w.dieIn, w.with.errors, w.with.crashes = map[types.UID]bool{}, false, 0, false, false
	w.rng = rand.New(rand.NewPCG(uint64(w.cores.turns), 9)) //nolint:gosec // a simulation must be reproducible
	for swept := 0; ; {
		for len(w.cores.calls) > 0 {
			w.finish(w.cores.calls[0])
		}
		if len(w.cores.rings) > 0 {
			key := w.cores.rings[0]
			w.cores.rings = w.cores.rings[1:]
			w.finish(w.ask(&key))
			continue
		}
		if w.cluster.tick(); swept == 0 {
			swept++
			if !w.cores.lossy {
				continue
			}
			w.finish(w.ask(nil))
			continue
		}
		switch next := w.wakes(); {
		case len(w.cores.rings) > 0:
		case !next.IsZero():
			w.cluster.now = next
		case w.pending():
			w.fail("an event is pending, and nobody keeps its time")
			return
		case swept == 1:
			w.rests()
			return
		}
		if w.cores.turns > 1_000_000 {
			w.fail("does not come to rest")
			return
		}
	}
}
