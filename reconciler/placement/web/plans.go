package web

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// Plans are the stored plans, from the cache of an informer.
type Plans struct {
	informer cache.SharedIndexInformer

	mu sync.Mutex
	// changes has a channel for each plan that somebody waits for, by UID of the Service. It is closed when the plan changes.
	changes map[types.UID]chan struct{}
}

// byService is the name of the index by the UID of the Service.
const byService = "service"

// Indexers are what the informer of Plans needs.
var Indexers = cache.Indexers{byService: func(obj any) ([]string, error) {
	p, ok := obj.(*v1alpha1.ShardPlacement)
	if !ok {
		return nil, fmt.Errorf("a %T is in the cache of ShardPlacements", obj)
	}
	return []string{string(p.Spec.UID)}, nil
}}

// NewPlans reads from an informer that has the Indexers, and that does not run yet.
func NewPlans(informer cache.SharedIndexInformer) (*Plans, error) {
	p := &Plans{informer: informer, changes: map[types.UID]chan struct{}{}}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: p.changed, UpdateFunc: func(_, obj any) { p.changed(obj) }, DeleteFunc: p.changed,
	})
	if err != nil {
		return nil, fmt.Errorf("adding a handler to the informer for ShardPlacements: %w", err)
	}
	return p, nil
}

func (p *Plans) changed(obj any) {
	if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = last.Obj
	}
	plan, ok := obj.(*v1alpha1.ShardPlacement)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if changes := p.changes[plan.Spec.UID]; changes != nil {
		close(changes)
		delete(p.changes, plan.Spec.UID)
	}
}

// Synced reports whether all plans are known.
func (p *Plans) Synced() bool { return p.informer.HasSynced() }

// All lists the plans.
func (p *Plans) All() []*v1alpha1.ShardPlacement {
	var all []*v1alpha1.ShardPlacement
	for _, obj := range p.informer.GetStore().List() {
		if plan, ok := obj.(*v1alpha1.ShardPlacement); ok {
			all = append(all, plan)
		}
	}
	return all
}

// Of returns the plan of a Service, or nil, and a channel that is closed when it changes.
func (p *Plans) Of(service types.UID) (*v1alpha1.ShardPlacement, <-chan struct{}) {
	p.mu.Lock()
	changes := p.changes[service]
	if changes == nil {
		changes = make(chan struct{})
		p.changes[service] = changes
	}
	p.mu.Unlock()
	// Read after the channel exists, so that no change is missed.
	found, err := p.informer.GetIndexer().ByIndex(byService, string(service))
	if err != nil {
		return nil, changes
	}
	var newest *v1alpha1.ShardPlacement
	for _, obj := range found {
		if plan, ok := obj.(*v1alpha1.ShardPlacement); ok && (newest == nil || plan.Status.Version > newest.Status.Version) {
			newest = plan
		}
	}
	return newest, changes
}
