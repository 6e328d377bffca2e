// SPDX-License-Identifier: Apache-2.0

package source

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ktesting "k8s.io/client-go/testing"
	eventingduckv1 "knative.dev/eventing/pkg/apis/duck/v1"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"
	"knative.dev/pkg/ptr"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
)

func contains(s, sub string) bool { return strings.Contains(s, sub) }

// newUnreachable returns a client whose API server does not answer.
func newUnreachable(t *testing.T) *client.Clientset {
	t.Helper()
	cs, err := client.New(&rest.Config{Host: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	return cs
}

func TestSinksThatResolve(t *testing.T) {
	t.Parallel()
	const internal = "http://broker-ingress.eventing.svc.cluster.local/shop/default"
	tests := []struct {
		name    string
		objects []runtime.Object
		change  func(*v1alpha1.CDEventSource)
		uri     string
		ca      string
		aud     string
	}{
		{"URI", nil, func(*v1alpha1.CDEventSource) {}, "http://sink.example", "", ""},
		{"URI with everything", nil, func(s *v1alpha1.CDEventSource) {
			s.Spec.Sink.URI = &apis.URL{Scheme: "https", Host: "sink.example:8443", Path: "/a", RawQuery: "b=c"}
			s.Spec.Sink.CACerts, s.Spec.Sink.Audience = ptr.String("CA"), ptr.String("aud")
		}, "https://sink.example:8443/a?b=c", "CA", "aud"},
		{"Broker", []runtime.Object{brokerAt(internal)}, to(broker), internal, "", ""},
		{"Broker and a path", []runtime.Object{brokerAt("http://b.example/shop/default")}, func(s *v1alpha1.CDEventSource) {
			to(broker)(s)
			s.Spec.Sink.URI = &apis.URL{Path: "/other"}
		}, "http://b.example/other", "", ""},
		{"its own namespace, by name", []runtime.Object{brokerAt(internal)}, func(s *v1alpha1.CDEventSource) {
			ref := broker
			ref.Namespace = "shop"
			to(ref)(s)
		}, internal, "", ""},
		{
			"the first address counts",
			[]runtime.Object{object("eventing.knative.dev/v1", "Broker", "shop", "default", map[string]any{
				"address": map[string]any{"url": "http://old.example"},
				"addresses": []any{
					map[string]any{"name": "https", "url": "https://b.example", "CACerts": "BROKER\n", "audience": "broker"},
					map[string]any{"name": "http", "url": "http://b.example"},
				},
			})},
			func(s *v1alpha1.CDEventSource) { to(broker)(s); s.Spec.Sink.CACerts = ptr.String("OURS") },
			"https://b.example", "BROKER\nOURS", "broker",
		},
		{"an address by name", []runtime.Object{object("eventing.knative.dev/v1", "Broker", "shop", "default", map[string]any{
			"addresses": []any{map[string]any{"name": "https", "url": "https://b.example", "audience": "broker"}, map[string]any{"name": "http", "url": "http://b.example"}},
		})}, func(s *v1alpha1.CDEventSource) {
			ref := broker
			ref.Address = ptr.String("http")
			to(ref)(s)
			s.Spec.Sink.Audience = ptr.String("mine")
		}, "http://b.example", "", "mine"},
		{
			"Knative Service",
			[]runtime.Object{object("serving.knative.dev/v1", "Service", "shop", "show",
				map[string]any{"url": "http://show.shop.example.com", "address": map[string]any{"url": "http://show.shop.svc.cluster.local"}})},
			to(duckv1.KReference{APIVersion: "serving.knative.dev/v1", Kind: "Service", Name: "show"}), "http://show.shop.svc.cluster.local", "", "",
		},
		{
			"Service",
			[]runtime.Object{object("v1", "Service", "shop", "show", nil)},
			to(duckv1.KReference{APIVersion: "v1", Kind: "Service", Name: "show"}), "http://show.shop.svc.cluster.local", "", "",
		},
		{"Service with TLS", []runtime.Object{object("v1", "Service", "shop", "show", nil)}, func(s *v1alpha1.CDEventSource) {
			to(duckv1.KReference{APIVersion: "v1", Kind: "Service", Name: "show"})(s)
			s.Spec.Sink.CACerts = ptr.String("CA")
		}, "https://show.shop.svc.cluster.local", "CA", ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h := newFixture(t, tc.objects...)
			for range 2 { // from a GET, then from the watch
				s := h.settle(newSource(tc.change))
				st := s.Status
				if !st.GetCondition(v1alpha1.SourceConditionSinkProvided).IsTrue() || st.SinkURI.String() != tc.uri || ptrString(st.SinkCACerts) != tc.ca || ptrString(st.SinkAudience) != tc.aud {
					t.Errorf("%s %q %q, conditions %+v", st.SinkURI, ptrString(st.SinkCACerts), ptrString(st.SinkAudience), st.Conditions)
				}
				eventually(t, "watching", h.watching)
			}
			h.readOnly()
		})
	}
}

func ptrString(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func TestSinksThatDoNotResolveSayWhy(t *testing.T) {
	t.Parallel()
	ref := func(change func(*duckv1.KReference)) func(*v1alpha1.CDEventSource) {
		r := broker
		change(&r)
		return to(r)
	}
	withStatus := func(status map[string]any) []runtime.Object {
		return []runtime.Object{object("eventing.knative.dev/v1", "Broker", "shop", "default", status)}
	}
	tests := []struct {
		name    string
		objects []runtime.Object
		change  func(*v1alpha1.CDEventSource)
		reason  string
		says    []string
	}{
		{"nothing named", nil, func(s *v1alpha1.CDEventSource) { s.Spec.Sink = duckv1.Destination{} }, "SinkMissing", []string{"spec.sink", "neither ref nor uri"}},
		{"empty URI", nil, toURI(t, ""), "SinkMissing", []string{"spec.sink"}},
		{"relative URI alone", nil, toURI(t, "/hook"), "InvalidURI", []string{`"/hook"`, "relative", "spec.sink.ref"}},
		{"host alone", nil, toURI(t, "sink.example"), "InvalidURI", []string{"relative"}},
		{"no scheme", nil, toURI(t, "//sink.example/x"), "InvalidURI", []string{"scheme"}},
		{"other scheme", nil, toURI(t, "kafka://sink.example"), "InvalidURI", []string{"http or https"}},
		{"no host", nil, toURI(t, "http:///path?token=s3cret"), "InvalidURI", []string{"empty hostname"}},
		{"a port alone", nil, toURI(t, "http://:8080/path"), "InvalidURI", []string{"empty hostname"}},
		{"an address with a zone", nil, toURI(t, "http://[fd00::5%25.svc.cluster.local]:8080/"), "InvalidURI", []string{"spec.sink.uri", "zone"}},
		{"a host that is not ASCII", nil, toURI(t, "https://gİthub.com/"), "InvalidURI", []string{"spec.sink.uri", "not ASCII", "xn--"}},
		{"two hosts", []runtime.Object{brokerAt("http://b.example")}, func(s *v1alpha1.CDEventSource) {
			to(broker)(s)
			toURI(t, "https://me:s3cret@sink.example")(s)
		}, "RefAndURI", []string{"sink.example", "only a path"}},
		{"two hosts, one without a scheme", []runtime.Object{brokerAt("http://b.example")}, func(s *v1alpha1.CDEventSource) {
			to(broker)(s)
			toURI(t, "//sink.example")(s)
		}, "RefAndURI", []string{"sink.example"}},
		{"no name", nil, ref(func(r *duckv1.KReference) { r.Name = "" }), "InvalidReference", []string{"apiVersion, kind and name"}},
		{"a group, no version", nil, ref(func(r *duckv1.KReference) { r.APIVersion, r.Group = "", "eventing.knative.dev" }), "InvalidReference", []string{"apiVersion"}},
		{"too many slashes", nil, ref(func(r *duckv1.KReference) { r.APIVersion = "a/b/c" }), "InvalidReference", []string{"GROUP/VERSION"}},
		{"does not exist", nil, to(broker), "SinkNotFound", []string{"Broker default in namespace shop", "does not exist", "notices"}},
		{
			"of another namespace",
			[]runtime.Object{object("eventing.knative.dev/v1", "Broker", "hub", "default", map[string]any{"address": map[string]any{"url": "http://b.example"}})},
			ref(func(r *duckv1.KReference) { r.Namespace = "hub" }), "SinkNamespaceNotAllowed",
			[]string{"namespace hub", "its own namespace, shop", "spec.sink.uri"},
		},
		{"unknown group", nil, ref(func(r *duckv1.KReference) { r.APIVersion = "messaging.example/v1" }), "SinkKindNotInstalled", []string{"Broker of messaging.example/v1", "checks again"}},
		{"unknown kind", nil, ref(func(r *duckv1.KReference) { r.Kind = "Breaker" }), "SinkKindNotInstalled", []string{"Breaker of eventing.knative.dev/v1"}},
		{"not ready yet", withStatus(notReady("ChannelFailure", "no channel template")), to(broker), "SinkNotAddressable", []string{"no address yet", "not Ready", "ChannelFailure"}},
		// Only users who may read the other object may see its messages.
		{"not ready, with a secret in the message", withStatus(notReady("CrashLoopBackOff", "panic: password is s3cret")), to(broker), "SinkNotAddressable", []string{"CrashLoopBackOff", "see its status"}},
		{"an invalid reason", withStatus(notReady("the password is s3cret", "")), to(broker), "SinkNotAddressable", []string{"it is not Ready; see its status"}},
		{"no conditions", withStatus(nil), to(broker), "SinkNotAddressable", []string{"does not say why"}},
		{"address without a URL", withStatus(map[string]any{"address": map[string]any{"name": "http"}}), to(broker), "SinkNotAddressable", []string{"no address yet"}},
		{"address without a host", withStatus(map[string]any{"address": map[string]any{"url": "http:///x"}}), to(broker), "SinkNotAddressable", []string{"empty hostname"}},
		{"address with a zone", []runtime.Object{brokerAt("http://[fd00::5%25.svc.cluster.local]/")}, to(broker), "SinkNotAddressable", []string{"zone", "controller that sets it"}},
		{"address that is not ASCII", []runtime.Object{brokerAt("http://broker.ſvc.cluster.local/")}, to(broker), "SinkNotAddressable", []string{"not ASCII"}},
		{"an invalid address", withStatus(map[string]any{"address": "s3cret"}), to(broker), "SinkNotAddressable", []string{"cannot be read"}},
		{
			"no such address", withStatus(map[string]any{"addresses": []any{map[string]any{"name": "https", "url": "https://b.example"}}}),
			ref(func(r *duckv1.KReference) { r.Address = ptr.String("http") }), "SinkAddressNotFound",
			[]string{`"http"`, `"https"`},
		},
		{"no addresses with names", withStatus(nil), ref(func(r *duckv1.KReference) { r.Address = ptr.String("http") }), "SinkAddressNotFound", []string{"none with a name"}},
		{
			"takes no events",
			[]runtime.Object{object("v1", "ConfigMap", "shop", "c", nil)},
			to(duckv1.KReference{APIVersion: "v1", Kind: "ConfigMap", Name: "c"}), "SinkKindNotAllowed",
			[]string{"cannot receive events", "ConfigMap of v1"},
		},
		{"a Pod", nil, to(duckv1.KReference{APIVersion: "v1", Kind: "Pod", Name: "c"}), "SinkKindNotAllowed", []string{"Pod of v1"}},
		{"a Deployment", nil, to(duckv1.KReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "c"}), "SinkKindNotAllowed", []string{"Deployment of apps/v1"}},
		{"a Revision", nil, to(duckv1.KReference{APIVersion: "serving.knative.dev/v1", Kind: "Revision", Name: "c"}), "SinkKindNotAllowed", []string{"Revision of serving"}},
		{"a CDEventSource", nil, to(duckv1.KReference{APIVersion: "knative-cdevents.dev/v1alpha1", Kind: "CDEventSource", Name: "all"}), "SinkKindNotAllowed", nil},
		{"a Lease", nil, to(duckv1.KReference{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Name: "c"}), "SinkKindNotAllowed", nil},
		// It is cluster-scoped: anyone could reference it to read its conditions.
		{
			"cluster-scoped",
			[]runtime.Object{object("flows.example.dev/v1alpha1", "Waterfall", "", "big", map[string]any{"address": map[string]any{"url": "http://w.example"}})},
			to(duckv1.KReference{APIVersion: "flows.example.dev/v1alpha1", Kind: "Waterfall", Name: "big"}), "SinkKindNotAllowed",
			[]string{"Waterfall of flows.example.dev/v1alpha1", "cluster-scoped", "spec.sink.uri"},
		},
		{
			"is ready and takes no events", withStatus(map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}),
			to(broker), "SinkNotAddressable",
			[]string{"it is Ready"},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h := newFixture(t, tc.objects...)
			s := h.settle(newSource(func(s *v1alpha1.CDEventSource) {
				tc.change(s)
				// The address of an earlier spec must not stay.
				s.Status.SinkURI = apis.HTTP("former.example")
			}))
			c := s.Status.GetCondition(v1alpha1.SourceConditionSinkProvided)
			if s.Status.IsReady() || !c.IsFalse() || c.Reason != tc.reason || s.Status.SinkURI != nil {
				t.Errorf("%s %s, sink %s", c.Status, c.Reason, s.Status.SinkURI)
			}
			for _, w := range tc.says {
				if !contains(c.Message, w) {
					t.Errorf("%q does not contain %q", c.Message, w)
				}
			}
			if contains(c.Message, "s3cret") {
				t.Errorf("%q reveals a secret", c.Message)
			}
			// kubectl shows the Ready condition first.
			if ready := s.Status.GetCondition(apis.ConditionReady); ready.Message != c.Message || ready.Reason != c.Reason {
				t.Errorf("Ready says %q", ready.Message)
			}
			h.readOnly()
		})
	}
}

