package environment

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"
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
	impl *controller.Impl
	wake chan struct{}

	mu      sync.Mutex
	kinds   map[schema.GroupKind]*watched
	buckets map[string]reconciler.Bucket
	places  map[string]located
	// selected are the kinds that were chosen, until they are certainly not any more. What belongs to an object of one
	// is not announced, not even while the kind cannot be looked up or goes away.
	selected map[schema.GroupKind]bool

	// resolved is what the definitions that are chosen define, by name. Only compare uses it.
	resolved map[string]resolution
}

// resolution is what a definition defines.
type resolution struct {
	version string
	at      time.Time
	of      schema.GroupKind
	target  target
}

// watched is a kind with its observer.
type watched struct {
	*kind
	*observer.Observer
	// stop ends its informer, nil if there is none.
	stop    context.CancelFunc
	stopped chan struct{}
	// readable says how the kind can be read; marked is what was last written down of it.
	readable, marked Readability
}

// NewController returns the controller that watches environments.
func NewController(ctx context.Context, o Options) (*controller.Impl, *Watch) {
	w := &Watch{Options: o, wake: make(chan struct{}, 1), kinds: map[schema.GroupKind]*watched{}, buckets: map[string]reconciler.Bucket{}, places: map[string]located{}, resolved: map[string]resolution{}, selected: map[schema.GroupKind]bool{}}
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

// compare starts and stops watches. A kind that cannot be looked up keeps what it has.
func (w *Watch) compare(ctx context.Context) error {
	chosen, failed, err := w.chosen(ctx)
	w.mu.Lock()
	for of := range chosen { // all of them before the first is watched: an object of one may belong to one of another
		w.selected[of] = true
	}
	w.mu.Unlock()
	for of, at := range chosen {
		k := w.ensure(ctx, of)
		if k.stop != nil && k.at() == at {
			continue
		}
		w.end(k)
		k.serve(true, at)
		w.begin(ctx, k, at)
	}
	verdicts, unknown := w.others(ctx, chosen)
	for _, k := range w.all() {
		if _, is := chosen[k.of]; is {
			continue
		}
		switch there, known := verdicts[k.of]; {
		case !known, there && failed[k.of.Group]: // what was not found may only not have been looked up
		case there:
			w.mu.Lock()
			delete(w.selected, k.of)
			w.mu.Unlock()
			w.end(k)
			w.report(k, NotChosen)
		case k.Served():
			w.end(k)
			k.serve(false, target{})
			w.report(k, Absent)
			k.Stop() // its objects are gone with it
		}
	}
	return errors.Join(err, unknown)
}

// chosen returns the kinds that are chosen and exist, and the groups that could not be looked up completely.
func (w *Watch) chosen(ctx context.Context) (out map[schema.GroupKind]target, failed map[string]bool, err error) {
	byName := map[string][]schema.GroupKind{}
	for _, of := range w.Kinds() {
		byName[of.Group] = append(byName[of.Group], of)
	}
	out, failed = map[schema.GroupKind]target{}, map[string]bool{}
	var errs []error
	definitions, groups := w.Presence.Definitions(), map[string]group{}
	maps.DeleteFunc(w.resolved, func(name string, _ resolution) bool { return definitions[name].Version == "" })
	for name, d := range definitions {
		_, in, _ := strings.Cut(name, ".")
		if d.Label != "true" && len(byName[in]) == 0 {
			continue
		}
		r, err := w.resolve(ctx, name, d, groups)
		if err != nil {
			errs, failed[in] = append(errs, err), true
			continue
		}
		if d.Label == "true" || slices.Contains(byName[in], r.of) {
			out[r.of] = r.target
		}
	}
	return out, failed, errors.Join(errs...)
}

// group is what the API server serves of a group, the preferred version first.
type group []*metav1.APIResourceList

// resolve returns what a definition defines, in the version that the API server prefers. It asks for each group at most
// once.
func (w *Watch) resolve(ctx context.Context, name string, d observer.Definition, groups map[string]group) (resolution, error) {
	if r, ok := w.resolved[name]; ok && r.version == d.Version && w.Now().Sub(r.at) < resolvedFor {
		return r, nil
	}
	plural, in, _ := strings.Cut(name, ".")
	served, asked := groups[in]
	if !asked {
		var err error
		if served, err = w.served(ctx, in); err != nil {
			return resolution{}, err
		}
		groups[in] = served
	}
	for _, list := range served {
		for _, found := range list.APIResources {
			version, err := schema.ParseGroupVersion(list.GroupVersion)
			if found.Name != plural || err != nil {
				continue
			}
			r := resolution{version: d.Version, at: w.Now(), of: schema.GroupKind{Group: in, Kind: found.Kind}, target: target{
				resource: version.WithResource(plural), namespaced: found.Namespaced, composite: d.Controller == "CompositeResourceDefinition",
			}}
			w.resolved[name] = r
			return r, nil
		}
	}
	return resolution{}, errNotServedYet
}

// served returns what the API server serves of a group.
func (w *Watch) served(ctx context.Context, name string) (group, error) {
	versions, err := w.versions(ctx, name)
	if err != nil {
		return nil, err
	}
	var out group
	for _, version := range versions {
		list, err := w.Discovery.ServerResourcesForGroupVersion(version.String())
		if apierrors.IsNotFound(err) {
			continue // not served yet, or not any more
		}
		if err != nil {
			return nil, fmt.Errorf("asking which resources %s has: %w", version, err)
		}
		out = append(out, list)
	}
	return out, nil
}

// others returns, of the kinds that are chosen by name, are watched or have entries in the ledger, and that are not
// among the chosen ones, whether the API server has them. Those are missing of which this is not certain: one group that
// cannot be looked up says nothing about the others.
func (w *Watch) others(ctx context.Context, chosen map[schema.GroupKind]target) (map[schema.GroupKind]bool, error) {
	asked := map[schema.GroupKind]bool{}
	for _, of := range w.Kinds() {
		asked[of] = true
	}
	for _, key := range w.Observer.Ledger.Keys() {
		if of := (schema.GroupKind{Group: key.Group, Kind: key.Kind}); of.Group != "" && !foreign(of) {
			asked[of] = true
		}
	}
	for _, k := range w.all() {
		asked[k.of] = true
	}
	out, groups := map[schema.GroupKind]bool{}, map[string]group{}
	definitions := pluralsByGroup(w.Presence.Definitions())
	var errs []error
	for of := range asked {
		if _, is := chosen[of]; is {
			continue
		}
		served, known := groups[of.Group]
		if !known && len(definitions[of.Group]) > 0 { // otherwise, there is no need to ask
			var err error
			if served, err = w.served(ctx, of.Group); err != nil {
				errs = append(errs, err)
				continue
			}
			groups[of.Group] = served
		}
		switch {
		case served.has(func(r metav1.APIResource) bool { return r.Kind == of.Kind }):
			out[of] = true
		case w.awaited(of, definitions[of.Group], served):
			errs = append(errs, errNotServedYet)
		default:
			out[of] = false
			w.ensure(ctx, of)
		}
	}
	return out, errors.Join(errs...)
}

func pluralsByGroup(definitions map[string]observer.Definition) map[string][]string {
	out := map[string][]string{}
	for name := range definitions {
		plural, in, _ := strings.Cut(name, ".")
		out[in] = append(out[in], plural)
	}
	return out
}

// awaited reports whether one of the definitions in the group may be that of a kind, and is not served yet. If the
// plural name of the kind is not known, each counts that begins like the kind.
func (w *Watch) awaited(of schema.GroupKind, plurals []string, served group) bool {
	stem := strings.ToLower(of.Kind)
	is := func(plural string) bool { return strings.HasPrefix(plural, stem[:max(0, len(stem)-1)]) }
	w.mu.Lock()
	k, ok := w.kinds[of]
	w.mu.Unlock()
	if ok {
		if known := k.at().resource.Resource; known != "" {
			is = func(plural string) bool { return plural == known }
		}
	}
	return slices.ContainsFunc(plurals, func(plural string) bool {
		return is(plural) && !served.has(func(r metav1.APIResource) bool { return r.Name == plural })
	})
}

// has reports whether one of the resources, which are no subresources, is such.
func (g group) has(such func(metav1.APIResource) bool) bool {
	for _, list := range g {
		if slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return !strings.Contains(r.Name, "/") && such(r) }) {
			return true
		}
	}
	return false
}

