// SPDX-License-Identifier: Apache-2.0

// Package service watches Knative Services, with their Routes and Revisions.
//
// Its invariants: it reads and never writes. Caches hold projections of objects, so a cluster
// with tens of thousands of Revisions costs megabytes. Serving may be absent, installed later
// or uninstalled.
package service

import (
	"strings"
	"time"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/apis"
	"knative.dev/serving/pkg/apis/serving"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
	servingv1beta1 "knative.dev/serving/pkg/apis/serving/v1beta1"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
)

// Names of the parts of a Service.
const (
	partService  = lifecycle.ObjectService
	partRoute    = lifecycle.ObjectRoute
	partRevision = "revision/"
	partDomain   = "domain/"
)

// serviceValue is what the caches hold of a Service. As all values here, it is never changed: what is composed of it
// shares its maps and slices.
type serviceValue struct {
	UID         types.UID
	Created     time.Time
	Generation  int64
	Ready       bool
	EverReady   bool
	Annotations map[string]string
	Labels      map[string]string
	Trouble     map[lifecycle.Incident]*lifecycle.Trouble
}

// domainValue is what the caches hold of a DomainMapping.
type domainValue struct {
	URL string
	// Away says that it is not Ready.
	Away bool
}

// stored is the object that the caches hold. A metav1.ObjectMeta would take more room than the rest.
type stored struct {
	namespace unique.Handle[string]
	name      string
	// service is the name of the Service that it belongs to, empty if there is none.
	service string
	part    observer.Part
	// declares says that it is a Revision that declares a stateful cluster, or tries to.
	declares bool
}

// root names the Service that it belongs to. The result has no name if there is none.
func (s *stored) root() types.NamespacedName {
	if s.service == "" {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: s.namespace.Value(), Name: s.service}
}

// GetObjectMeta implements metav1.ObjectMetaAccessor, which caches need.
func (s *stored) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: s.namespace.Value(), Name: s.name, ResourceVersion: s.part.Version}
}

// GetObjectKind and DeepCopyObject make it a runtime.Object, as caches expect.
func (*stored) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject returns the same object: it is never changed.
func (s *stored) DeepCopyObject() runtime.Object { return s }

// projector turns objects into what the caches hold.
type projector struct {
	// carried are the annotations that events need.
	carried []string
	// clusterDomain is the DNS suffix inside the cluster.
	clusterDomain string
}

// transform is a cache.TransformFunc. Caches may pass in its own results, which it returns
// unchanged.
func (p projector) transform(obj any) (any, error) {
	switch o := obj.(type) {
	case *servingv1.Service:
		return p.keep(o, o.Name, observer.Part{Name: partService, Root: true, Owner: o.UID, Value: p.service(o)}), nil
	case *servingv1.Route:
		owner := metav1.GetControllerOf(o)
		if owner == nil || owner.Kind != "Service" || owner.Name != o.Name ||
			!strings.HasPrefix(owner.APIVersion, serving.GroupName+"/") {
			return p.keep(o, "", observer.Part{}), nil // it belongs to no Service
		}
		return p.keep(o, o.Name, observer.Part{Name: partRoute, Owner: owner.UID, Value: p.route(o, owner.UID)}), nil
	case *servingv1.Revision:
		name := o.Labels[serving.ServiceLabelKey]
		if name == "" {
			return p.keep(o, "", observer.Part{}), nil
		}
		value, err := p.revision(o)
		if err != nil {
			return nil, err
		}
		s := p.keep(o, name, observer.Part{Name: partRevision + o.Name, Value: value})
		s.declares = value.Facts.Stateful != "" || value.Facts.Misdeclared != ""
		return s, nil
	case *servingv1beta1.DomainMapping:
		return p.domain(o), nil
	}
	return obj, nil
}

// domain projects a DomainMapping. One that is not public has no value, and one that refers to
// another kind has no part.
func (p projector) domain(o *servingv1beta1.DomainMapping) *stored {
	ref := o.Spec.Ref
	if ref.Kind != "Service" || !strings.HasPrefix(ref.APIVersion, serving.GroupName+"/") {
		return p.keep(o, "", observer.Part{})
	}
	part := observer.Part{Name: partDomain + o.Name, Floating: true}
	url := o.Status.URL
	if url == nil {
		url = apis.HTTP(o.Name) // Serving has not written the status yet
	}
	// The status of an older generation is about what it referred to then: it is not Ready.
	if urls := p.public(nil, url); len(urls) > 0 {
		part.Value = domainValue{URL: urls[0], Away: !o.IsReady()}
	}
	// A DomainMapping must be in the namespace of its target.
	return p.keep(o, ref.Name, part)
}

func (projector) keep(o metav1.Object, service string, part observer.Part) *stored {
	part.Version, part.Size = o.GetResourceVersion(), size(part.Value)
	name := o.GetName()
	if strings.HasSuffix(part.Name, "/"+name) {
		name = part.Name[len(part.Name)-len(name):] // one string for both
	}
	if strings.HasPrefix(name, service) {
		service = name[:len(service)]
	}
	return &stored{namespace: unique.Make(o.GetNamespace()), name: name, service: service, part: part}
}

// size is about how many bytes a value takes.
func size(value any) int {
	n := 256
	of := func(m map[string]string) {
		for k, v := range m {
			n += len(k) + len(v) + 48
		}
	}
	switch v := value.(type) {
	case serviceValue:
		of(v.Annotations)
		of(v.Labels)
		for _, t := range v.Trouble {
			n += len(t.Reason) + len(t.Message) + 64
		}
	case routeValue:
		for _, u := range v.URLs {
			n += len(u) + 16
		}
		for _, s := range v.Traffic {
			n += len(s.Revision) + 24
		}
		for _, t := range v.Trouble {
			n += len(t.Reason) + len(t.Message) + 64
		}
	case revisionValue:
		of(v.Facts.Annotations)
		for _, i := range v.Facts.Images {
			n += len(i.Container) + len(i.Image) + len(i.Digest) + 48
		}
	case domainValue:
		n += len(v.URL)
	}
	return n
}

func (p projector) service(o *servingv1.Service) serviceValue {
	return serviceValue{
		UID:         o.UID,
		Created:     o.CreationTimestamp.UTC(),
		Generation:  o.Generation,
		Ready:       o.IsReady(),
		EverReady:   o.Status.LatestReadyRevisionName != "",
		Annotations: lifecycle.BoundAnnotations(o.Annotations, p.carried),
		Labels:      lifecycle.BoundLabels(o.Labels),
		Trouble:     trouble(o),
	}
}
