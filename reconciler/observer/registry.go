// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/reconciler"

	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
)

// Watch watches a kind, several kinds that come and go, or a part of a kind that no informer sees. Its package makes
// it, and cmd/controller lists it.
type Watch interface {
	// Name is how logs and metrics call it, as in "Services".
	Name() string
	// Resources are what its informers list and watch at present.
	Resources() []schema.GroupVersionResource
	// Run watches until the context ends, and passes what it sees to observers.
	Run(ctx context.Context)
}

// Queued is a Watch with a work queue of its own, which is to be processed beside Run.
type Queued interface {
	Watch
	Controller() *controller.Impl
}

// Elected is notified when this process begins or ends to lead for objects.
type Elected interface {
	Promoted(b reconciler.Bucket)
	Demoted(b reconciler.Bucket)
}

// Registry holds the observers of all watched kinds. They lead for the same objects, because one election decides for
// all: the controller that Elects wraps takes part in it. A Registry exists before what needs to know who leads. It
// is safe for concurrent use.
type Registry struct {
	reconciler.LeaderAwareFuncs

	// electing is held while observers are told of an election. Otherwise, one that is added meanwhile could be told
	// last of what is over.
	electing sync.Mutex

	mu        sync.Mutex
	observers map[schema.GroupKind]*Observer
	order     []*Observer
	elected   []Elected
	buckets   map[string]reconciler.Bucket
}

var _ reconciler.LeaderAware = (*Registry)(nil)

// NewRegistry returns a Registry without observers, which leads for nothing.
func NewRegistry() *Registry {
	r := &Registry{observers: map[schema.GroupKind]*Observer{}, buckets: map[string]reconciler.Bucket{}}
	r.PromoteFunc = func(b reconciler.Bucket, _ func(reconciler.Bucket, types.NamespacedName)) error {
		r.promoted(b)
		return nil
	}
	r.DemoteFunc = r.demoted
	return r
}

// elector is a reconciler that takes part in the election.
type elector struct {
	controller.Reconciler
	reconciler.LeaderAware
}

// Elects returns a reconciler that takes part in the election for the Registry. One must.
func (r *Registry) Elects(c controller.Reconciler) controller.Reconciler {
	return elector{Reconciler: c, LeaderAware: r}
}

// OnElection has e notified after the observers.
func (r *Registry) OnElection(e Elected) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.elected = append(r.elected, e)
}

// Observe adds an observer of a kind. It leads for what this process leads for, now and later, and adds keys to q.
func (r *Registry) Observe(o Options, q Queue) *Observer {
	ob := New(o)
	ob.Bind(q)
	of := schema.FromAPIVersionAndKind(o.Kind.APIVersion(), o.Kind.Name()).GroupKind()
	r.electing.Lock()
	defer r.electing.Unlock()
	r.mu.Lock()
	r.observers[of], r.order = ob, append(r.order, ob)
	buckets := make([]reconciler.Bucket, 0, len(r.buckets))
	for _, b := range r.buckets {
		buckets = append(buckets, b)
	}
	r.mu.Unlock()
	for _, b := range buckets {
		lead(ob, b)
	}
	return ob
}

func (r *Registry) promoted(b reconciler.Bucket) {
	r.electing.Lock()
	defer r.electing.Unlock()
	r.mu.Lock()
	r.buckets[b.Name()] = b
	observers, elected := slices.Clone(r.order), slices.Clone(r.elected)
	r.mu.Unlock()
	for _, ob := range observers {
		lead(ob, b)
	}
	for _, e := range elected {
		e.Promoted(b)
	}
}

func (r *Registry) demoted(b reconciler.Bucket) {
	r.electing.Lock()
	defer r.electing.Unlock()
	r.mu.Lock()
	delete(r.buckets, b.Name())
	observers, elected := slices.Clone(r.order), slices.Clone(r.elected)
	r.mu.Unlock()
	for _, ob := range observers {
		ob.Demote(b)
	}
	for _, e := range elected {
		e.Demoted(b)
	}
}

// Requeue reconciles the objects of all kinds with these keys again, at low priority.
func (r *Registry) Requeue(these func(types.NamespacedName) bool) {
	r.mu.Lock()
	observers := slices.Clone(r.order)
	r.mu.Unlock()
	for _, ob := range observers {
		ob.Requeue(these)
	}
}

// Notify reconciles an object again, because another process has written to its entry in the ledger.
func (r *Registry) Notify(key ledger.Key) {
	r.mu.Lock()
	ob := r.observers[schema.GroupKind{Group: key.Group, Kind: key.Kind}]
	r.mu.Unlock()
	if ob != nil {
		ob.Notify(key)
	}
}

// LeadAll makes this process lead for everything, as it does without leader election.
func (r *Registry) LeadAll() error {
	return r.Promote(reconciler.UniversalBucket(), func(reconciler.Bucket, types.NamespacedName) {}) //nolint:wrapcheck // own method
}

// lead promotes an observer, which adds the keys to its own queue.
func lead(ob *Observer, b reconciler.Bucket) {
	_ = ob.Promote(b, func(reconciler.Bucket, types.NamespacedName) {}) // it returns no error
}

// Start runs a Watch, and the workers of its queue if it is Queued, until the context ends.
func (r *Registry) Start(ctx context.Context, running *sync.WaitGroup, w Watch) {
	logging.FromContext(ctx).Infow("Starting a watch", "watch", w.Name(), "resources", w.Resources())
	running.Go(func() { w.Run(ctx) })
	q, ok := w.(Queued)
	if !ok {
		return
	}
	running.Go(func() {
		impl := q.Controller()
		if err := impl.RunContext(ctx, impl.Concurrency); err != nil {
			logging.FromContext(ctx).Errorw("A watch ended", "watch", w.Name(), "error", err)
		}
	})
}
