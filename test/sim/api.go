// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/serving/pkg/apis/serving"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
	servingv1beta1 "knative.dev/serving/pkg/apis/serving/v1beta1"
	"knative.dev/serving/pkg/client/clientset/versioned"
	clientv1 "knative.dev/serving/pkg/client/clientset/versioned/typed/serving/v1"
	clientv1beta1 "knative.dev/serving/pkg/client/clientset/versioned/typed/serving/v1beta1"
)

// api answers the live requests of the watched kind. Unused clients are nil.
type api struct {
	versioned.Interface
	w *world
}

type apiV1 struct {
	clientv1.ServingV1Interface
	w *world
}

func (a api) ServingV1beta1() clientv1beta1.ServingV1beta1Interface { return apiV1beta1{w: a.w} }

type apiV1beta1 struct {
	clientv1beta1.ServingV1beta1Interface
	w *world
}

func (a apiV1beta1) DomainMappings(string) clientv1beta1.DomainMappingInterface {
	return domains{w: a.w}
}

type domains struct {
	clientv1beta1.DomainMappingInterface
	w *world
}

func (d domains) Get(_ context.Context, name string, _ metav1.GetOptions) (*servingv1beta1.DomainMapping, error) {
	return read(d.w, "domainmappings", name, func() (*servingv1beta1.DomainMapping, bool) {
		o, ok := d.w.cluster.domains[name]
		return o, ok
	})
}

func (a api) ServingV1() clientv1.ServingV1Interface { return apiV1{w: a.w} }

func (a apiV1) Services(string) clientv1.ServiceInterface { return services{w: a.w} }

func (a apiV1) Revisions(string) clientv1.RevisionInterface { return revisions{w: a.w} }

func (a apiV1) Routes(string) clientv1.RouteInterface { return routes{w: a.w} }

// read answers a request, or fails it with a mishap.
func read[T object](w *world, resource, name string, find func() (T, bool)) (T, error) {
	var none T
	w.pause()
	if err := w.mishap("get", name, "before"); err != nil {
		return none, err
	}
	o, ok := find()
	if !ok {
		return none, apierrors.NewNotFound(schema.GroupResource{Group: serving.GroupName, Resource: resource}, name)
	}
	return o, nil
}

type services struct {
	clientv1.ServiceInterface
	w *world
}

func (s services) Get(_ context.Context, name string, _ metav1.GetOptions) (*servingv1.Service, error) {
	return read(s.w, "services", name, func() (*servingv1.Service, bool) {
		live, ok := s.w.cluster.live[types.NamespacedName{Namespace: "ns", Name: name}]
		if !ok {
			s.w.sees("")
			return nil, false
		}
		o, ok := live.objects[partService].(*servingv1.Service)
		s.w.sees(o.GetUID())
		return o, ok
	})
}

type routes struct {
	clientv1.RouteInterface
	w *world
}

func (r routes) Get(_ context.Context, name string, _ metav1.GetOptions) (*servingv1.Route, error) {
	return read(r.w, "routes", name, func() (*servingv1.Route, bool) {
		live, ok := r.w.cluster.live[types.NamespacedName{Namespace: "ns", Name: name}]
		if !ok {
			return nil, false
		}
		o, ok := live.objects[partRoute].(*servingv1.Route)
		if ok {
			r.w.seesRoute(name)
		}
		return o, ok
	})
}

type revisions struct {
	clientv1.RevisionInterface
	w *world
}

func (r revisions) Get(_ context.Context, name string, _ metav1.GetOptions) (*servingv1.Revision, error) {
	return read(r.w, "revisions", name, func() (*servingv1.Revision, bool) {
		for _, s := range r.w.cluster.live {
			if o, ok := s.objects[partRevision+name].(*servingv1.Revision); ok {
				return o, true
			}
		}
		return nil, false
	})
}

// List lists all Services on one page.
func (s services) List(context.Context, metav1.ListOptions) (*servingv1.ServiceList, error) {
	out := &servingv1.ServiceList{}
	return out, listed(s.w, func(o *servingv1.Service) { out.Items = append(out.Items, *o) })
}

// List lists Revisions by their labels.
func (r revisions) List(_ context.Context, opts metav1.ListOptions) (*servingv1.RevisionList, error) {
	selector, err := labels.Parse(opts.LabelSelector)
	if err != nil {
		return nil, err //nolint:wrapcheck // as the API server says it
	}
	out := &servingv1.RevisionList{}
	return out, listed(r.w, func(o *servingv1.Revision) {
		if selector.Matches(labels.Set(o.Labels)) {
			out.Items = append(out.Items, *o)
		}
	})
}

// List lists all DomainMappings.
func (d domains) List(context.Context, metav1.ListOptions) (*servingv1beta1.DomainMappingList, error) {
	d.w.pause()
	out := &servingv1beta1.DomainMappingList{ListMeta: metav1.ListMeta{ResourceVersion: d.w.store.Version()}}
	for _, name := range slices.Sorted(maps.Keys(d.w.cluster.domains)) {
		out.Items = append(out.Items, *d.w.cluster.domains[name])
	}
	return out, d.w.mishap("list", "domainmappings", "before")
}

// listed calls f with each object of a kind that belongs to a Service, in an order that does not vary.
func listed[T object](w *world, f func(T)) error {
	w.pause()
	for _, key := range w.cluster.names() {
		s := w.cluster.live[key]
		for _, part := range slices.Sorted(maps.Keys(s.objects)) {
			if o, ok := s.objects[part].(T); ok {
				f(o)
			}
		}
	}
	return w.mishap("list", "all", "before")
}
