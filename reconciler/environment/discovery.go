// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// group is what the API server serves of a group, the preferred version first.
type group []*metav1.APIResourceList

// find returns the first of the resources, which are no subresources, that is such.
func (g group) find(such func(metav1.APIResource) bool) (found metav1.APIResource, version schema.GroupVersion,
	ok bool,
) {
	for _, list := range g {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, r := range list.APIResources {
			if !strings.Contains(r.Name, "/") && such(r) {
				return r, version, true
			}
		}
	}
	return metav1.APIResource{}, schema.GroupVersion{}, false
}

// has reports whether one of the resources is such.
func (g group) has(such func(metav1.APIResource) bool) bool {
	_, _, ok := g.find(such)
	return ok
}

// served returns what the API server serves of a group. With an error, it returns what it found out.
func (r *reader) served(ctx context.Context, name string) (group, error) {
	versions, err := r.versions(ctx, name)
	if err != nil {
		return nil, err
	}
	return r.servedIn(versions...)
}

// servedIn returns what the API server serves of versions of a group. With an error, it returns what it found out:
// another server may be behind each version.
func (r *reader) servedIn(versions ...schema.GroupVersion) (group, error) {
	var out group
	var errs []error
	for _, version := range versions {
		list, err := r.discovery.ServerResourcesForGroupVersion(version.String())
		if apierrors.IsNotFound(err) {
			continue // not served yet, or not any more
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("asking which resources %s has: %w", version, err))
			continue
		}
		out = append(out, list)
	}
	return out, errors.Join(errs...)
}

// found is what was found out of a group, and why that is not all.
type found struct {
	served group
	err    error
}

// lookUp returns what the API server serves of a group, which it asks for once.
func (r *reader) lookUp(ctx context.Context, name string, groups map[string]found) found {
	f, asked := groups[name]
	if !asked {
		f.served, f.err = r.served(ctx, name)
		groups[name] = f
	}
	return f
}

// versions returns the served versions of a group, the preferred one first.
func (r *reader) versions(ctx context.Context, group string) ([]schema.GroupVersion, error) {
	var g metav1.APIGroup
	err := r.discovery.RESTClient().Get().AbsPath("/apis/" + group).Do(ctx).Into(&g)
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
func (r *reader) locate(ctx context.Context, ref lifecycle.ResourceRef) (schema.GroupVersionResource, bool, error) {
	key := ref.APIVersion + " " + ref.Kind
	r.mu.Lock()
	known, ok := r.places[key]
	r.mu.Unlock()
	if ok && r.now().Sub(known.at) < locatedFor {
		return known.resource, known.namespaced, nil
	}
	all, err := r.offered(ctx, ref.APIVersion)
	found, version, ok := all.find(func(one metav1.APIResource) bool { return one.Kind == ref.Kind })
	if err != nil && !ok { // a version that cannot be looked up may have it
		return schema.GroupVersionResource{}, false, err
	}
	if known = (located{at: r.now()}); ok {
		known.resource, known.namespaced = version.WithResource(found.Name), found.Namespaced
	}
	r.mu.Lock()
	if len(r.places) >= maxLocated {
		clear(r.places)
	}
	r.places[key] = known
	r.mu.Unlock()
	return known.resource, known.namespaced, nil
}

// offered returns what the API server serves in an API version, or in all versions of a group.
func (r *reader) offered(ctx context.Context, versionOrGroup string) (group, error) {
	if !strings.Contains(versionOrGroup, "/") && versionOrGroup != "v1" {
		return r.served(ctx, versionOrGroup)
	}
	version, err := schema.ParseGroupVersion(versionOrGroup)
	if err != nil {
		return nil, fmt.Errorf("the API version of a reference: %w", err)
	}
	return r.servedIn(version)
}
