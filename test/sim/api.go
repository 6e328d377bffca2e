// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
			return nil, false
		}
		o, ok := live.objects[partService].(*servingv1.Service)
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
