// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"knative.dev/pkg/logging"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// reader reads single objects that others name, and what the API server serves.
type reader struct {
	discovery discovery.DiscoveryInterface
	dynamic   dynamic.Interface
	metadata  metadata.Interface
	now       func() time.Time

	mu     sync.Mutex
	places map[string]located
}

func newReader(o Options) *reader {
	return &reader{
		discovery: o.Discovery, dynamic: o.Dynamic, metadata: o.Metadata, now: o.Now,
		places: map[string]located{},
	}
}

// forbidden reports whether the API server refuses to show something, for good as far as we can tell.
func forbidden(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }

// place returns where the API server has an object that another one names; the resource is empty if there is no such
// kind. An object of a namespace refers to others of its namespace only: what is in none belongs to others, and
// whoever writes the reference must not find out what it is, nor whether it exists.
func (r *reader) place(ctx context.Context, ref lifecycle.ResourceRef) (schema.GroupVersionResource, error) {
	resource, namespaced, err := r.locate(ctx, ref)
	if err != nil || !namespaced && ref.Namespace != "" {
		return schema.GroupVersionResource{}, err
	}
	return resource, nil
}

// get reads an object that another one names; nil if it does not exist.
func (r *reader) get(ctx context.Context, ref lifecycle.ResourceRef) (*unstructured.Unstructured, error) {
	resource, err := r.place(ctx, ref)
	if err != nil || resource.Resource == "" {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	u, err := r.dynamic.Resource(resource).Namespace(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // there is none
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s %s/%s: %w", ref.Kind, ref.Namespace, ref.Name, err)
	}
	return u, nil
}

// version returns the version of a control plane. If it is unknown, a note says why, and known says whether that
// will stay so.
func (r *reader) version(ctx context.Context, ref lifecycle.ResourceRef) (version, note string, known bool) {
	u, err := r.get(ctx, ref)
	switch {
	case forbidden(err):
		return "", fmt.Sprintf("the version is unknown: the controller may not read %s %s", ref.Kind, ref.Name), true
	case err != nil:
		logging.FromContext(ctx).Warnw("Could not read the version of an environment; trying again", "error", err)
		return "", fmt.Sprintf("the version is unknown: %s %s cannot be read at the moment", ref.Kind, ref.Name), false
	case u == nil:
		return "", fmt.Sprintf("the version is unknown: %s %s does not exist", ref.Kind, ref.Name), true
	}
	version, note = object{u}.runs()
	return version, note, true
}

// composed returns the composite of a claim, and what it is made of, as far as they can be read. A composite that
// does not name the claim belongs to another one, whatever the claim says: Crossplane writes both references.
func (r *reader) composed(ctx context.Context, composite lifecycle.ResourceRef,
	claim types.NamespacedName,
) (all []lifecycle.ResourceRef, known bool) {
	u, err := r.get(ctx, composite)
	if err != nil && !forbidden(err) {
		logging.FromContext(ctx).Warnw("Could not read the composite of a claim; trying again", "error", err)
	}
	switch {
	case forbidden(err):
		return []lifecycle.ResourceRef{composite}, true // it is not known what it consists of, nor whether it still exists
	case u == nil:
		return nil, err == nil
	case object{u}.claim() != claim:
		return nil, true
	}
	return append([]lifecycle.ResourceRef{composite}, object{u}.resources()...), true
}

// left returns one of the resources that still exists, and one that may not be read; nil if there is none. One that
// cannot be read now counts as one that exists: whoever names it decides what can be read, and the caller waits only
// for a while. Those that are to be kept are not asked for.
func (r *reader) left(ctx context.Context, resources []lifecycle.ResourceRef) (left,
	unreadable *lifecycle.ResourceRef,
) {
	for i, ref := range resources {
		if ref.Fate == lifecycle.FateOrphaned {
			continue
		}
		switch exists, err := r.exists(ctx, ref); {
		case forbidden(err):
			unreadable = &resources[i]
		case err != nil:
			logging.FromContext(ctx).Debugw("Could not read a resource of an environment that is gone; trying again", "kind",
				ref.Kind, "name", ref.Name, "error", err)
			return &resources[i], unreadable
		case exists:
			return &resources[i], unreadable
		}
	}
	return nil, unreadable
}

func (r *reader) exists(ctx context.Context, ref lifecycle.ResourceRef) (bool, error) {
	resource, err := r.place(ctx, ref)
	if err != nil || resource.Resource == "" {
		return false, err // if its kind is gone, so is it
	}
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	_, err = r.metadata.Resource(resource).Namespace(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %s %s/%s: %w", ref.Kind, ref.Namespace, ref.Name, err)
	}
	return true, nil
}

// readWithin bounds a request for one object, which a conversion webhook may delay.
const readWithin = 5 * time.Second
