// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"
	"knative.dev/pkg/network"

	"github.com/knative-cdevents/knative-cdevents/api/sanitize"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
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
	if err := checkDestination(field, l.source.Namespace, d, l.schemes); err != nil {
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

// maxURI bounds the URI of a destination, in bytes, as the schema does.
const maxURI = 2048

// checkDestination validates a destination of a source in the namespace without
// resolving it.
func checkDestination(field, namespace string, d *duckv1.Destination, schemes transport.Schemes) error {
	switch {
	case d.URI != nil && len(d.URI.String()) > maxURI:
		return problemf("InvalidURI", "%s.uri has more than %d bytes; use a shorter one", field, maxURI)
	case d.Ref == nil && d.URI == nil:
		return problemf("SinkMissing", "%s has neither ref nor uri; specify one of them", field)
	case d.Ref == nil:
		return checkAbsolute(field, d.URI, schemes)
	case d.URI != nil && (d.URI.Scheme != "" || d.URI.Host != ""):
		return problemf("RefAndURI", "%s has a ref, and a uri that contains a host too (%s); remove one of them, or "+
			"specify only a path in uri", field, redacted(d.URI))
	case d.Ref.APIVersion == "" || d.Ref.Kind == "" || d.Ref.Name == "":
		return problemf("InvalidReference", "%s.ref needs apiVersion, kind and name; it has %q, %q and %q",
			field, d.Ref.APIVersion, d.Ref.Kind, d.Ref.Name)
	}
	if _, err := schema.ParseGroupVersion(d.Ref.APIVersion); err != nil {
		return problemf("InvalidReference", "%s.ref.apiVersion is %q; use GROUP/VERSION", field, d.Ref.APIVersion)
	}
	return checkReach(field, namespace, d.Ref)
}

// checkReach limits what a source can make the controller read, because the controller
// may read more than the author: only addressable kinds in the source's own namespace.
func checkReach(field, namespace string, ref *duckv1.KReference) error {
	if ref.Namespace != "" && ref.Namespace != namespace {
		return problemf("SinkNamespaceNotAllowed", "%s.ref names an object in namespace %s; a source can refer only "+
			"to objects in its own namespace, %s. Specify the address in %s.uri instead",
			field, ref.Namespace, namespace, field)
	}
	if !canBeSink(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)) {
		return problemf("SinkKindNotAllowed", "%s.ref names a %s of %s, which cannot receive events; use a Broker, a "+
			"Channel, a Service or another addressable kind",
			field, ref.Kind, ref.APIVersion)
	}
	return nil
}

// canBeSink reports whether objects of a kind can have an address. Of Kubernetes' own
// kinds only Services can; nor can those that the controller reads for its own work. Of
// the rest the controller can read those that an operator allows as sinks.
func canBeSink(kind schema.GroupVersionKind) bool {
	switch {
	case kind.Group == "":
		return kind.Kind == "Service"
	case !strings.Contains(kind.Group, "."), strings.HasSuffix(kind.Group, ".k8s.io"), kind.Group == v1alpha1.GroupName:
		return false
	case kind.Group == "serving.knative.dev":
		return kind.Kind == "Service" || kind.Kind == "Route" || kind.Kind == "DomainMapping"
	}
	return true
}

func checkAbsolute(field string, u *apis.URL, schemes transport.Schemes) error {
	scheme, known := schemes[u.Scheme]
	switch {
	case u.Scheme == "" && u.Host == "":
		return problemf("InvalidURI", "%s.uri is %s, which is relative, but there is no ref; use http://HOST/PATH, or "+
			"add %s.ref",
			field, redacted(u), field)
	case !known:
		return problemf("InvalidURI", "%s.uri is %s; its scheme must be %s", field, redacted(u), schemes)
	case u.URL().Hostname() == "":
		return problemf("InvalidURI", "%s.uri is %s, which has an empty hostname; use %s", field, redacted(u), scheme.Form)
	}
	if err := schemes.Check(u.URL()); err != nil {
		return problemf("InvalidURI", "%s.uri is %s, which cannot be used: %v", field, redacted(u), err)
	}
	return nil
}

// redacted formats a URI without credentials.
func redacted(u *apis.URL) string { return fmt.Sprintf("%q", sanitize.WithoutCredentials(u.String())) }

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
		return nil, problemf("SinkKindNotInstalled", "The kind %s of %s (%s.ref) is not installed in this cluster; "+
			"install it, or correct apiVersion and kind. The controller checks again every %s",
			ref.Kind, ref.APIVersion, field, interval)
	case errors.Is(err, errNoNamespace):
		return nil, problemf("SinkKindNotAllowed", "%s.ref names a %s of %s, which is cluster-scoped; a source can "+
			"refer only to objects in its own namespace, %s. Specify the address in %s.uri instead",
			field, ref.Kind, ref.APIVersion, ref.Namespace, field)
	case err != nil:
		return nil, &problem{reason: "LookupFailed", passing: true, message: fmt.Sprintf("Cannot find out whether "+
			"this cluster knows the kind of %s: %v", desc, err)}
	}
	l.used[at] = true
	object, err := l.objects.get(ctx, l.source, at)
	switch {
	case apierrors.IsNotFound(err):
		return nil, problemf("SinkNotFound", "%s does not exist; create it, or correct the reference. The controller "+
			"notices when it is created", desc)
	case apierrors.IsForbidden(err):
		return nil, problemf("SinkForbidden", "The controller may not read %s; grant it get, list and watch on %s "+
			"with a ClusterRole that has the label knative-cdevents.dev/aggregate-to-sinks: \"true\"",
			desc, at.resource.GroupResource())
	case err != nil:
		return nil, &problem{reason: "LookupFailed", passing: true, message: fmt.Sprintf("Cannot read %s: %v", desc, err)}
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
