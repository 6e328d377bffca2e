// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"maps"
	"slices"
	"strconv"

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
	w.reads(name)
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

// List lists all Services.
func (s services) List(_ context.Context, opts metav1.ListOptions) (*servingv1.ServiceList, error) {
	out := &servingv1.ServiceList{}
	return out, page(s.w, opts, &out.ListMeta, &out.Items, func() []servingv1.Service {
		return each[servingv1.Service](s.w, nil)
	})
}

// List lists all Routes.
func (r routes) List(_ context.Context, opts metav1.ListOptions) (*servingv1.RouteList, error) {
	out := &servingv1.RouteList{}
	return out, page(r.w, opts, &out.ListMeta, &out.Items, func() []servingv1.Route {
		r.w.listsRoutes()
		return each[servingv1.Route](r.w, nil)
	})
}

// List lists Revisions by their labels.
func (r revisions) List(_ context.Context, opts metav1.ListOptions) (*servingv1.RevisionList, error) {
	selector, err := labels.Parse(opts.LabelSelector)
	if err != nil {
		return nil, err //nolint:wrapcheck // as the API server says it
	}
	out := &servingv1.RevisionList{}
	return out, page(r.w, opts, &out.ListMeta, &out.Items, func() []servingv1.Revision {
		return each[servingv1.Revision](r.w, selector)
	})
}

// List lists all DomainMappings.
func (d domains) List(_ context.Context, opts metav1.ListOptions) (*servingv1beta1.DomainMappingList, error) {
	out := &servingv1beta1.DomainMappingList{}
	return out, page(d.w, opts, &out.ListMeta, &out.Items, func() (all []servingv1beta1.DomainMapping) {
		for _, name := range slices.Sorted(maps.Keys(d.w.cluster.domains)) {
			all = append(all, *d.w.cluster.domains[name])
		}
		return all
	})
}

// perPage is how many objects a page has at most, whatever limit is asked for.
const perPage = 2

// rest is what is left of a list, as it was when its first page was read.
type rest struct {
	items   any
	version string
}

// page answers a request for a list, or for its next page.
func page[T any](w *world, opts metav1.ListOptions, meta *metav1.ListMeta, items *[]T, all func() []T) error {
	w.pause()
	if err := w.mishap("list", "all", "before"); err != nil {
		return err
	}
	left := rest{version: w.store.Version()}
	if opts.Continue == "" {
		left.items = all()
	} else {
		left = w.cores.lists[opts.Continue]
		delete(w.cores.lists, opts.Continue)
	}
	*items, _ = left.items.([]T)
	if meta.ResourceVersion = left.version; opts.Limit > 0 && len(*items) > perPage {
		left.items, *items = (*items)[perPage:], (*items)[:perPage]
		w.cores.listed++
		meta.Continue = strconv.Itoa(w.cores.listed)
		w.cores.lists[meta.Continue] = left
	}
	return nil
}

// each lists the objects of a kind that belong to Services, in an order that does not vary. Without a selector, all are.
func each[T any, P interface {
	*T
	object
}](w *world, selector labels.Selector) (all []T) {
	for _, key := range w.cluster.names() {
		s := w.cluster.live[key]
		for _, part := range slices.Sorted(maps.Keys(s.objects)) {
			if o, ok := s.objects[part].(P); ok && (selector == nil || selector.Matches(labels.Set(o.GetLabels()))) {
				all = append(all, *o)
			}
		}
	}
	return all
}
