// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"testing"

	eventingduckv1 "knative.dev/eventing/pkg/apis/duck/v1"
	duckv1 "knative.dev/pkg/apis/duck/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// TestEventFormats has four sources choose which events they send and how: in structured mode, filtered, with
// overrides of their own; events that a sink rejects for good go to the dead letter sink.
func TestEventFormats(t *testing.T) {
	sideBySide(t)
	s := newScene(t)
	strict := s.serve("strict")
	s.must(strict.fault(t.Context(), `{"status":400}`))
	host := "http://sink." + s.ns + ".svc.cluster.local"

	s.source("plain", service("sink"))
	s.source("structured", uri(host+"/structured"), func(spec *v1alpha1.CDEventSourceSpec) {
		format := eventingduckv1.DeliveryFormatJson
		spec.Delivery = &eventingduckv1.DeliverySpec{Format: &format}
	})
	s.source("chosen", uri(host+"/chosen"), func(spec *v1alpha1.CDEventSourceSpec) {
		spec.Filters = []v1alpha1.Filter{{Prefix: map[string]string{"type": "dev.cdevents.service."}}}
		spec.CloudEventOverrides = &duckv1.CloudEventOverrides{Extensions: map[string]string{"team": "shop"}}
		spec.Environment = &v1alpha1.Environment{ID: "staging"}
	})
	s.source("refused", service("strict"), func(spec *v1alpha1.CDEventSourceSpec) {
		dead := uri(host + "/dead")
		spec.Delivery = &eventingduckv1.DeliverySpec{DeadLetterSink: &dead}
	})
	s.deploy("shop")

	plain := s.sink.exactly(t, birth, at("/"))
	for i, e := range s.sink.exactly(t, birth, at("/structured")) {
		if !e.structured {
			t.Errorf("it is not in structured mode: %s", e)
		}
		conforms(t, e, "0.5.1")
		if e.cd.Context.ID != plain[i].cd.Context.ID || compactJSON(t, e.Body) != compactJSON(t, plain[i].Body) {
			t.Errorf("in structured mode the event differs:\n%s\nwant\n%s", e, plain[i])
		}
	}
	for i, e := range s.sink.exactly(t, []string{deployed, published}, at("/chosen")) {
		conforms(t, e, "0.5.1")
		if e.Header.Get("Ce-Team") != "shop" || e.cd.Subject.Content.Environment.ID != "staging" {
			t.Errorf("it lacks the source's overrides: %s %v", e, e.Header)
		}
		if e.cd.Context.ID == plain[i+2].cd.Context.ID {
			t.Errorf("an event with other overrides has the same id: %s", e)
		}
	}
	for i, e := range s.sink.exactly(t, birth, at("/dead")) {
		if e.Header.Get("Ce-Knativeerrorcode") != "400" || e.Header.Get("Ce-Knativeerrordest") == "" {
			t.Errorf("the dead letter does not say why it was rejected: %v", e.Header)
		}
		if string(e.Body) != string(plain[i].Body) {
			t.Errorf("the dead letter differs from the event: %s", e)
		}
	}
}
