// SPDX-License-Identifier: Apache-2.0

package valid

import (
	"fmt"
	"strings"

	segment "k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"

	"github.com/knative-cdevents/knative-cdevents/api/sanitize"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
)

// The limits of what a destination consists of, in bytes, as the schema has them.
const (
	maxURI      = 2048
	maxCACerts  = 64 << 10
	maxAudience = 1024
	maxName     = 253
	maxKind     = 63
)

// Destination validates a destination of a source in the namespace without
// resolving it.
func Destination(field, namespace string, d *duckv1.Destination, schemes transport.Schemes) error {
	switch {
	case d.URI != nil && len(d.URI.String()) > maxURI:
		return Problemf(InvalidURI, "%s.uri has more than %d bytes; use a shorter one", field, maxURI)
	case d.CACerts != nil && len(*d.CACerts) > maxCACerts:
		return Problemf(InvalidField, "%s.CACerts has more than %d bytes; name only the authorities that the sink needs",
			field, maxCACerts)
	case d.Audience != nil && len(*d.Audience) > maxAudience:
		return Problemf(InvalidField, "%s.audience has more than %d bytes; use a shorter one", field, maxAudience)
	case d.Ref == nil && d.URI == nil:
		return Problemf(SinkMissing, "%s has neither ref nor uri; specify one of them", field)
	case d.Ref == nil:
		return checkAbsolute(field, d.URI, schemes)
	case d.URI != nil && (d.URI.Scheme != "" || d.URI.Host != ""):
		return Problemf(RefAndURI, "%s has a ref, and a uri that contains a host too (%s); remove one of them, or "+
			"specify only a path in uri", field, Redacted(d.URI))
	case d.Ref.APIVersion == "" || d.Ref.Kind == "" || d.Ref.Name == "":
		return Problemf(InvalidReference, "%s.ref needs apiVersion, kind and name; it has %q, %q and %q",
			field, d.Ref.APIVersion, d.Ref.Kind, d.Ref.Name)
	}
	if _, err := schema.ParseGroupVersion(d.Ref.APIVersion); err != nil {
		return Problemf(InvalidReference, "%s.ref.apiVersion is %q; use GROUP/VERSION", field, d.Ref.APIVersion)
	}
	for _, part := range []struct {
		name, text string
		atMost     int
	}{
		{"apiVersion", d.Ref.APIVersion, maxName + len("/") + maxKind},
		{"kind", d.Ref.Kind, maxKind},
		{"name", d.Ref.Name, maxName},
		{"group", d.Ref.Group, maxName},
		{"address", ptr.Deref(d.Ref.Address, ""), maxName},
	} {
		if len(part.text) > part.atMost {
			return Problemf(InvalidReference, "%s.ref.%s has more than %d bytes; use a shorter one", field, part.name,
				part.atMost)
		}
	}
	// Nothing has such a name, and a client does not even ask for it.
	if wrong := segment.IsValidPathSegmentName(d.Ref.Name); len(wrong) > 0 {
		return Problemf(InvalidReference, "%s.ref.name is %q; it %s", field, d.Ref.Name, strings.Join(wrong, "; it "))
	}
	return checkReach(field, namespace, d.Ref)
}

// checkReach limits what a source can make the controller read, because the controller
// may read more than the author: only addressable kinds in the source's own namespace.
func checkReach(field, namespace string, ref *duckv1.KReference) error {
	if ref.Namespace != "" && ref.Namespace != namespace {
		return Problemf(SinkNamespaceNotAllowed, "%s.ref names an object in namespace %s; a source can refer only "+
			"to objects in its own namespace, %s. Specify the address in %s.uri instead",
			field, ref.Namespace, namespace, field)
	}
	if !canBeSink(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)) {
		return Problemf(SinkKindNotAllowed, "%s.ref names a %s of %s, which cannot receive events; use a Broker, a "+
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
		return Problemf(InvalidURI, "%s.uri is %s, which is relative, but there is no ref; use http://HOST/PATH, or "+
			"add %s.ref",
			field, Redacted(u), field)
	case !known:
		return Problemf(InvalidURI, "%s.uri is %s; its scheme must be %s", field, Redacted(u), schemes)
	case u.URL().Hostname() == "":
		return Problemf(InvalidURI, "%s.uri is %s, which has an empty hostname; use %s", field, Redacted(u), scheme.Form)
	case u.User != nil:
		instead := "put them into a Secret that spec.auth names"
		if field == LetterField {
			instead = "spec.auth has those of the sink, and a dead letter sink gets none"
		}
		return Problemf(InvalidURI, "%s.uri has a user for %s; it must not contain a user or a password; %s",
			field, Redacted(u), instead)
	}
	if err := schemes.Check(u.URL()); err != nil {
		return Problemf(InvalidURI, "%s.uri is %s, which cannot be used: %v", field, Redacted(u), err)
	}
	return nil
}

// Redacted formats a URI without credentials.
func Redacted(u *apis.URL) string { return fmt.Sprintf("%q", sanitize.WithoutCredentials(u.String())) }
