// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metadatafake "k8s.io/client-go/metadata/fake"
	eventingduckv1 "knative.dev/eventing/pkg/apis/duck/v1"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"
	"knative.dev/pkg/configmap"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/route"
	"github.com/knative-cdevents/knative-cdevents/reconciler/settings"
	"github.com/knative-cdevents/knative-cdevents/reconciler/settings/canary"
	"github.com/knative-cdevents/knative-cdevents/reconciler/source"
)

func arriving(change func(*admitted)) *admitted {
	a := &admitted{system: "knative-cdevents", budget: source.NewBudget("knative-cdevents"), full: func(context.Context, string) (bool, error) { return false, nil }}
	a.Namespace, a.Name = "shop", "all"
	a.Spec.Sink.URI = apis.HTTP("sink.example.com")
	change(a)
	return a
}

func named(ref duckv1.KReference) func(*admitted) {
	return func(a *admitted) { a.Spec.Sink = duckv1.Destination{Ref: &ref} }
}

func TestRefusedSources(t *testing.T) {
	for want, change := range map[string]func(*admitted){
		"":                             func(*admitted) {},
		"neither ref nor uri":          func(a *admitted) { a.Spec.Sink.URI = nil },
		"which cannot receive events":  named(duckv1.KReference{APIVersion: "serving.knative.dev/v1", Kind: "Revision", Name: "cart-1"}),
		"names an object in namespace": named(duckv1.KReference{APIVersion: "v1", Kind: "Service", Namespace: "bank", Name: "cart"}),
		"write NOT (type = 'x')":       func(a *admitted) { a.Spec.Filters = []v1alpha1.Filter{{CESQL: "NOT type = 'x'"}} },
		"has the attribute team":       func(a *admitted) { a.Spec.Filters = []v1alpha1.Filter{{CESQL: "team != 'web'"}} },
		"spec.filters[0]":              func(a *admitted) { a.Spec.Filters = []v1alpha1.Filter{{CESQL: "1 + 1"}} },
		"spec.namespaceSelector":       func(a *admitted) { a.Spec.NamespaceSelector = &metav1.LabelSelector{} },
		"spec.environment.id is empty": func(a *admitted) { a.Spec.Environment = &v1alpha1.Environment{} },
		"spec.ceOverrides and spec.environment": func(a *admitted) {
			// As JSON, each of these characters takes six bytes.
			a.Spec.CloudEventOverrides = &duckv1.CloudEventOverrides{Extensions: map[string]string{"team": strings.Repeat("<", 2000)}}
		},
		"spec.filters has": func(a *admitted) {
			a.Spec.Filters = []v1alpha1.Filter{{Exact: map[string]string{"type": strings.Repeat("x", 70_000)}}}
		},
		"is an address with a zone": func(a *admitted) { a.Spec.Sink.URI.Host = "[fd00::5%.svc.cluster.local]" },
		"is not ASCII":              func(a *admitted) { a.Spec.Sink.URI.Host = "gİthub.com" },
		"spec.delivery.deadLetterSink.uri": func(a *admitted) {
			a.Spec.Delivery = &eventingduckv1.DeliverySpec{DeadLetterSink: &duckv1.Destination{URI: apis.HTTP("ſvc")}}
		},
		"its scheme must be http, https, kafka or kafkas": func(a *admitted) { a.Spec.Sink.URI.Scheme = "ftp" },
		"must end with the name of a topic": func(a *admitted) {
			a.Spec.Sink.URI = &apis.URL{Scheme: "kafka", Host: "b1:9092,b2:9092"}
		},
		"a Secret that spec.auth names": func(a *admitted) {
			a.Spec.Sink.URI = &apis.URL{Scheme: "kafkas", User: url.User("me"), Host: "b1:9092", Path: "/releases"}
		},
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

// The author can fix all problems at once, and sees which field each is about.
func TestAllProblemsAreReportedWithTheirFields(t *testing.T) {
	a := &admitted{system: "knative-cdevents", budget: source.NewBudget("knative-cdevents")}
	a.Namespace = "shop"
	if err := json.Unmarshal([]byte(`{"metadata":{"namespace":"shop","name":"all"},"spec":{
		"sink":{"ref":{"apiVersion":"v1","kind":"Pod","name":"a"}},
		"filters":[{"all":[{"exact":5}]}],
		"namespaceSelector":{},
		"environment":{"source":"two words"},
		"ceOverrides":{"extensions":{"Team":"a"}},
		"delivery":{"timeout":"30","backoffDelay":"P1M","deadLetterSink":{"uri":"http://[::1"}}}}`), a); err != nil {
		t.Fatal(err)
	}
	err := a.Validate(apis.WithinCreate(context.Background()))
	if err == nil {
		t.Fatal("an invalid source was admitted")
	}
	for _, want := range []string{
		"invalid value: spec.sink.ref\n", "invalid value: spec.filters[0].all[0].exact\n", "invalid value: spec.namespaceSelector\n", "invalid value: spec.environment.id\n",
		"invalid value: spec.ceOverrides.extensions\n", "invalid value: spec.delivery.timeout\n", "invalid value: spec.delivery.backoffDelay\n", "invalid value: spec.delivery.deadLetterSink.uri\n",
		"years and months have no fixed length", "must be an object", "missing ']' in host",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing from\n%s", want, err)
		}
	}
	if strings.HasSuffix(err.Error(), ": spec") {
		t.Errorf("the message ends in a field name: %s", err)
	}
	// A field that cannot be parsed may stay until it is changed.
	changed := &admitted{CDEventSource: *a.DeepCopy(), system: a.system, budget: a.budget}
	changed.Labels = map[string]string{"a": "b"}
	if err := changed.Validate(apis.WithinUpdate(context.Background(), a)); err != nil {
		t.Error(err)
	}
	changed.Unread = changed.Unread[:1]
	if err := changed.Validate(apis.WithinUpdate(context.Background(), a)); err == nil {
		t.Error("a change to an invalid spec was admitted")
	}
}

// The limit applies to new sources only. Existing ones may be changed, and the
// system namespace has no limit.
func TestSourceLimit(t *testing.T) {
	kinds := runtime.NewScheme()
	metav1.AddMetaToScheme(kinds) //nolint:errcheck,gosec // as client-go's own tests do
	var existing []runtime.Object
	for i := range route.MaxSources {
		existing = append(existing, &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "CDEventSource"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("all-", i)},
		})
	}
	count := countSources(metadatafake.NewSimpleMetadataClient(kinds, existing...))
	in := func(namespace string, full func(context.Context, string) (bool, error)) *admitted {
		return arriving(func(a *admitted) { a.Namespace, a.full = namespace, full })
	}
	create := apis.WithinCreate(context.Background())
	err := in("shop", count).Validate(create)
	if err == nil || !strings.Contains(err.Error(), "namespace shop has more than 32 CDEventSources") || !strings.Contains(err.Error(), "metadata.namespace") {
		t.Errorf("%v", err)
	}
	if err := in("other", count).Validate(create); err != nil {
		t.Error(err)
	}
	if err := in("knative-cdevents", count).Validate(create); err != nil {
		t.Error(err)
	}
	before, after := in("shop", count), in("shop", count)
	after.Spec.Filters = []v1alpha1.Filter{{CESQL: "TRUE"}}
	if err := after.Validate(apis.WithinUpdate(context.Background(), before)); err != nil {
		t.Error(err)
	}
	// If the webhook cannot count, the controller still enforces the limit.
	if err := in("shop", func(context.Context, string) (bool, error) { return false, errors.New("away") }).Validate(create); err != nil {
		t.Error(err)
	}
}

