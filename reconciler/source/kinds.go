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
	// errNoKind says that the cluster does not know a kind, at the moment.
	errNoKind = errors.New("the kind is not installed")
	// errNoNamespace says that objects of a kind belong to the cluster as a whole.
	errNoNamespace = errors.New("the kind is cluster-scoped")
)

type location struct {
	resource   schema.GroupVersionResource
	namespaced bool
}

// kinds knows where the objects of a kind are found. It asks for one API group
// and version at a time, so that another one that is broken does not matter, and
// remembers only what it found: a kind may be installed at any time.
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