// foreign reports whether a kind in the ledger is not an environment's.
func foreign(of schema.GroupKind) bool {
	return of.Group == "serving.knative.dev" || strings.HasSuffix(of.Group, "knative-cdevents.dev")
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
	kd := &kind{watch: w, of: of, served: true}
	o.Kind, o.Since = kd, w.Since(kd.marker())
	go untilKnown(ctx, o.Since)
	k = &watched{kind: kd, Observer: observer.New(o)}
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

// untilKnown takes the baseline of a kind, which may be installed later.
func untilKnown(ctx context.Context, since func(context.Context) (time.Time, error)) {
	for ctx.Err() == nil {
		if _, err := since(ctx); err == nil {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryAfter):
		}
	}
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
	namespace, rest, _ := strings.Cut(key, "/")
	of, name, ok := strings.Cut(rest, "/")
	w.mu.Lock()
	k := w.kinds[schema.ParseGroupKind(of)]
	w.mu.Unlock()
	if !ok || k == nil {
		logging.FromContext(ctx).Errorw("Invalid key in the work queue", "key", key)
		return nil
	}
	return k.Reconcile(ctx, types.NamespacedName{Namespace: namespace, Name: name}.String()) //nolint:wrapcheck // the observer's own result
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

// begin watches a kind until end is called.
func (w *Watch) begin(ctx context.Context, k *watched, at target) {
	ctx, stop := context.WithCancel(ctx)
	stopped := make(chan struct{})
	w.mu.Lock()
	k.stop, k.stopped = stop, stopped
	w.mu.Unlock()
	go func() {
		defer close(stopped)
		w.inform(ctx, k, at)
	}()
}

// end stops the watch of a kind. Nothing is announced of its objects after that.
func (w *Watch) end(k *watched) {
	w.mu.Lock()
	stop, stopped := k.stop, k.stopped
	k.stop = nil
	w.mu.Unlock()
	if stop == nil {
		return
	}
	stop()
	<-stopped
	k.use(nil)
	k.Stop()
}

// inform runs the informer of a kind, and starts the observer when its cache is complete.
func (w *Watch) inform(ctx context.Context, k *watched, at target) {
	log := logging.FromContext(ctx)
	resource := w.Dynamic.Resource(at.resource)
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := resource.List(ctx, o)
			w.tried(ctx, k, err)
			return list, err //nolint:wrapcheck // the reflector looks at it
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			i, err := resource.Watch(ctx, o)
			w.tried(ctx, k, err)
			return i, err //nolint:wrapcheck // the reflector looks at it
		},
	}, &unstructured.Unstructured{}, 0, cache.Indexers{})
	if err := informer.SetTransform(projector{carried: w.Carried, composite: at.composite}.transform); err != nil {
		log.Errorw("Environments cannot be watched", "kind", k.of, "error", err)
		return
	}
	if err := informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {}); err != nil { // tried reports them
		log.Errorw("Environments cannot be watched", "kind", k.of, "error", err)
		return
	}
	registration, err := informer.AddEventHandler(handler(k.Observer))
	if err != nil {
		log.Errorw("Environments cannot be watched", "kind", k.of, "error", err)
		return
	}
	running := make(chan struct{})
	go func() {
		defer close(running)
		informer.RunWithContext(ctx)
	}()
	defer func() { <-running }()
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return
	}
	k.use(informer.GetIndexer())
	k.Start()
	log.Infow("Watching environments", "kind", k.of, "version", at.resource.Version, "objects", len(k.Keys()))
	<-ctx.Done()
}

// handler passes every update on. It never blocks: it only appends.
func handler(ob *observer.Observer) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if s, ok := obj.(*stored); ok {
				ob.Saw(s.key(), s.part)
			}
		},
		UpdateFunc: func(before, obj any) {
			was, had := before.(*stored)
			s, ok := obj.(*stored)
			if !ok || !had {
				return
			}
			if was.UID != s.UID { // deleted and made again while the watch was interrupted
				ob.Saw(s.key(), gone(was, s.part.Version))
			}
			ob.Updated(was.part.Version, s.key(), s.part)
		},
		DeleteFunc: func(obj any) {
			if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = tombstone.Obj
			}
			if s, ok := obj.(*stored); ok {
				ob.Saw(s.key(), gone(s, s.part.Version))
			}
		},
	}
}

func gone(s *stored, version string) observer.Part {
	p := s.part
	p.Value, p.Version = nil, version
	return p
}