// Nobody's filters take the time in which other objects are admitted. What is not checked
// costs nothing.
func TestBudgetOfANamespace(t *testing.T) {
	budget := source.NewBudget("knative-cdevents")
	of := func(change func(*admitted)) *admitted {
		return arriving(func(a *admitted) {
			a.budget = budget
			for range 4 {
				a.Spec.Filters = append(a.Spec.Filters, v1alpha1.Filter{CESQL: "TRUE" + strings.Repeat(" ", 1020)})
			}
			change(a)
		})
	}
	same := func(*admitted) {}
	var err *apis.FieldError
	for range 2 * route.MaxSources {
		if err = of(same).Validate(apis.WithinCreate(context.Background())); err != nil {
			break
		}
	}
	if err == nil || !strings.Contains(err.Error(), "too many changes: spec.filters") {
		t.Errorf("%v", err)
	}
	labelled := of(func(a *admitted) { a.Labels = map[string]string{"a": "b"} })
	if err := labelled.Validate(apis.WithinUpdate(context.Background(), of(same))); err != nil {
		t.Errorf("an unchanged spec: %v", err)
	}
	elsewhere := of(func(a *admitted) { a.Namespace = "other" })
	if err := elsewhere.Validate(apis.WithinCreate(context.Background())); err != nil {
		t.Errorf("another namespace: %v", err)
	}
}

