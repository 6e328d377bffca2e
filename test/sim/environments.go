// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/reconciler"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/environment"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
)

// The environments are composites of Crossplane, each with one resource beneath.
var (
	platforms = schema.GroupVersionKind{Group: "platform.example.com", Version: "v1", Kind: "Platform"}
	machines  = schema.GroupVersionKind{Group: "nop.example.com", Version: "v1", Kind: "Machine"}
)

// platformSettings are platformRules, and no kinds.
type platformSettings struct{}

// Rules implements observer.Settings.
func (platformSettings) Rules() lifecycle.Rules { return platformRules() }

// EnvironmentKinds implements environment.Settings.
func (platformSettings) EnvironmentKinds() []schema.GroupKind { return nil }

// platformRules have limits that fit into a history.
func platformRules() lifecycle.Rules {
	rules := lifecycle.DefaultRules
	rules.EnvironmentOutageAfter, rules.EnvironmentDegradedAfter = 5*time.Second, 10*time.Second
	rules.EnvironmentNotCreatedAfter, rules.EnvironmentDeletedWithin = 20*time.Second, 40*time.Second
	return rules
}

// fleet is the API server's state of all environments.
type fleet struct {
	live map[types.NamespacedName]*platform
	// history are all that ever existed, and log is their watch.
	history []*platform
	log     []change
	// lagged says that a process began with an old list.
	lagged bool
}

// platform is one environment.
type platform struct {
	key     types.NamespacedName
	uid     types.UID
	created time.Time
	gen     int64
	// asked is the version that the user declared; runs is what the provider reports.
	asked, runs int
	// observed is the generation that the conditions are about.
	observed int64
	ready    bool
	// since is when ready last changed.
	since   time.Time
	deleted bool
	// beneath says that the resource beneath still exists.
	beneath bool
	// changes counts the versions that a user declared after the first.
	changes int
	// version is its resourceVersion.
	version string
}

// object returns what the API server stores.
func (f *platform) object(version string) *unstructured.Unstructured {
	status := func(is bool) string {
		if is {
			return "True"
		}
		return "False"
	}
	reason := "Available"
	if !f.ready {
		reason = "Creating"
	}
	condition := func(typ, is, reason string, since time.Time) map[string]any {
		return map[string]any{"type": typ, "status": is, "reason": reason, "observedGeneration": f.observed, "lastTransitionTime": since.UTC().Format(time.RFC3339)}
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{
			"version": fmt.Sprintf("v%d", f.asked),
			"crossplane": map[string]any{"resourceRefs": []any{
				map[string]any{"apiVersion": machines.GroupVersion().String(), "kind": machines.Kind, "name": string(f.uid)},
			}},
		},
		"status": map[string]any{
			"version":    fmt.Sprintf("v%d", f.runs),
			"conditions": []any{condition("Synced", "True", "ReconcileSuccess", f.created), condition("Ready", status(f.ready), reason, f.since)},
		},
	}}
	u.SetGroupVersionKind(platforms)
	u.SetNamespace(f.key.Namespace)
	u.SetName(f.key.Name)
	u.SetUID(f.uid)
	u.SetGeneration(f.gen)
	u.SetCreationTimestamp(metav1.NewTime(f.created))
	u.SetResourceVersion(version)
	return u
}

// transform is what the informers of environments apply.
var transform = environment.Transform(nil, true)

// note adds the state of an environment to the watch.
func (c *cluster) note(f *platform, gone bool) {
	f.version = c.store.NextVersion()
	u := f.object(f.version)
	obj, err := transform(u)
	if err != nil {
		panic(fmt.Sprintf("an environment cannot be projected: %v", err))
	}
	c.fleet.log = append(c.fleet.log, change{obj: obj, gone: gone, version: u.GetResourceVersion()})
}

// provision changes one environment, as a user or its provider does.
func (c *cluster) provision(rng *rand.Rand) {
	for _, f := range c.fleet.history { // deletion takes a while
		if f.deleted && f.beneath && rng.IntN(4) == 0 {
			f.beneath = false
		}
	}
	key := types.NamespacedName{Namespace: "ns", Name: fmt.Sprintf("e%d", rng.IntN(2))}
	f := c.fleet.live[key]
	if f == nil {
		c.serial++
		f = &platform{key: key, uid: types.UID(fmt.Sprintf("uid-%d", c.serial)), created: c.now.Truncate(time.Second), since: c.now, gen: 1, asked: 1, beneath: true}
		c.fleet.live[key] = f
		c.fleet.history = append(c.fleet.history, f)
		c.note(f, false)
		return
	}
	switch r := rng.IntN(10); {
	case r == 0:
		f.deleted = true
		f.beneath = rng.IntN(3) > 0
		delete(c.fleet.live, key)
		c.note(f, true)
		return
	case r < 4 && f.ready:
		f.asked++
		f.changes++
		f.gen++
	case r < 6 && f.ready:
		f.ready, f.since = false, c.now
	default:
		f.finish(c.now)
	}
	c.note(f, false)
}

// finish lets the provider bring an environment to what is declared.
func (f *platform) finish(now time.Time) {
	if !f.ready {
		f.ready, f.since = true, now
	}
	f.runs, f.observed = f.asked, f.gen
}

// calm lets all providers come to rest.
func (c *cluster) calm() {
	for _, key := range byName(c.fleet.live) {
		if f := c.fleet.live[key]; !f.ready || f.observed != f.gen {
			f.finish(c.now)
			c.note(f, false)
		}
	}
}