func TestUnreachableAPIServerKeepsKnownAddresses(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*fixture){
		"get": func(h *fixture) {
			h.dynamic.PrependReactor("*", "brokers", func(ktesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewInternalError(errors.New("etcd"))
			})
		},
		"discovery": func(h *fixture) {
			h.disco.PrependReactor("*", "*", func(ktesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewServiceUnavailable("etcd")
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newFixture(t)
			fail(h)
			s := h.settle(newSource(to(broker)))
			c := s.Status.GetCondition(v1alpha1.SourceConditionSinkProvided)
			if !c.IsUnknown() || c.Reason != "LookupFailed" || !contains(c.Message, "etcd") {
				t.Errorf("%+v", c)
			}

			h = newFixture(t)
			fail(h)
			s = h.settle(newSource(to(broker), func(s *v1alpha1.CDEventSource) {
				s.Status.SinkURI = apis.HTTP("known.example")
				s.Status.ObservedGeneration = 1
			}))
			if s.Status.SinkURI.String() != "http://known.example" {
				t.Errorf("the known address was dropped: %+v", s.Status)
			}
		})
	}
}

func TestForbiddenSinkSaysHowToAllowIt(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.dynamic.PrependReactor("*", "brokers", func(ktesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Group: "eventing.knative.dev", Resource: "brokers"}, "default", errors.New("no"))
	})
	c := h.settle(newSource(to(broker))).Status.GetCondition(v1alpha1.SourceConditionSinkProvided)
	if !c.IsFalse() || c.Reason != "SinkForbidden" || !contains(c.Message, "brokers.eventing.knative.dev") || !contains(c.Message, "knative-cdevents.dev/aggregate-to-sinks") {
		t.Errorf("%+v", c)
	}
}

