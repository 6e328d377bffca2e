// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
)

// Kind is one kind of environments. It implements observer.Kind.
type Kind struct {
	reader   *reader
	settings observer.Settings
	// selects reports whether a kind is chosen, and whether that is known.
	selects func(schema.GroupKind) (selected, known bool)

	of schema.GroupKind

	mu     sync.RWMutex
	target Target
	// served is false when it is known that no definition of the kind exists.
	served  bool
	indexer cache.Indexer
}

// NewKind returns a kind without a watch: Use gives it a cache. Of the options, it needs those to read objects with,
// the rules, and the clock. At is where the API server serves the kind.
func NewKind(o Options, of schema.GroupKind, at Target) *Kind {
	k := newKind(newReader(o), of, o.Settings, func(schema.GroupKind) (bool, bool) { return false, true })
	k.target = at
	return k
}

func newKind(r *reader, of schema.GroupKind, settings observer.Settings,
	selects func(schema.GroupKind) (selected, known bool),
) *Kind {
	return &Kind{reader: r, of: of, settings: settings, selects: selects, served: true}
}

var _ observer.Confirmer = (*Kind)(nil)

// Target is where the API server serves a kind.
type Target struct {
	Resource   schema.GroupVersionResource
	Namespaced bool
	// Composite says that a CompositeResourceDefinition defines the kind.
	Composite bool
}

func (k *Kind) at() Target {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.target
}

// Use sets the cache, nil for none.
func (k *Kind) Use(indexer cache.Indexer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.indexer = indexer
}

func (k *Kind) cached() cache.Indexer {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.indexer
}

func (k *Kind) serve(served bool, at Target) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.served = served; served {
		k.target = at
	}
}

// APIVersion implements observer.Kind.
func (k *Kind) APIVersion() string {
	return schema.GroupVersion{Group: k.of.Group, Version: k.at().Resource.Version}.String()
}

// Name implements observer.Kind.
func (k *Kind) Name() string { return k.of.Kind }

// Served implements observer.Kind.
func (k *Kind) Served() bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.served
}

// Keys implements observer.Kind.
func (k *Kind) Keys() []types.NamespacedName {
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
func (k *Kind) Cached(key types.NamespacedName) observer.Parts {
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
func (*Kind) Object(p observer.Parts) *observer.Object {
	if v, ok := p[partObject].Value.(value); ok {
		return &observer.Object{UID: v.UID, Created: v.Created}
	}
	return nil
}

// Live implements observer.Kind. That no definition is known is no answer: the API server may serve the kind all the
// same.
func (k *Kind) Live(ctx context.Context, key types.NamespacedName) (types.UID, error) {
	resource := k.at().Resource
	if !k.Served() {
		var err error
		resource, _, err = k.reader.locate(ctx, lifecycle.ResourceRef{APIVersion: k.of.Group, Kind: k.of.Kind})
		if err != nil || resource.Resource == "" {
			return "", err
		}
	}
	m, err := k.reader.metadata.Resource(resource).Namespace(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
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

// Current implements observer.Confirmer. What the object refers to is read with each snapshot.
func (k *Kind) Current(ctx context.Context, key types.NamespacedName, parts observer.Parts, _ time.Time) (bool, error) {
	m, err := k.reader.metadata.Resource(k.at().Resource).Namespace(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading %s %s: %w", k.of, key, err)
	}
	return m.ResourceVersion == parts[partObject].Version, nil
}

// names distinguishes "no such object" from "no such kind".
func names(err error, name string) bool {
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Name == name
}

// excluded reports whether an object is not to be announced: its own label decides, then whether it belongs to
// another object that is. Known is false if that cannot be found out now.
func (k *Kind) excluded(v value) (excluded, known bool) {
	switch {
	case v.Chosen == "true":
		return false, true
	case v.Chosen == "false", v.Part:
		return true, true
	case v.Controller.Kind == "":
		return false, true
	}
	return k.selects(v.Controller)
}

// How soon a snapshot is taken again.
const (
	// completeAfter applies if it lacks what could not be read.
	completeAfter = 15 * time.Second
	// controlPlaneEvery applies if the version is in another object, whose changes do not show in this one.
	controlPlaneEvery = time.Minute
)

// snapshot composes an environment. It asks the API server for what the object itself does not have, and returns how
// soon it must ask again, 0 for not at all: if that fails, or if what was asked for may change by itself. The
// environment's own events do not wait for it.
func (k *Kind) snapshot(ctx context.Context, key types.NamespacedName, m lifecycle.EnvironmentMemory, v value,
	version string, excluded bool,
) (s lifecycle.EnvironmentSnapshot, again time.Duration) {
	s = v.Facts
	s.Version, s.Excluded = version, excluded
	if s.Excluded || m.Removed {
		return s, 0
	}
	complete := true
	if v.ControlPlane != nil && (s.Settled || !m.Created) {
		var note string
		s.Environment.Version, note, complete = k.reader.version(ctx, *v.ControlPlane)
		s.Environment.Note = strings.Trim(s.Environment.Note+"; "+note, "; ")
		s.Settled, again = s.Settled && complete, controlPlaneEvery
	}
	if v.Composite != nil {
		resources, known := k.reader.composed(ctx, *v.Composite, key)
		complete = complete && known
		if s.Resources = resources; len(resources) == 0 {
			s.Resources = m.Resources // they may outlive their composite
		}
	}
	// Policies are often changed right before an object is deleted.
	resources, known := k.reader.fates(ctx, s.Resources, m.Resources, s.Resting)
	if s.Resources = resources; !complete || !known {
		again = completeAfter
	}
	return s, again
}
