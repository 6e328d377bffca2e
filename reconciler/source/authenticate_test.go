// SPDX-License-Identifier: Apache-2.0

package source

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ktesting "k8s.io/client-go/testing"
	eventingduckv1 "knative.dev/eventing/pkg/apis/duck/v1"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"
	"knative.dev/pkg/ptr"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/hosts"
)

func withSecret(s *v1alpha1.CDEventSource) {
	s.Spec.Sink.URI = apis.HTTPS("sink.example")
	s.Spec.Auth = &v1alpha1.Auth{Authorization: &v1alpha1.SecretKey{Name: "hook", Key: "header"}}
}

func hook(list string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "hook", Annotations: map[string]string{v1alpha1.SinkHostsAnnotation: list}},
		Data:       map[string][]byte{"header": []byte("Bearer s3cret")},
	}
}

func checkCondition(t *testing.T, s *v1alpha1.CDEventSource, typ apis.ConditionType, status, reason string, says ...string) {
	t.Helper()
	c := s.Status.GetCondition(typ)
	if c == nil || string(c.Status) != status || c.Reason != reason {
		t.Errorf("%s: %+v, want %s because of %q", typ, c, status, reason)
		return
	}
	for _, word := range says {
		if !strings.Contains(c.Message, word) {
			t.Errorf("message %q does not contain %q", c.Message, word)
		}
	}
	if strings.Contains(c.Message, "s3cret") {
		t.Errorf("message %q reveals the secret", c.Message)
	}
}

const ready = v1alpha1.SourceConditionCredentialsReady

func TestCredentialsCondition(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		secret         *corev1.Secret
		change         func(*v1alpha1.CDEventSource)
		status, reason string
		says           string
	}{
		"no credentials":    {nil, func(*v1alpha1.CDEventSource) {}, "True", "NotConfigured", ""},
		"valid credentials": {hook("sink.example"), withSecret, "True", "", ""},
		"no Secret":         {nil, withSecret, "False", "SecretNotFound", "Secret hook"},
		"other host":        {hook("other.example"), withSecret, "False", "SecretNotForSink", "sink.example"},
		"no sink": {hook("sink.example"), func(s *v1alpha1.CDEventSource) {
			withSecret(s)
			s.Spec.Sink = duckv1.Destination{Ref: &broker}
		}, "Unknown", "SinkNotResolved", ""},
		"audience too": {hook("sink.example"), func(s *v1alpha1.CDEventSource) {
			withSecret(s)
			s.Spec.Sink.Audience = ptr.String("a")
		}, "False", "TwoAuthorizations", "remove"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newFixture(t)
			if tc.secret != nil {
				if err := h.kube.Tracker().Add(tc.secret); err != nil {
					t.Fatal(err)
				}
			}
			s := h.settle(newSource(tc.change))
			checkCondition(t, s, ready, tc.status, tc.reason, tc.says)
			if (tc.status == "True") != s.Status.IsReady() {
				t.Errorf("ready: %v", s.Status.IsReady())
			}
			h.readOnly()
		})
	}
}

// Credentials that were found valid stay so while the API server does not answer.
func TestCredentialsConditionSurvivesAPIServerOutage(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.kube.PrependReactor("get", "secrets", func(ktesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("busy")
	})
	s := h.settle(newSource(withSecret))
	checkCondition(t, s, ready, "Unknown", "LookupFailed", "busy")

	s.Status.SetConditions(apis.Conditions{{Type: ready, Status: corev1.ConditionTrue}})
	s = h.settle(s)
	checkCondition(t, s, ready, "True", "")
	s.Generation = 2 // another spec may name another Secret
	s = h.settle(s)
	checkCondition(t, s, ready, "Unknown", "LookupFailed")
}

func TestIdentityIsShown(t *testing.T) {
	t.Parallel()
	const identity = "all-oidc-knative-cdevents.dev-cdeventsource"
	for _, change := range []func(*v1alpha1.CDEventSource){
		func(s *v1alpha1.CDEventSource) {
			s.Spec.Sink = duckv1.Destination{URI: apis.HTTPS("sink.example"), Audience: ptr.String("broker")}
		},
		func(s *v1alpha1.CDEventSource) {
			s.Spec.Delivery = &eventingduckv1.DeliverySpec{DeadLetterSink: &duckv1.Destination{
				URI: apis.HTTPS("letters.example"), Audience: ptr.String("letters"),
			}}
		},
	} {
		h := newFixture(t)
		s := h.settle(newSource(change))
		if s.Status.Auth == nil || s.Status.Auth.ServiceAccountName == nil || *s.Status.Auth.ServiceAccountName != identity {
			t.Errorf("%+v", s.Status.Auth)
		}
		s.Spec.Sink, s.Spec.Delivery = duckv1.Destination{URI: apis.HTTPS("sink.example")}, nil
		if s = h.settle(s); s.Status.Auth != nil {
			t.Errorf("%+v", s.Status.Auth)
		}
	}
}

func TestAllowedHosts(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokerAt("http://broker.eventing.svc.cluster.local/shop/default"))
	h.allowed = hosts.List("*.svc.cluster.local")
	s := h.settle(newSource(to(broker)))
	checkCondition(t, s, v1alpha1.SourceConditionSinkProvided, "True", "")

	s.Spec.Sink = duckv1.Destination{URI: apis.HTTP("sink.example")}
	s.Spec.Delivery = &eventingduckv1.DeliverySpec{DeadLetterSink: &duckv1.Destination{URI: apis.HTTP("letters.example")}}
	s = h.settle(s)
	checkCondition(t, s, v1alpha1.SourceConditionSinkProvided, "False", "SinkNotAllowed", "spec.sink", `"sink.example"`, "sink-hosts", "config-cdevents", "knative-cdevents")
	checkCondition(t, s, v1alpha1.SourceConditionDeadLetterSinkResolved, "False", "SinkNotAllowed", "deadLetterSink", `"letters.example"`)
	if s.Status.SinkURI != nil || s.Status.DeadLetterSinkURI != nil {
		t.Errorf("%v, %v", s.Status.SinkURI, s.Status.DeadLetterSinkURI)
	}

	h.allowed = ""
	s = h.again(s)
	checkCondition(t, s, v1alpha1.SourceConditionSinkProvided, "True", "")
	checkCondition(t, s, v1alpha1.SourceConditionDeadLetterSinkResolved, "True", "")
}
