// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"knative.dev/pkg/logging"
)

// Definitions are the CustomResourceDefinitions, by which it is known what is installed.
var Definitions = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1",
	Resource: "customresourcedefinitions",
}

// Definition is what is known of a CustomResourceDefinition.
type Definition struct {
	// Version is its resourceVersion.
	Version string
	// Label is the value of the label that NewPresence was told to keep.
	Label string
	// Controller is the kind of the object that controls it, empty if there is none.
	Controller string
}

// Presence knows which CustomResourceDefinitions exist. Watched kinds may be installed after
// the controller, and uninstalled before it.
type Presence struct {
	informer cache.SharedIndexInformer
	// handled says which definitions have reached set.
	handled cache.ResourceEventHandlerRegistration
	label   string

	mu       sync.Mutex
	existing map[string]Definition
	changed  []func()
}

// NewPresence watches the names of all CustomResourceDefinitions, one label and who controls
// them, and nothing else. Call Run to start.
func NewPresence(client metadata.Interface, label string) (*Presence, error) {
	p := &Presence{existing: map[string]Definition{}, label: label}
	p.informer = metadatainformer.NewSharedInformerFactory(client, 0).ForResource(Definitions).Informer()
	if err := p.informer.SetTransform(p.project); err != nil {
		return nil, fmt.Errorf("setting a transform on the informer for %s: %w", Definitions.Resource, err)
	}
	handled, err := p.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { p.set(obj, true) },
		UpdateFunc: func(_, obj any) { p.set(obj, true) },
		DeleteFunc: func(obj any) { p.set(obj, false) },
	})
	if err != nil {
		return nil, fmt.Errorf("adding a handler to the informer for %s: %w", Definitions.Resource, err)
	}
	p.handled = handled
	return p, nil
}

// project is a cache.TransformFunc.
func (p *Presence) project(obj any) (any, error) {
	m, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return obj, nil
	}
	out := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: m.Name, UID: m.UID,
		ResourceVersion: m.ResourceVersion,
	}}
	if v, ok := m.Labels[p.label]; ok {
		out.Labels = map[string]string{p.label: v}
	}
	if owner := metav1.GetControllerOfNoCopy(m); owner != nil {
		out.OwnerReferences = []metav1.OwnerReference{{Kind: owner.Kind, Controller: owner.Controller}}
	}
	return out, nil
}

// Definitions returns the existing definitions by name.
func (p *Presence) Definitions() map[string]Definition {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.existing)
}

// OnChange calls f, which must not block, after each change of a definition.
func (p *Presence) OnChange(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changed = append(p.changed, f)
}

// Run watches until the context ends.
func (p *Presence) Run(ctx context.Context) { p.informer.RunWithContext(ctx) }

// Synced says whether it is known what exists. The informer's own HasSynced does not: it does not wait for the handler.
func (p *Presence) Synced() bool { return p.handled.HasSynced() }

// Has says whether all of the named definitions exist, as far as is known.
func (p *Presence) Has(names ...string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range names {
		if _, exists := p.existing[n]; !exists {
			return false
		}
	}
	return true
}

func (p *Presence) set(obj any, exists bool) {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return // not an object with a name
	}
	p.mu.Lock()
	if delete(p.existing, key); exists {
		p.existing[key] = p.definition(obj)
	}
	changed := p.changed
	p.mu.Unlock()
	for _, f := range changed {
		f()
	}
}

func (p *Presence) definition(obj any) Definition {
	m, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return Definition{}
	}
	out := Definition{Version: m.ResourceVersion, Label: m.Labels[p.label]}
	if owner := metav1.GetControllerOfNoCopy(m); owner != nil {
		out.Controller = owner.Kind
	}
	return out
}

// While calls run whenever all of the named definitions exist, with a context that ends when
// one of them is deleted. It calls absent whenever they are known not to exist. It returns
// when ctx ends.
func (p *Presence) While(ctx context.Context, names []string, run func(context.Context), absent func()) {
	wake := make(chan struct{}, 1)
	p.OnChange(func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	})

	var stop context.CancelFunc
	var wg sync.WaitGroup
	defer wg.Wait()
	if !cache.WaitForCacheSync(ctx.Done(), p.Synced) {
		return
	}
	if !p.Has(names...) {
		absent()
	}
	for {
		switch here := p.Has(names...); {
		case here && stop == nil:
			logging.FromContext(ctx).Infow("Watching", "kinds", names)
			var runCtx context.Context
			runCtx, stop = context.WithCancel(ctx)
			wg.Go(func() { run(runCtx) })
		case !here && stop != nil:
			logging.FromContext(ctx).Infow("Kinds are no longer served, and are no longer watched", "kinds", names)
			stop()
			wg.Wait()
			stop = nil
			absent()
		}
		select {
		case <-ctx.Done():
			if stop != nil {
				stop()
			}
			return
		case <-wake:
		case <-time.After(time.Minute):
		}
	}
}
