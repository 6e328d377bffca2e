package observer

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"knative.dev/pkg/logging"
)

var crds = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// Presence knows which CustomResourceDefinitions exist. Watched kinds may be installed after
// the controller, and uninstalled before it.
type Presence struct {
	informer cache.SharedIndexInformer

	mu       sync.Mutex
	existing map[string]bool
	changed  []func()
}

// NewPresence watches the names of all CustomResourceDefinitions, and nothing else of them.
// Call Run to start.
func NewPresence(client metadata.Interface) (*Presence, error) {
	p := &Presence{existing: map[string]bool{}}
	p.informer = metadatainformer.NewSharedInformerFactory(client, 0).ForResource(crds).Informer()
	err := p.informer.SetTransform(func(obj any) (any, error) {
		if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
			return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
				Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion,
			}}, nil
		}
		return obj, nil
	})
	if err != nil {
		return nil, fmt.Errorf("setting a transform on the informer for %s: %w", crds.Resource, err)
	}
	_, err = p.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { p.set(obj, true) },
		DeleteFunc: func(obj any) { p.set(obj, false) },
	})
	if err != nil {
		return nil, fmt.Errorf("adding a handler to the informer for %s: %w", crds.Resource, err)
	}
	return p, nil
}

// Run watches until the context ends.
func (p *Presence) Run(ctx context.Context) { p.informer.RunWithContext(ctx) }

// Synced says whether it is known what exists.
func (p *Presence) Synced() bool { return p.informer.HasSynced() }

// Has says whether all of the named definitions exist, as far as is known.
func (p *Presence) Has(names ...string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range names {
		if !p.existing[n] {
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
	p.existing[key] = exists
	changed := p.changed
	p.mu.Unlock()
	for _, f := range changed {
		f()
	}
}

// While calls run whenever all of the named definitions exist, with a context that ends when
// one of them is deleted. It calls absent whenever they are known not to exist. It returns
// when ctx ends.
func (p *Presence) While(ctx context.Context, names []string, run func(context.Context), absent func()) {
	wake := make(chan struct{}, 1)
	p.mu.Lock()
	p.changed = append(p.changed, func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	})
	p.mu.Unlock()

	var stop context.CancelFunc
	var wg sync.WaitGroup
	defer wg.Wait()
	if !cache.WaitForCacheSync(ctx.Done(), p.informer.HasSynced) {
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
