// SPDX-License-Identifier: Apache-2.0

package source

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	eventingduckv1 "knative.dev/eventing/pkg/apis/duck/v1"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// Wherever a sink's address has a secret, right or wrong, the status has not.
func TestNoStatusHasCredentials(t *testing.T) {
	t.Parallel()
	const secret = "s3cret-T0ken"
	for _, u := range []*apis.URL{
		{Scheme: "https", User: url.UserPassword("hook", secret), Host: "sink.example"},
		{Scheme: "https", User: url.User(secret), Host: "sink.example", Path: "/a"},
		{Scheme: "https", Host: "sink.example", RawQuery: "x=1&access_token=" + secret},
		{Scheme: "https", Host: "sink.example", Fragment: "token=" + secret},
		{Scheme: "ftp", User: url.User(secret), Host: "sink.example"},
		{Scheme: "https", User: url.User(secret), RawQuery: "token=" + secret},
		{Path: "/a", RawQuery: "token=" + secret},
	} {
		for name, change := range map[string]func(*v1alpha1.CDEventSource){
			"uri":     func(s *v1alpha1.CDEventSource) { s.Spec.Sink = duckv1.Destination{URI: u} },
			"ref+uri": func(s *v1alpha1.CDEventSource) { to(broker)(s); s.Spec.Sink.URI = u },
			"letters": func(s *v1alpha1.CDEventSource) {
				s.Spec.Delivery = &eventingduckv1.DeliverySpec{DeadLetterSink: &duckv1.Destination{URI: u}}
			},
		} {
			s := newFixture(t, brokerAt("http://b.example/shop/default")).settle(newSource(change))
			if raw, err := json.Marshal(s.Status); err != nil || strings.Contains(string(raw), secret) {
				t.Errorf("%s %s: %s, %v", name, u, raw, err)
			}
		}
	}
	for _, address := range []string{"http://u:" + secret + "@b.example/shop", "http://b.example/?token=" + secret} {
		s := newFixture(t, []runtime.Object{brokerAt(address)}...).settle(newSource(to(broker)))
		raw, err := json.Marshal(s.Status)
		if err != nil || strings.Contains(string(raw), secret) || !strings.Contains(string(raw), "SinkHasCredentials") {
			t.Errorf("%s: %s, %v", address, raw, err)
		}
	}
}