// environments is how a process watches environments.
type environments struct {
	p    *process
	kind *environment.Kind
	ob   *observer.Observer
	// upTo is how far the informer has read the log.
	upTo  int
	cache cache.Indexer
	queue map[types.NamespacedName]bool
}

// startEnvironments creates the watched kind and its observer.
func (p *process) startEnvironments() {
	e := &environments{p: p, cache: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}), queue: map[types.NamespacedName]bool{}}
	now := func() time.Time { return p.w.cluster.now.Add(p.skew) }
	e.kind = environment.NewKind(environment.Options{
		Shared:  observer.Shared{Options: observer.Options{Now: now}, Metadata: metadataAPI{w: p.w}},
		Dynamic: dynamicAPI{w: p.w}, Discovery: discoveryAPI{}, Settings: platformSettings{},
	}, platforms.GroupKind(), environment.Target{Resource: resourceOf(platforms), Namespaced: true, Composite: true})
	e.kind.Use(e.cache)
	e.ob = observer.New(observer.Options{
		Kind: e.kind, Ledger: p.ledger, Now: now, Keep: histories,
		Since: func(ctx context.Context) (time.Time, error) { return p.w.baselines().Since(ctx, platformMarker) },
	})
	e.ob.Bind(e)
	p.environments = e
	lag := 0
	if p.w.rng.IntN(3) == 0 {
		lag = p.w.rng.IntN(6)
	}
	p.w.cluster.fleet.lagged = p.w.cluster.fleet.lagged || lag > 0
	for ; e.upTo < len(p.w.cluster.fleet.log)-lag; e.upTo++ {
		p.w.apply(e.cache, p.w.cluster.fleet.log[e.upTo])
	}
}

// platformMarker names the marker in the ledger that holds the baseline of the kind.
const platformMarker = "platform.platform.example.com"

// next lets the informer deliver the next change.
func (e *environments) next() bool {
	log := e.p.w.cluster.fleet.log
	if e.upTo >= len(log) {
		return false
	}
	c := log[e.upTo]
	e.upTo++
	c.tell(environment.Handler(e.ob), e.p.w.apply(e.cache, c))
	return true
}

// EnqueueKey and EnqueueSlowKey implement observer.Queue.
func (e *environments) EnqueueKey(key types.NamespacedName) { e.queue[key] = true }

// EnqueueSlowKey implements observer.Queue.
func (e *environments) EnqueueSlowKey(key types.NamespacedName) { e.queue[key] = true }

// reconcile reconciles one queued key.
func (e *environments) reconcile() bool {
	return reconcileOne(e.p, e.ob, e.queue)
}

// reconcileOne reconciles one of the keys in a queue.
func reconcileOne(p *process, ob *observer.Observer, queue map[types.NamespacedName]bool) bool {
	keys := byName(queue)
	if len(keys) == 0 {
		return false
	}
	key := keys[p.w.rng.IntN(len(keys))]
	delete(queue, key)
	err := ob.Reconcile(p.ctx, key.String())
	if again, _ := controller.IsRequeueKey(err); again {
		queue[key] = true
	} else if err != nil && !controller.IsSkipKey(err) {
		p.w.fail("reconciling %s: %v", key, err)
	}
	return true
}

func (e *environments) lead() {
	if err := e.ob.Promote(reconciler.UniversalBucket(), func(reconciler.Bucket, types.NamespacedName) {}); err != nil {
		e.p.w.fail("promotion: %v", err)
	}
}

// resourceOf returns the resource of a kind.
func resourceOf(of schema.GroupVersionKind) schema.GroupVersionResource {
	return of.GroupVersion().WithResource(strings.ToLower(of.Kind) + "s")
}

// discoveryAPI answers which resources there are.
type discoveryAPI struct{ discovery.DiscoveryInterface }

// ServerResourcesForGroupVersion implements discovery.DiscoveryInterface.
// A composite of a namespace consists of objects of that namespace (Crossplane v2).
func (discoveryAPI) ServerResourcesForGroupVersion(version string) (*metav1.APIResourceList, error) {
	return &metav1.APIResourceList{GroupVersion: version, APIResources: []metav1.APIResource{{Name: resourceOf(machines).Resource, Kind: machines.Kind, Namespaced: true}}}, nil
}

// metadataAPI answers the live requests for environments and what is beneath them.
type metadataAPI struct {
	w *world
	metadata.Getter
	resource schema.GroupVersionResource
}

// Resource implements metadata.Interface.
func (a metadataAPI) Resource(of schema.GroupVersionResource) metadata.Getter {
	a.resource = of
	return a
}

// Namespace implements metadata.Getter.
func (a metadataAPI) Namespace(string) metadata.ResourceInterface { return a }

// Get implements metadata.ResourceInterface.
func (a metadataAPI) Get(_ context.Context, name string, _ metav1.GetOptions, _ ...string) (*metav1.PartialObjectMetadata, error) {
	return read(a.w, a.resource.Resource, name, func() (*metav1.PartialObjectMetadata, bool) {
		for _, f := range a.w.cluster.fleet.history {
			switch {
			case a.resource == resourceOf(platforms) && f.key.Name == name && !f.deleted:
				return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, UID: f.uid, ResourceVersion: f.version}}, true
			case a.resource == resourceOf(machines) && string(f.uid) == name && f.beneath:
				return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}, true
			}
		}
		return nil, false
	})
}
