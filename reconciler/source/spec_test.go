// SPDX-License-Identifier: Apache-2.0

package source

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	eventingduckv1 "knative.dev/eventing/pkg/apis/duck/v1"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"
	"knative.dev/pkg/ptr"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

func TestInvalidSpecs(t *testing.T) {
	t.Parallel()
	bad := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
	filter := func(f v1alpha1.Filter) func(*v1alpha1.CDEventSource) {
		return func(s *v1alpha1.CDEventSource) { s.Spec.Filters = []v1alpha1.Filter{f} }
	}
	tests := []struct {
		name   string
		change func(*v1alpha1.CDEventSource)
		reason string
		says   []string
	}{
		{
			"other namespaces", func(s *v1alpha1.CDEventSource) { s.Spec.NamespaceSelector = &metav1.LabelSelector{} },
			"NamespaceSelectorNotAllowed",
			[]string{"namespace knative-cdevents", "this one is in shop", "remove it"},
		},
		{"selector", func(s *v1alpha1.CDEventSource) { s.Spec.Selector = bad }, "InvalidSelector", []string{"spec.selector", "Near"}},
		{
			"namespace selector", func(s *v1alpha1.CDEventSource) { s.Namespace = systemNamespace; s.Spec.NamespaceSelector = bad },
			"InvalidSelector",
			[]string{"spec.namespaceSelector"},
		},
		{"empty filter", filter(v1alpha1.Filter{}), "InvalidFilter", []string{"spec.filters[0]"}},
		{"no CESQL", filter(v1alpha1.Filter{CESQL: "type ="}), "InvalidFilter", []string{"spec.filters[0]"}},
		{"CESQL that panics", filter(v1alpha1.Filter{CESQL: "1 + 1"}), "InvalidFilter", []string{"true or false"}},
		{"NOT for a comparison", filter(v1alpha1.Filter{CESQL: "NOT type = 'x'"}), "InvalidFilter", []string{"spec.filters[0]", "write NOT (type = 'x')"}},
		{"no such attribute", filter(v1alpha1.Filter{CESQL: "team != 'web'"}), "InvalidFilter", []string{"attribute team", "spec.ceOverrides"}},
		{"hidden in others", filter(v1alpha1.Filter{
			Any: []v1alpha1.Filter{{Not: &v1alpha1.Filter{CESQL: "1 + 1"}}},
		}), "InvalidFilter", []string{"spec.filters[0]"}},
		{
			"duration", func(s *v1alpha1.CDEventSource) {
				s.Spec.Delivery = &eventingduckv1.DeliverySpec{Timeout: ptr.String("30")}
			},
			"InvalidDelivery",
			[]string{"spec.delivery.timeout", "PT30S"},
		},
		{
			"version", func(s *v1alpha1.CDEventSource) { s.Spec.CDEvents = &v1alpha1.CDEventsSpec{Version: "0.3"} },
			"InvalidVersion",
			[]string{`"0.3"`, `"0.5" or "0.4"`},
		},
		{
			"environment without a name", func(s *v1alpha1.CDEventSource) {
				s.Spec.Environment = &v1alpha1.Environment{Source: "https://a.example"}
			},
			"InvalidEnvironment",
			[]string{"spec.environment.id"},
		},
		{
			"environment's source", func(s *v1alpha1.CDEventSource) {
				s.Spec.Environment = &v1alpha1.Environment{ID: "a", Source: "two words"}
			},
			"InvalidEnvironment",
			[]string{"spec.environment.source", `"two words"`},
		},
		{"overrides", func(s *v1alpha1.CDEventSource) {
			s.Spec.CloudEventOverrides = &duckv1.CloudEventOverrides{Extensions: map[string]string{"Team": "a", "my-team": "b", "ok": "c"}}
		}, "InvalidOverrides", []string{`"Team", "my-team"`}},
		{"overrides that fill an event", func(s *v1alpha1.CDEventSource) {
			s.Spec.CloudEventOverrides = &duckv1.CloudEventOverrides{Extensions: map[string]string{"team": strings.Repeat("a", 70_000)}}
		}, "InvalidOverrides", []string{"70004 bytes", "more than 4096"}},
		{"an environment that fills an event", func(s *v1alpha1.CDEventSource) {
			s.Spec.Environment = &v1alpha1.Environment{ID: strings.Repeat("a", 70_000)}
		}, "InvalidEnvironment", []string{"more than 1024 bytes"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h := newFixture(t)
			s := h.settle(newSource(tc.change))
			c := s.Status.GetCondition(v1alpha1.SourceConditionValid)
			if s.Status.IsReady() || !c.IsFalse() || c.Reason != tc.reason {
				t.Errorf("%+v", c)
			}
			for _, w := range tc.says {
				if !contains(c.Message, w) {
					t.Errorf("%q does not contain %q", c.Message, w)
				}
			}
			if s.Status.SinkURI == nil {
				t.Error("an invalid spec kept the sink from being resolved")
			}
		})
	}
}

func TestAllProblemsAreReportedAtOnce(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	s := h.settle(newSource(func(s *v1alpha1.CDEventSource) {
		s.Spec.NamespaceSelector = &metav1.LabelSelector{}
		s.Spec.CDEvents = &v1alpha1.CDEventsSpec{Version: "1.0"}
	}))
	c := s.Status.GetCondition(v1alpha1.SourceConditionValid)
	if c.Reason != "NamespaceSelectorNotAllowed" || !contains(c.Message, "spec.namespaceSelector") || !contains(c.Message, "spec.cdevents.version") {
		t.Errorf("%+v", c)
	}
	fixed := s.DeepCopy()
	fixed.Generation, fixed.Spec.NamespaceSelector, fixed.Spec.CDEvents = 2, nil, nil
	if s = h.settle(fixed); !s.Status.IsReady() {
		t.Errorf("%+v", s.Status)
	}
}

func TestValidSpecs(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*v1alpha1.CDEventSource){
		"no options": func(*v1alpha1.CDEventSource) {},
		"everything": func(s *v1alpha1.CDEventSource) {
			s.Namespace = systemNamespace
			s.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "web"}}
			s.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "cart"}}
			s.Spec.Filters = []v1alpha1.Filter{
				{Prefix: map[string]string{"type": "dev.cdevents.service."}},
				{CESQL: "subject LIKE '%cart%'"},
				{CESQL: "team != 'shop'"},
			}
			s.Spec.Delivery = &eventingduckv1.DeliverySpec{
				Retry: ptr.Int32(3), BackoffDelay: ptr.String("PT1S"), DeadLetterSink: &duckv1.Destination{URI: apis.HTTP("letters.example")},
			}
			s.Spec.CDEvents = &v1alpha1.CDEventsSpec{Version: "0.4"}
			s.Spec.Environment = &v1alpha1.Environment{ID: "production", Source: "/environments"}
			s.Spec.CloudEventOverrides = &duckv1.CloudEventOverrides{Extensions: map[string]string{"team": "web"}}
		},
	} {
		if s := newFixture(t).settle(newSource(change)); !s.Status.IsReady() {
			t.Errorf("%s: %+v", name, s.Status.Conditions)
		}
	}
}
