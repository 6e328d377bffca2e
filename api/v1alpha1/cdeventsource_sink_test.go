// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"testing"

	eventingduckv1 "knative.dev/eventing/pkg/apis/duck/v1"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"
)

func TestSinkAddress(t *testing.T) {
	parse := func(s string) *apis.URL {
		u, err := apis.ParseURL(s)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	for _, c := range []struct{ spec, resolved, shown string }{
		{"https://hook.example/a?sig=s3cret", "https://hook.example/a?sig=s3cret", "https://hook.example/a?sig=REDACTED"},
		{"https://hook.example/a?x=1&token=s3cret", "https://hook.example/a?x=1&token=s3cret", "https://hook.example/a?x=1&token=REDACTED"},
		{"/a?token=s3cret", "http://broker.shop.svc/a?token=s3cret", "http://broker.shop.svc/a?token=REDACTED"},
		{"https://hook.example/a?x=1", "https://hook.example/a?x=1", "https://hook.example/a?x=1"},
		{"", "http://broker.shop.svc/a", "http://broker.shop.svc/a"},
	} {
		s := &CDEventSource{}
		s.Spec.Delivery = &eventingduckv1.DeliverySpec{DeadLetterSink: &duckv1.Destination{}}
		if c.spec != "" {
			s.Spec.Sink.URI, s.Spec.Delivery.DeadLetterSink.URI = parse(c.spec), parse(c.spec)
		}
		s.Status.SinkURI = Shown(parse(c.resolved))
		s.Status.DeadLetterSinkURI = s.Status.SinkURI
		if got := s.Status.SinkURI.String(); got != c.shown {
			t.Errorf("%s is shown as %s", c.resolved, got)
		}
		if got := s.SinkAddress().String(); got != c.resolved {
			t.Errorf("events are sent to %s, want %s", got, c.resolved)
		}
		if got := s.DeadLetterSinkAddress().String(); got != c.resolved {
			t.Errorf("dead letters are sent to %s, want %s", got, c.resolved)
		}
	}
	// A status that an earlier release wrote has the whole address. One that is not of this spec is not mixed with it.
	s := &CDEventSource{}
	s.Spec.Sink.URI = parse("https://hook.example?sig=s3cret")
	for _, status := range []string{"https://hook.example?sig=s3cret", "https://other.example"} {
		if s.Status.SinkURI = parse(status); s.SinkAddress().String() != status {
			t.Errorf("%s, want %s", s.SinkAddress(), status)
		}
	}
	if s.Status.SinkURI = nil; s.SinkAddress() != nil {
		t.Error("an address without a status")
	}
}
