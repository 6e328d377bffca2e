// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/reconciler"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
)

// workers fold keys in parallel.
const workers = 16

const (
	// tidyEvery is how often old history is removed, and what is watched is compared with what is chosen.
	tidyEvery = 30 * time.Second
	// retryAfter is how soon it is compared again after a failure.
	retryAfter = 2 * time.Second
	// gather is how long to wait for further changes.
	gather = 200 * time.Millisecond
	// resolvedFor is how long it counts which version of a kind the API server prefers.
	resolvedFor = time.Minute
)

// errNotServedYet says that a definition exists, and that the API server does not serve it yet.
var errNotServedYet = errors.New("a definition is not served yet")

// Options configure the watch.
type Options struct {
	Discovery discovery.DiscoveryInterface
	Dynamic   dynamic.Interface
	Metadata  metadata.Interface
	Presence  *observer.Presence
	// Carried are the annotations that events need.
	Carried []string
	// Kinds are the kinds that the operator chose by name.
	Kinds func() []schema.GroupKind
	// Rules are asked for with every transition.
	Rules func() lifecycle.Rules
	// Observer holds what all observers share. Its Kind and Since are set for each kind.
	Observer observer.Options
	// Since returns, for the name of a kind, since when its objects are announced.
	Since func(kind string) func(context.Context) (time.Time, error)
	// Mark writes down, where a user looks for it, how a kind can be read.
	Mark func(ctx context.Context, kind string, r Readability) error
	// Leads reports whether this process leads for an object.
	Leads func(types.NamespacedName) bool
	// Now is the clock.
	Now func() time.Time
}

// Watch watches all kinds of environments. It takes part in no election: it leads for what the watch of Services
// leads for.
type Watch struct {
	Options
	*reader
	impl *controller.Impl
	wake chan struct{}

	mu      sync.Mutex
	kinds   map[schema.GroupKind]*watched
	buckets map[string]reconciler.Bucket
	// selected are the kinds that were chosen, until they are certainly not any more. What belongs to an object of one
	// is not announced, not even while the kind cannot be looked up or goes away.
	selected map[schema.GroupKind]bool

	// resolved is what the definitions that are chosen define, by name. Only compare uses it.
	resolved map[string]resolution
}

// watched is a kind with its observer.
type watched struct {
	*Kind
	*observer.Observer
	// stop ends its informer, nil if there is none.
	stop    context.CancelFunc
	stopped chan struct{}
	// readable says how the kind can be read; marked is what was last written down of it.
	readable, marked Readability
}

// NewController returns the controller that watches environments.
func NewController(ctx context.Context, o Options) (*controller.Impl, *Watch) {
	w := &Watch{Options: o, reader: newReader(o), wake: make(chan struct{}, 1), kinds: map[schema.GroupKind]*watched{}, buckets: map[string]reconciler.Bucket{}, resolved: map[string]resolution{}, selected: map[schema.GroupKind]bool{}}
	w.impl = controller.NewContext(ctx, w, controller.ControllerOptions{
		WorkQueueName: "Environments", Logger: logging.FromContext(ctx), Concurrency: workers,
	})
	o.Presence.OnChange(w.Compare)
	go w.run(ctx)
	return w.impl, w
}

// Compare makes the watch compare what is watched with what is chosen. It never blocks.
func (w *Watch) Compare() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *Watch) run(ctx context.Context) {
	if !cache.WaitForCacheSync(ctx.Done(), w.Presence.Synced) {
		return
	}
	tidied, retry := w.Now(), retryAfter
	for ctx.Err() == nil {
		again := tidyEvery
		switch err := w.compare(ctx); {
		case ctx.Err() != nil:
		case err == nil:
			retry = retryAfter
		default:
			if !errors.Is(err, errNotServedYet) {
				logging.FromContext(ctx).Warnw("Could not find out which environments to watch; trying again", "error", err)
			}
			// A definition may never be served, for example if another one has its names.
			again, retry = retry, min(2*retry, tidyEvery)
		}
		if !w.mark(ctx) {
			again = min(again, retryAfter)
		}
		if w.Now().Sub(tidied) > tidyEvery {
			tidied = w.Now()
			for _, k := range w.all() {
				k.Tidy()
			}
		}
		select {
		case <-ctx.Done():
		case <-w.wake:
			retry = retryAfter
			time.Sleep(gather) // definitions often come together
		case <-time.After(again):
		}
	}
	for _, k := range w.all() {
		w.end(k)
	}
}

