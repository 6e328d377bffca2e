// SPDX-License-Identifier: Apache-2.0

package source

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

var (
	// errNoKind says that the cluster does not serve the kind at present.
	errNoKind = errors.New("the kind is not installed")
	// errNoNamespace says that the kind is cluster-scoped.
	errNoNamespace = errors.New("the kind is cluster-scoped")
)

type location struct {
	resource   schema.GroupVersionResource
	namespaced bool
}

// kinds maps kinds to resources. It discovers one API group and version at a time, so
// that a broken one does not affect others. It caches only kinds that it found, because
// a kind may be installed later.
type kinds struct {
	discovery discovery.ServerResourcesInterface

	mu    sync.Mutex
	known map[schema.GroupVersionKind]location
}

func newKinds(d discovery.ServerResourcesInterface) *kinds {
	return &kinds{discovery: d, known: map[schema.GroupVersionKind]location{}}
}

func (k *kinds) of(kind schema.GroupVersionKind) (location, error) {
	k.mu.Lock()
	at, ok := k.known[kind]
	k.mu.Unlock()
	if ok {
		return at, nil
	}
	list, err := k.discovery.ServerResourcesForGroupVersion(kind.GroupVersion().String())
	if apierrors.IsNotFound(err) {
		return location{}, errNoKind
	}
	if err != nil {
		return location{}, fmt.Errorf("asking for the kinds of %s: %w", kind.GroupVersion(), err)
	}
	for _, r := range list.APIResources {
		if r.Kind != kind.Kind || strings.Contains(r.Name, "/") {
			continue
		}
		at = location{kind.GroupVersion().WithResource(r.Name), r.Namespaced}
		k.mu.Lock()
		k.known[kind] = at
		k.mu.Unlock()
		return at, nil
	}
	return location{}, errNoKind
}

func (k *kinds) forget(kind schema.GroupVersionKind) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.known, kind)
}
