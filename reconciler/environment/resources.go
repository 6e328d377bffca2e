package environment

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"knative.dev/pkg/logging"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// forbidden reports whether the API server refuses to show something, for good as far as we can tell.
func forbidden(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }

// get reads an object that another one names; nil if it does not exist.
func (w *Watch) get(ctx context.Context, ref lifecycle.ResourceRef) (*unstructured.Unstructured, error) {
	resource, namespaced, err := w.locate(ctx, ref)
	if err != nil || resource.Resource == "" {
		return nil, err
	}
	namespace := ref.Namespace
	if !namespaced {
		namespace = ""
	}
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	u, err := w.Dynamic.Resource(resource).Namespace(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // there is none
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s %s/%s: %w", ref.Kind, namespace, ref.Name, err)
	}
	return u, nil
}

// version returns spec.version of a control plane. If it is unknown, a note says why, and known says whether that
// will stay so.
func (w *Watch) version(ctx context.Context, ref lifecycle.ResourceRef) (version, note string, known bool) {
	u, err := w.get(ctx, ref)
	switch {
	case forbidden(err):
		return "", fmt.Sprintf("the version is unknown: the controller may not read %s %s", ref.Kind, ref.Name), true
	case err != nil:
		logging.FromContext(ctx).Warnw("Could not read the version of an environment; trying again", "error", err)
		return "", fmt.Sprintf("the version is unknown: %s %s cannot be read at the moment", ref.Kind, ref.Name), false
	case u == nil:
		return "", fmt.Sprintf("the version is unknown: %s %s does not exist", ref.Kind, ref.Name), true
	}
	return object{u}.text("spec.version"), "", true
}

// composed returns the composite of a claim, and what it is made of, as far as they can be read.
func (w *Watch) composed(ctx context.Context, composite lifecycle.ResourceRef) (all []lifecycle.ResourceRef, known bool) {
	u, err := w.get(ctx, composite)
	if err != nil && !forbidden(err) {
		logging.FromContext(ctx).Warnw("Could not read the composite of a claim; trying again", "error", err)
	}
	if u == nil {
		return nil, err == nil || forbidden(err)
	}
	return append([]lifecycle.ResourceRef{composite}, object{u}.resources()...), true
}

// left reports whether one of the resources still exists, and whether one of them may not be read. One that cannot be
// read now counts as one that exists: whoever names it decides what can be read, and the caller waits only for a while.
func (w *Watch) left(ctx context.Context, resources []lifecycle.ResourceRef) (left, unreadable bool) {
	for _, ref := range resources {
		switch exists, err := w.exists(ctx, ref); {
		case forbidden(err):
			unreadable = true
		case err != nil:
			logging.FromContext(ctx).Debugw("Could not read a resource of an environment that is gone; trying again", "kind", ref.Kind, "name", ref.Name, "error", err)
			return true, unreadable
		case exists:
			return true, unreadable
		}
	}
	return false, unreadable
}

func (w *Watch) exists(ctx context.Context, ref lifecycle.ResourceRef) (bool, error) {
	resource, namespaced, err := w.locate(ctx, ref)
	if err != nil || resource.Resource == "" {
		return false, err // if its kind is gone, so is it
	}
	namespace := ref.Namespace
	if !namespaced {
		namespace = ""
	}
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	_, err = w.Metadata.Resource(resource).Namespace(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %s %s/%s: %w", ref.Kind, namespace, ref.Name, err)
	}
	return true, nil
}

// readWithin bounds a request for one object, which a conversion webhook may delay.
const readWithin = 5 * time.Second

// located is where a kind was found, or that it was not.
type located struct {
	resource   schema.GroupVersionResource
	namespaced bool
	at         time.Time
}

// locatedFor is how long an answer of discovery counts.
const locatedFor = time.Minute

// maxLocated bounds the answers that are kept. Users choose what is asked.
const maxLocated = 4096

// locate returns the resource that an object belongs to; its name is empty if there is none. An object may name
// only the group of its kind, as references of Cluster API's v1beta2 do.
func (w *Watch) locate(ctx context.Context, ref lifecycle.ResourceRef) (schema.GroupVersionResource, bool, error) {
	key := ref.APIVersion + " " + ref.Kind
	w.mu.Lock()
	known, ok := w.places[key]
	w.mu.Unlock()
	if ok && w.Now().Sub(known.at) < locatedFor {
		return known.resource, known.namespaced, nil
	}
	var found *metav1.APIResource
	var version schema.GroupVersion
	var err error
	if strings.Contains(ref.APIVersion, "/") || ref.APIVersion == "v1" {
		version, err = schema.ParseGroupVersion(ref.APIVersion)
		if err == nil {
			found, err = w.find(ctx, version, ref.Kind)
		}
	} else {
		found, version, err = w.preferred(ctx, schema.GroupKind{Group: ref.APIVersion, Kind: ref.Kind})
	}
	if err != nil {
		return schema.GroupVersionResource{}, false, err
	}
	known = located{at: w.Now()}
	if found != nil {
		known.resource, known.namespaced = version.WithResource(found.Name), found.Namespaced
	}
	w.mu.Lock()
	if len(w.places) >= maxLocated {
		clear(w.places)
	}
	w.places[key] = known
	w.mu.Unlock()
	return known.resource, known.namespaced, nil
}

// find returns the resource of a kind in one version of its group, nil if there is none.
func (w *Watch) find(_ context.Context, version schema.GroupVersion, kind string) (*metav1.APIResource, error) {
	list, err := w.Discovery.ServerResourcesForGroupVersion(version.String())
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // there is none
	}
	if err != nil {
		return nil, fmt.Errorf("asking which resources %s has: %w", version, err)
	}
	for i, r := range list.APIResources {
		if r.Kind == kind && !strings.Contains(r.Name, "/") {
			return &list.APIResources[i], nil
		}
	}
	return nil, nil //nolint:nilnil // there is none
}

// preferred returns the resource of a kind in the first version of its group that has it, in the order in which the
// API server prefers them.
func (w *Watch) preferred(ctx context.Context, of schema.GroupKind) (*metav1.APIResource, schema.GroupVersion, error) {
	versions, err := w.versions(ctx, of.Group)
	if err != nil {
		return nil, schema.GroupVersion{}, err
	}
	for _, version := range versions {
		if r, err := w.find(ctx, version, of.Kind); err != nil || r != nil {
			return r, version, err
		}
	}
	return nil, schema.GroupVersion{}, nil
}

// versions returns the served versions of a group, the preferred one first.
func (w *Watch) versions(ctx context.Context, group string) ([]schema.GroupVersion, error) {
	var g metav1.APIGroup
	err := w.Discovery.RESTClient().Get().AbsPath("/apis/" + group).Do(ctx).Into(&g)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("asking which versions group %s has: %w", group, err)
	}
	out := []schema.GroupVersion{{Group: group, Version: g.PreferredVersion.Version}}
	for _, v := range g.Versions {
		if v.Version != g.PreferredVersion.Version {
			out = append(out, schema.GroupVersion{Group: group, Version: v.Version})
		}
	}
	return out, nil
}
