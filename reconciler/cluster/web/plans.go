// SPDX-License-Identifier: Apache-2.0

package web

import (
	"encoding/json"
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
	// changes has a channel for each plan that somebody waits for, by UID of the Service. It is closed when the plan
	// changes.
	changes map[types.UID]chan struct{}

	encoding sync.Mutex
	// bodies are the plans that were sent last, by UID of the Service.
	bodies map[types.UID]encoded
}

// encoded is a plan as it is sent.
type encoded struct {
	plan *v1alpha1.ShardPlacement
	json []byte
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
	p := &Plans{informer: informer, changes: map[types.UID]chan struct{}{}, bodies: map[types.UID]encoded{}}
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
	p.encoding.Lock()
	delete(p.bodies, plan.Spec.UID)
	p.encoding.Unlock()
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

// Get returns the plan of a Service, or nil.
func (p *Plans) Get(service types.UID) *v1alpha1.ShardPlacement {
	found, err := p.informer.GetIndexer().ByIndex(byService, string(service))
	if err != nil {
		return nil // the informer always has the index
	}
	var newest *v1alpha1.ShardPlacement
	for _, obj := range found {
		if plan, ok := obj.(*v1alpha1.ShardPlacement); ok && (newest == nil || plan.Status.Version > newest.Status.Version) {
			newest = plan
		}
	}
	return newest
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
	return p.Get(service), changes
}

// encoded returns the plan as JSON. All who wait for a change get the same bytes: a plan may have half a megabyte,
// and 900 may wait.
func (p *Plans) encoded(plan *v1alpha1.ShardPlacement) ([]byte, error) {
	p.encoding.Lock()
	defer p.encoding.Unlock()
	if last := p.bodies[plan.Spec.UID]; last.plan == plan {
		return last.json, nil
	}
	out, err := json.Marshal(bodyOf(plan))
	if err != nil {
		return nil, fmt.Errorf("encoding plan %s: %w", plan.Name, err)
	}
	p.bodies[plan.Spec.UID] = encoded{plan, out}
	return out, nil
}

// body is an answer.
type body struct {
	Namespace string `json:"namespace"`
	Service   string `json:"service"`
	v1alpha1.ShardPlacementStatus
}

func bodyOf(plan *v1alpha1.ShardPlacement) body {
	return body{Namespace: plan.Spec.Namespace, Service: plan.Spec.Service, ShardPlacementStatus: plan.Status}
}