func TestDeadLetterSink(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokerAt("http://b.example"))
	with := func(d *duckv1.Destination) func(*v1alpha1.CDEventSource) {
		return func(s *v1alpha1.CDEventSource) { s.Spec.Delivery = &eventingduckv1.DeliverySpec{DeadLetterSink: d} }
	}
	const condition = v1alpha1.SourceConditionDeadLetterSinkResolved

	s := h.settle(newSource())
	if c := s.Status.GetCondition(condition); !c.IsTrue() || c.Reason != "NotConfigured" {
		t.Errorf("%+v", c)
	}
	s = h.settle(newSource(with(&duckv1.Destination{Ref: &broker, CACerts: ptr.String("CA")})))
	if !s.Status.IsReady() || s.Status.DeadLetterSinkURI.String() != "http://b.example" || ptrString(s.Status.DeadLetterSinkCACerts) != "CA" {
		t.Errorf("%+v", s.Status)
	}
	s = s.DeepCopy()
	s.Generation = 2
	s.Spec.Delivery.DeadLetterSink = &duckv1.Destination{URI: &apis.URL{Path: "x"}}
	s = h.settle(s)
	c := s.Status.GetCondition(condition)
	if s.Status.IsReady() || s.Status.IsSet() || !c.IsFalse() || !contains(c.Message, "spec.delivery.deadLetterSink.uri") {
		t.Errorf("%+v", s.Status)
	}
	if s.Status.SinkURI == nil {
		t.Error("the dead letter sink affected SinkProvided")
	}
}