// An older version may have admitted it. Changing another field does not oblige the
// user to fix the spec.
func TestUnchangedInvalidSpecIsAdmitted(t *testing.T) {
	wrong := func(a *admitted) { a.Spec.Sink.URI = nil }
	before, after := arriving(wrong), arriving(wrong)
	after.Labels = map[string]string{"a": "b"}
	if err := after.Validate(apis.WithinUpdate(context.Background(), before)); err != nil {
		t.Error(err)
	}
	after.Spec.Filters = []v1alpha1.Filter{{CESQL: "TRUE"}}
	if err := after.Validate(apis.WithinUpdate(context.Background(), before)); err == nil {
		t.Error("a change to an invalid spec was admitted")
	}
}

func TestRefusedConfigMaps(t *testing.T) {
	for want, data := range map[string]map[string]string{
		"":                     {"rollback-traffic": "false"},
		"shifted-min-interval": {"shifted-min-interval": "often"},
		"rollback-tempate":     {"rollback-tempate": "false"},
		"not an absolute URI":  {"cluster-uri": "here"},
		// All at once.
		"settle-wihtin": {"settle-wihtin": "1m", "cluster-uri": "here"},
		"cluster-uri":   {"settle-wihtin": "1m", "cluster-uri": "here"},
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
}

// The settings of canary metrics are in a ConfigMap of their own.
func TestRefusedCanarySettings(t *testing.T) {
	for want, data := range map[string]map[string]string{
		"":                                 {"scrape-interval": "30s"},
		"scrape-interval must be a durati": {"scrape-interval": "often"},
		"scrape-timeout is 1m0s; it must":  {"scrape-timeout": "1m"},
		"scrape-intreval is not a setting": {"scrape-intreval": "30s"},
		"broken":                           {"mapping.broken": "nonsense: ["},
	} {
		check, ok := constructors[canary.Name].(func(*corev1.ConfigMap) (canary.Settings, error))
		if !ok {
			t.Fatalf("nothing validates %s", canary.Name)
		}
		_, err := check(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "knative-cdevents", Name: canary.Name}, Data: data})
		if want == "" && err == nil {
			continue
		}
		if err == nil || want == "" || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestEveryConfigMapIsValidated(t *testing.T) {
	shipped, err := filepath.Glob("../../config/400-*.yaml")
	if err != nil || len(shipped) == 0 {
		t.Fatal(shipped, err)
	}
	for _, file := range shipped {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "400-"), ".yaml")
		if constructors[name] == nil {
			t.Errorf("%s is admitted without validation", name)
		}
	}
	for name, c := range constructors {
		if err := configmap.ValidateConstructor(c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