// ensure returns a kind with its observer, which leads for what is led already.
func (w *Watch) ensure(ctx context.Context, of schema.GroupKind) *watched {
	w.mu.Lock()
	k, ok := w.kinds[of]
	w.mu.Unlock()
	if ok {
		return k
	}
	o := w.Observer
	kd := newKind(w.reader, of, w.Rules, w.selects)
	o.Kind, o.Since = kd, w.Since(kd.marker())
	go observer.UntilKnown(ctx, o.Since) // of a kind that is installed later, all objects are news
	k = &watched{Kind: kd, Observer: observer.New(o)}
	k.Bind(queue{impl: w.impl, of: of})
	w.mu.Lock()
	w.kinds[of] = k
	buckets := slices.Collect(maps.Values(w.buckets))
	w.mu.Unlock()
	for _, b := range buckets {
		promote(ctx, k, b)
	}
	return k
}

func promote(ctx context.Context, k *watched, b reconciler.Bucket) {
	if err := k.Promote(b, func(reconciler.Bucket, types.NamespacedName) {}); err != nil {
		logging.FromContext(ctx).Errorw("Leading for environments failed", "kind", k.of, "error", err)
	}
}

func (w *Watch) all() []*watched {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Values(w.kinds))
}

// selects reports whether a kind is chosen, even if it cannot be watched at the moment.
func (w *Watch) selects(of schema.GroupKind) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.selected[of] || slices.Contains(w.Kinds(), of)
}

// Promoted is called when this process leads for more objects.
func (w *Watch) Promoted(ctx context.Context, b reconciler.Bucket) {
	w.mu.Lock()
	w.buckets[b.Name()] = b
	w.mu.Unlock()
	for _, k := range w.all() {
		promote(ctx, k, b)
	}
}

// Demoted is called when it no longer leads for them.
func (w *Watch) Demoted(b reconciler.Bucket) {
	w.mu.Lock()
	delete(w.buckets, b.Name())
	w.mu.Unlock()
	for _, k := range w.all() {
		k.Demote(b)
	}
}

// LookAgain reconciles the environments with these keys again, at low priority.
func (w *Watch) LookAgain(these func(types.NamespacedName) bool) {
	for _, k := range w.all() {
		k.LookAgain(these)
	}
}

// Ledgered is called when another process has written to the ledger.
func (w *Watch) Ledgered(key observer.Key) {
	w.mu.Lock()
	k, ok := w.kinds[schema.GroupKind{Group: key.Group, Kind: key.Kind}]
	w.mu.Unlock()
	if ok {
		k.Ledgered(key)
	}
}

// Reconcile implements controller.Reconciler.
func (w *Watch) Reconcile(ctx context.Context, key string) error {
	of, object, ok := parse(key)
	w.mu.Lock()
	k := w.kinds[of]
	w.mu.Unlock()
	if !ok || k == nil {
		logging.FromContext(ctx).Errorw("Invalid key in the work queue", "key", key)
		return nil
	}
	return k.Reconcile(ctx, object) //nolint:wrapcheck // the observer's own result
}

// parse takes a key of the queue apart: namespace/kind/name, or kind/name for an object without a namespace. No part
// contains a slash.
func parse(key string) (of schema.GroupKind, object string, ok bool) {
	parts := strings.Split(key, "/")
	switch len(parts) {
	case 2:
		return schema.ParseGroupKind(parts[0]), parts[1], true
	case 3:
		return schema.ParseGroupKind(parts[1]), parts[0] + "/" + parts[2], true
	}
	return schema.GroupKind{}, "", false
}

// queue adds the keys of one kind to the queue of all.
type queue struct {
	impl *controller.Impl
	of   schema.GroupKind
}

func (q queue) key(of types.NamespacedName) types.NamespacedName {
	return types.NamespacedName{Namespace: of.Namespace, Name: q.of.String() + "/" + of.Name}
}

// EnqueueKey implements observer.Queue.
func (q queue) EnqueueKey(key types.NamespacedName) { q.impl.EnqueueKey(q.key(key)) }

// EnqueueSlowKey implements observer.Queue.
func (q queue) EnqueueSlowKey(key types.NamespacedName) { q.impl.EnqueueSlowKey(q.key(key)) }
