// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"
	"knative.dev/pkg/network"

	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
	"github.com/knative-cdevents/knative-cdevents/reconciler/source/valid"
)

// sinks resolves destinations to addresses.
//
// It replaces knative.dev/pkg/resolver and follows the same rules. The resolver caches
// every object of each referenced kind, and cannot say why an object has no address.
type sinks struct {
	objects *objects
	schemes transport.Schemes
}

func newSinks(o *objects, schemes transport.Schemes) *sinks {
	return &sinks{objects: o, schemes: schemes}
}

// forget stops watching the sinks of a source.
func (s *sinks) forget(source types.NamespacedName) { s.objects.keep(source, nil) }

// look is one resolution of all sinks of a source.
type look struct {
	objects *objects
	schemes transport.Schemes
	source  types.NamespacedName
	used    map[reference]bool
}

func (s *sinks) look(source types.NamespacedName) *look {
	return &look{objects: s.objects, schemes: s.schemes, source: source, used: map[reference]bool{}}
}

// done stops watching sinks that the source no longer references.
func (l *look) done() { l.objects.keep(l.source, l.used) }

// destination resolves the destination in the given field. Its errors are problems,
// apart from those of the API server.
func (l *look) destination(ctx context.Context, field string, d *duckv1.Destination) (*duckv1.Addressable, error) {
	if err := valid.Destination(field, l.source.Namespace, d, l.schemes); err != nil {
		return nil, err
	}
	if d.Ref == nil {
		return &duckv1.Addressable{URL: d.URI, CACerts: d.CACerts, Audience: d.Audience}, nil
	}
	addr, err := l.reference(ctx, field, d)
	if err != nil {
		return nil, err
	}
	if d.URI != nil {
		addr.URL = addr.URL.ResolveReference(d.URI)
	}
	if d.Audience != nil && *d.Audience != "" {
		addr.Audience = d.Audience
	}
	return addr, nil
}

// passing is the problem that the API server did not answer.
func passing(format string, args ...any) error {
	return &valid.ProblemError{Reason: valid.LookupFailed, Passing: true, Message: fmt.Sprintf(format, args...)}
}

func (l *look) reference(ctx context.Context, field string, d *duckv1.Destination) (*duckv1.Addressable, error) {
	ref := *d.Ref
	if ref.Namespace == "" {
		ref.Namespace = l.source.Namespace
	}
	gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	desc := fmt.Sprintf("%s %s in namespace %s (%s.ref)", ref.Kind, ref.Name, ref.Namespace, field)

	at, err := l.objects.locate(gvk, ref.Namespace, ref.Name)
	switch {
	case errors.Is(err, errNoKind):
		return nil, valid.Problemf(valid.SinkKindNotInstalled, "The kind %s of %s (%s.ref) is not installed in this "+
			"cluster; install it, or correct apiVersion and kind. The controller checks again every %s",
			ref.Kind, ref.APIVersion, field, interval)
	case errors.Is(err, errNoNamespace):
		return nil, valid.Problemf(valid.SinkKindNotAllowed, "%s.ref names a %s of %s, which is cluster-scoped; a source "+
			"can refer only to objects in its own namespace, %s. Specify the address in %s.uri instead",
			field, ref.Kind, ref.APIVersion, ref.Namespace, field)
	case err != nil:
		return nil, passing("Cannot find out whether this cluster knows the kind of %s: %v", desc, err)
	}
	l.used[at] = true
	object, err := l.objects.get(ctx, l.source, at)
	switch {
	case apierrors.IsNotFound(err):
		return nil, valid.Problemf(valid.SinkNotFound, "%s does not exist; create it, or correct the reference. The "+
			"controller notices when it is created", desc)
	case apierrors.IsForbidden(err):
		return nil, valid.Problemf(valid.SinkForbidden, "The controller may not read %s; grant it get, list and watch on %s "+
			"with a ClusterRole that has the label knative-cdevents.dev/aggregate-to-sinks: \"true\"",
			desc, at.resource.GroupResource())
	case err != nil:
		return nil, passing("Cannot read %s: %v", desc, err)
	}
	if gvk == corev1.SchemeGroupVersion.WithKind("Service") {
		return ofService(ref, d.CACerts), nil
	}
	return addressOf(object, desc, ref.Address, d.CACerts, l.schemes)
}

// ofService returns the address of a Kubernetes Service, which has none in its status.
func ofService(ref duckv1.KReference, caCerts *string) *duckv1.Addressable {
	u := &apis.URL{Scheme: "http", Host: network.GetServiceHostname(ref.Name, ref.Namespace)}
	if caCerts != nil && *caCerts != "" {
		u.Scheme = "https"
	}
	return &duckv1.Addressable{Name: ref.Address, URL: u, CACerts: caCerts}
}
