package environment

import (
	"context"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
)

// kind is one kind of environments. It implements observer.Kind.
type kind struct {
	watch *Watch
	of    schema.GroupKind

	mu     sync.RWMutex
	target target
	// served is false when it is known that no definition of the kind exists.
	served  bool
	indexer cache.Indexer
}

var _ observer.Kind = (*kind)(nil)

// target is where the API server serves a kind.
type target struct {
	resource   schema.GroupVersionResource
	namespaced bool
	// composite says that a CompositeResourceDefinition defines the kind.
	composite bool
}

func (k *kind) at() target {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.target
}

// use sets the cache, nil for none.
func (k *kind) use(indexer cache.Indexer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.indexer = indexer
}

func (k *kind) cached() cache.Indexer {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.indexer
}

func (k *kind) serve(served bool, at target) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.served = served; served {
		k.target = at
	}
}

// APIVersion implements observer.Kind.
func (k *kind) APIVersion() string {
	return schema.GroupVersion{Group: k.of.Group, Version: k.at().resource.Version}.String()
}

// Name implements observer.Kind.
func (k *kind) Name() string { return k.of.Kind }

// Served implements observer.Kind.
func (k *kind) Served() bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.served
}

// Position implements observer.Kind: an environment has no floating parts.
func (*kind) Position() string { return "" }

// Keys implements observer.Kind.
func (k *kind) Keys() []types.NamespacedName {
	indexer := k.cached()
	if indexer == nil {
		return nil
	}
	var out []types.NamespacedName
	for _, obj := range indexer.List() {
		if s, ok := obj.(*stored); ok {
			out = append(out, s.key())
		}
	}
	return out
}

func (s *stored) key() types.NamespacedName {
	return types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
}

// Cached implements observer.Kind.
func (k *kind) Cached(key types.NamespacedName) observer.Parts {
	indexer := k.cached()
	if indexer == nil {
		return observer.Parts{}
	}
	name := key.Name
	if key.Namespace != "" {
		name = key.String()
	}
	obj, _, err := indexer.GetByKey(name)
	if s, ok := obj.(*stored); ok && err == nil {
		return observer.Parts{partObject: s.part}
	}
	return observer.Parts{}
}

// Object implements observer.Kind.
func (*kind) Object(p observer.Parts) *observer.Object {
	if v, ok := p[partObject].Value.(value); ok {
		return &observer.Object{UID: v.UID, Created: v.Created}
	}
	return nil
}

// Live implements observer.Kind.
func (k *kind) Live(ctx context.Context, key types.NamespacedName) (types.UID, error) {
	if !k.Served() {
		return "", nil
	}
	m, err := k.watch.Metadata.Resource(k.at().resource).Namespace(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	switch {
	case err == nil:
		return m.UID, nil
	case !apierrors.IsNotFound(err):
		return "", fmt.Errorf("reading %s %s: %w", k.of, key, err)
	case names(err, key.Name) || !k.Served():
		return "", nil
	}
	return "", fmt.Errorf("reading %s %s: the kind is not served at the moment: %w", k.of, key, err)
}

// names distinguishes "no such object" from "no such kind".
func names(err error, name string) bool {
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Name == name
}

// excluded reports whether an object is not to be announced: its own label decides, then whether it belongs to
// another object that is.
func (k *kind) excluded(v value) bool {
	switch v.Chosen {
	case "true":
		return false
	case "false":
		return true
	}
	return v.Part || v.Controller.Kind != "" && k.watch.selects(v.Controller)
}

// snapshot composes an environment. It asks the API server for what the object itself does not have. If that fails,
// the snapshot is not complete, and must be taken again; the environment's own events do not wait for it.
func (k *kind) snapshot(ctx context.Context, m lifecycle.EnvironmentMemory, v value, version string) (s lifecycle.EnvironmentSnapshot, complete bool) {
	s, complete = v.Facts, true
	s.Version, s.Excluded = version, k.excluded(v)
	if s.Excluded || m.Removed {
		return s, true
	}
	if v.ControlPlane != nil && (s.Settled || !m.Created) {
		s.Environment.Version, s.Environment.Note, complete = k.watch.version(ctx, *v.ControlPlane)
		s.Settled = s.Settled && complete
	}
	if v.Composite != nil {
		resources, known := k.watch.composed(ctx, *v.Composite)
		complete = complete && known
		if s.Resources = resources; len(resources) == 0 {
			s.Resources = m.Resources // they may outlive their composite
		}
	}
	return s, complete
}
