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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/logging"

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
	// unknownFor is how long nothing is decided of what an object controls that may be of a chosen kind. What cannot be
	// looked up for longer may never be.
	unknownFor = 10 * time.Minute
)

// errNotServedYet says that a definition exists, and that the API server does not serve it yet.
var errNotServedYet = errors.New("a definition is not served yet")

// Settings are those of all kinds, and those of environments.
type Settings interface {
	observer.Settings
	// EnvironmentKinds are the kinds that the operator chose by name.
	EnvironmentKinds() []schema.GroupKind
}

// Markers are the objects where a user looks for what is known of a kind. ledger.Baselines implements it.
type Markers interface {
	SetCondition(ctx context.Context, kind string, c metav1.Condition) error
}

// Options configure the watch.
type Options struct {
	observer.Shared
	Discovery discovery.DiscoveryInterface
	Dynamic   dynamic.Interface
	// Settings are those of Shared.
	Settings Settings
	Markers  Markers
}

// Watch watches all kinds of environments.
type Watch struct {
	Options
	*reader
	impl *controller.Impl
	wake chan struct{}

	mu    sync.Mutex
	kinds map[schema.GroupKind]*watched
	// selected are the kinds that were chosen, until they are certainly not any more. What belongs to an object of one
	// is not announced, not even while the kind cannot be looked up or goes away.
	selected map[schema.GroupKind]bool
	// failed are the groups of which a definition that may be chosen could not be looked up. What belongs to an object
	// of a kind there that is not known to be served is not decided, for as long as unknownFor.
	failed map[string]failure

	// resolved is what the definitions that are chosen define, by name. Only compare uses it.
	resolved map[string]resolution
}

// failure is what is known to be served of a group that could not be looked up completely, and since when it could not.
type failure struct {
	served group
	since  time.Time
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

var _ observer.Queued = (*Watch)(nil)

// New returns the watch of environments.
func New(ctx context.Context, o Options) *Watch {
	w := &Watch{
		Options: o, reader: newReader(o), wake: make(chan struct{}, 1), kinds: map[schema.GroupKind]*watched{},
		resolved: map[string]resolution{}, selected: map[schema.GroupKind]bool{},
	}
	w.impl = controller.NewContext(ctx, w, controller.ControllerOptions{
		WorkQueueName: w.Name(), Logger: logging.FromContext(ctx), Concurrency: workers,
	})
	o.Presence.OnChange(w.Compare)
	return w
}

// Name implements observer.Watch.
func (*Watch) Name() string { return "Environments" }

// Controller implements observer.Queued. It takes part in no election.
func (w *Watch) Controller() *controller.Impl { return w.impl }

// Resources implements observer.Watch.
func (w *Watch) Resources() []schema.GroupVersionResource {
	var out []schema.GroupVersionResource
	for _, k := range w.all() {
		w.mu.Lock()
		informed := k.stop != nil
		w.mu.Unlock()
		if informed {
			out = append(out, k.at().Resource)
		}
	}
	return out
}

// Compare makes the watch compare what is watched with what is chosen. It never blocks.
func (w *Watch) Compare() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Run implements observer.Watch.
func (w *Watch) Run(ctx context.Context) {
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

// ensure returns a kind with its observer, which leads for what is led already. Its keys may be in the queue at once,
// so the kind is known before anybody processes them.
func (w *Watch) ensure(ctx context.Context, of schema.GroupKind) *watched {
	w.mu.Lock()
	defer w.mu.Unlock()
	if k, ok := w.kinds[of]; ok {
		return k
	}
	kind := newKind(w.reader, of, w.Settings, w.selects)
	k := &watched{Kind: kind, Observer: w.Observe(ctx, kind, kind.marker(), queue{impl: w.impl, of: of})}
	w.kinds[of] = k
	return k
}

func (w *Watch) all() []*watched {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Values(w.kinds))
}

// selects reports whether a kind is chosen, even if it cannot be watched at the moment; known is false if that cannot be
// found out now.
func (w *Watch) selects(of schema.GroupKind) (selected, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.selected[of] || slices.Contains(w.Settings.EnvironmentKinds(), of) {
		return true, true
	}
	f, failed := w.failed[of.Group]
	return false, !failed || w.Now().Sub(f.since) >= unknownFor ||
		f.served.has(func(r metav1.APIResource) bool { return r.Kind == of.Kind })
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
