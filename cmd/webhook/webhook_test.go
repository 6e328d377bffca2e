package main

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	eventingv1 "knative.dev/eventing/pkg/apis/eventing/v1"
	"knative.dev/pkg/apis"
	"knative.dev/pkg/configmap"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/reconciler/settings"
)

func arriving(change func(*admitted)) *admitted {
	a := &admitted{system: "knative-cdevents"}
	a.Namespace, a.Name = "shop", "all"
	a.Spec.Sink.URI = apis.HTTP("sink.example.com")
	change(a)
	return a
}

func TestWhatIsRefused(t *testing.T) {
	for want, change := range map[string]func(*admitted){
		"":                                 func(*admitted) {},
		"neither ref nor uri":              func(a *admitted) { a.Spec.Sink.URI = nil },
		"spec.filters[0]":                  func(a *admitted) { a.Spec.Filters = []eventingv1.SubscriptionsAPIFilter{{CESQL: "1 + 1"}} },
		"spec.namespaceSelector":           func(a *admitted) { a.Spec.NamespaceSelector = &metav1.LabelSelector{} },
		"spec.environment.id is empty":     func(a *admitted) { a.Spec.Environment = &v1alpha1.Environment{} },
		"its scheme must be http or https": func(a *admitted) { a.Spec.Sink.URI.Scheme = "ftp" },
	} {
		err := arriving(change).Validate(apis.WithinCreate(context.Background()))
		if want == "" && err == nil {
			continue
		}
		if err == nil || want == "" || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// An older version may have let it in; whoever changes something else about it is
// not the one to mend it.
func TestWhatStaysAsItIsMayStay(t *testing.T) {
	wrong := func(a *admitted) { a.Spec.Sink.URI = nil }
	before, after := arriving(wrong), arriving(wrong)
	after.Labels = map[string]string{"a": "b"}
	if err := after.Validate(apis.WithinUpdate(context.Background(), before)); err != nil {
		t.Error(err)
	}
	after.Spec.Filters = []eventingv1.SubscriptionsAPIFilter{{CESQL: "TRUE"}}
	if err := after.Validate(apis.WithinUpdate(context.Background(), before)); err == nil {
		t.Error("a change of what is wrong was let in")
	}
}

func TestConfigMapsThatAreRefused(t *testing.T) {
	for want, data := range map[string]map[string]string{
		"":                     {"rollback-traffic": "false"},
		"shifted-min-interval": {"shifted-min-interval": "often"},
		"rollback-tempate":     {"rollback-tempate": "false"},
		"no absolute URI":      {"cluster-uri": "here"},
	} {
		c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "knative-cdevents", Name: settings.Name}, Data: data}
		_, err := settings.Check(c)
		if want == "" && err == nil {
			continue
		}
		if err == nil || want == "" || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	for name, c := range constructors {
		if err := configmap.ValidateConstructor(c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// With such times no replica would start again.
func TestElectionsThatCannotBeHeld(t *testing.T) {
	for want, data := range map[string]map[string]string{
		"":                                {"lease-duration": "15s", "renew-deadline": "10s", "retry-period": "2s"},
		"lease-duration (5s)":             {"lease-duration": "5s", "renew-deadline": "10s", "retry-period": "2s"},
		"renew-deadline (10s)":            {"lease-duration": "15s", "renew-deadline": "10s", "retry-period": "9s"},
		"retry-period (0s)":               {"lease-duration": "15s", "renew-deadline": "10s", "retry-period": "0s"},
		"knative-cdevents/elections: fai": {"lease-duration": "long"},
	} {
		c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "knative-cdevents", Name: "elections"}, Data: data}
		_, err := elections(c)
		if want == "" && err == nil {
			continue
		}
		if err == nil || want == "" || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}
