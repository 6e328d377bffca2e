// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/kmeta"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// References names the credentials that a source shows one of its sinks. It is comparable, and holds
// no values.
type References struct {
	// Source is the source; credentials are read from its namespace only.
	Source types.NamespacedName
	UID    types.UID
	// Authorization and ClientCertificate name Secrets.
	Authorization     v1alpha1.SecretKey
	ClientCertificate v1alpha1.SecretName
	// Audience of a token; empty for no token.
	Audience string
}

// OfSink returns the credentials for a source's sink.
func OfSink(s *v1alpha1.CDEventSource) References {
	w := referencesOf(s, s.Status.SinkAudience)
	if s.Spec.Auth == nil {
		return w
	}
	if a := s.Spec.Auth.Authorization; a != nil {
		w.Authorization = *a
	}
	if c := s.Spec.Auth.ClientCertificate; c != nil {
		w.ClientCertificate = *c
	}
	return w
}

// OfDeadLetterSink returns the credentials for a source's dead letter sink. Those of
// spec.auth are for the sink alone.
func OfDeadLetterSink(s *v1alpha1.CDEventSource) References {
	return referencesOf(s, s.Status.DeadLetterSinkAudience)
}

func referencesOf(s *v1alpha1.CDEventSource, audience *string) References {
	w := References{Source: types.NamespacedName{Namespace: s.Namespace, Name: s.Name}, UID: s.UID}
	if audience != nil {
		w.Audience = *audience
	}
	return w
}

// Empty says whether no credentials are referenced.
func (w References) Empty() bool {
	return w.Authorization.Name == "" && w.ClientCertificate.Name == "" && w.Audience == ""
}

// ServiceAccount returns the name of the source's identity, by the rule of Knative's own
// sources.
func (w References) ServiceAccount() string {
	return strings.ToLower(kmeta.ChildName(w.Source.Name, "-oidc-"+v1alpha1.SourceKind.Group+"-"+v1alpha1.SourceKind.Kind))
}
