package credentials

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/kmeta"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// Want is what a source shows at one of its sinks. It holds names and no values,
// can be compared, and is empty where nothing is shown.
type Want struct {
	// Source on whose behalf it is shown. Its namespace is the only one that
	// anything is read from.
	Source types.NamespacedName
	UID    types.UID
	// Authorization and ClientCertificate name Secrets.
	Authorization     v1alpha1.SecretKey
	ClientCertificate v1alpha1.SecretName
	// Audience that tokens are made for.
	Audience string
}

// OfSink is what a source shows its sink.
func OfSink(s *v1alpha1.CDEventSource) Want {
	w := wantOf(s, s.Status.SinkAudience)
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

// OfDeadLetterSink is what a source shows its dead letter sink. What spec.auth
// names is meant for the sink alone.
func OfDeadLetterSink(s *v1alpha1.CDEventSource) Want {
	return wantOf(s, s.Status.DeadLetterSinkAudience)
}

func wantOf(s *v1alpha1.CDEventSource, audience *string) Want {
	w := Want{Source: types.NamespacedName{Namespace: s.Namespace, Name: s.Name}, UID: s.UID}
	if audience != nil {
		w.Audience = *audience
	}
	return w
}

// Nothing says whether a sink is shown nothing.
func (w Want) Nothing() bool {
	return w.Authorization.Name == "" && w.ClientCertificate.Name == "" && w.Audience == ""
}

// ServiceAccount is the name of the source's identity, in its namespace. It is
// the one that Knative's own sources would have.
func (w Want) ServiceAccount() string {
	return strings.ToLower(kmeta.ChildName(w.Source.Name, "-oidc-"+v1alpha1.SourceKind.Group+"-"+v1alpha1.SourceKind.Kind))
}
