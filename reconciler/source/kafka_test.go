// SPDX-License-Identifier: Apache-2.0

package source

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/credentials"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/credentials/clientset"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/hosts"
	httptransport "github.com/knative-cdevents/knative-cdevents/emitter/transport/http"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport/kafka"
)

// A sink with another scheme, several hosts and a login.
func TestKafkaSinks(t *testing.T) {
	t.Parallel()
	const uri = "kafkas://b1.example:9093,b2.example:9093/releases"
	login := func(allowed string) *corev1.Secret {
		s := hook(allowed)
		s.Data = map[string][]byte{"user": []byte("me"), "header": []byte("s3cret")}
		return s
	}
	for name, tc := range map[string]struct {
		secret   *corev1.Secret
		uri      string
		allowed  hosts.List
		provided string // the reason of SinkProvided, if it is False
		ready    string // the reason of CredentialsReady, if it is False
		says     string
	}{
		"all is well":           {secret: login("b1.example,b2.example"), uri: uri},
		"allowed hosts":         {secret: login("*.example"), uri: uri, allowed: "*.example"},
		"one host is not":       {secret: login("*.example"), uri: uri, allowed: "b1.example", provided: "SinkNotAllowed", says: `"b2.example"`},
		"one host of a Secret":  {secret: login("b1.example"), uri: uri, ready: "SecretNotForSink", says: "b2.example"},
		"without TLS":           {secret: login("*.example"), uri: "kafka://b1.example/releases", ready: "SinkNotEncrypted", says: "kafkas://"},
		"a header, not a login": {secret: hook("*.example"), uri: uri, ready: "SecretKeyNotFound", says: `"user"`},
		"without a topic":       {secret: login("*.example"), uri: "kafkas://b1.example:9093", provided: "InvalidURI", says: "name of a topic"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newFixture(t)
			schemes := transport.Join(httptransport.Schemes, kafka.Schemes)
			h.sinks.schemes, h.credentials, h.allowed = schemes, credentials.NewKeeper(clientset.API{Interface: h.kube}, schemes), tc.allowed
			if err := h.kube.Tracker().Add(tc.secret); err != nil {
				t.Fatal(err)
			}
			at, err := apis.ParseURL(tc.uri)
			if err != nil {
				t.Fatal(err)
			}
			s := h.settle(newSource(withSecret, func(s *v1alpha1.CDEventSource) { s.Spec.Sink = duckv1.Destination{URI: at} }))
			switch {
			case tc.provided != "":
				checkCondition(t, s, v1alpha1.SourceConditionSinkProvided, "False", tc.provided, tc.says)
			case tc.ready != "":
				checkCondition(t, s, ready, "False", tc.ready, tc.says)
			case !s.Status.IsReady() || s.Status.SinkURI.String() != tc.uri:
				t.Errorf("sink %s, %+v", s.Status.SinkURI, s.Status.Conditions)
			}
		})
	}
}
