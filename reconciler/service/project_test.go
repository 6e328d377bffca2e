// SPDX-License-Identifier: Apache-2.0

package service

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"knative.dev/pkg/apis"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
	servingv1beta1 "knative.dev/serving/pkg/apis/serving/v1beta1"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
)

func TestProjectService(t *testing.T) {
	s := transformed(t, newService())
	want := serviceValue{
		UID: "uid-cart", Created: time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC), Generation: 2, Ready: true, EverReady: true,
		Annotations: map[string]string{"cdevents.knative-cdevents.dev/commit-sha": "abc"},
		Labels:      map[string]string{"app": "cart"},
	}
	if !reflect.DeepEqual(s.part.Value, want) || !s.part.Root || s.part.Owner != "uid-cart" {
		t.Errorf("got %+v", s.part)
	}
	lagging := newService()
	lagging.Generation = 3
	if v, _ := transformed(t, lagging).part.Value.(serviceValue); v.Ready {
		t.Error("Ready, although the status is of an older generation")
	}
}

func TestStandaloneObjectsAreIgnored(t *testing.T) {
	alone := newRoute()
	alone.OwnerReferences = nil
	other := newRoute()
	other.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "example.com/v1", Kind: "Service", Name: "x",
		Controller: func() *bool { b := true; return &b }(),
	}}
	loose := newRevision()
	loose.Labels = nil
	for name, obj := range map[string]any{"route": alone, "route of something else": other, "revision": loose} {
		if s := transformed(t, obj); s.service != "" || s.part.Value != nil {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestDomainMappingBelongsToItsTarget(t *testing.T) {
	s := transformed(t, newDomain())
	if s.service != "cart" || s.part.Name != "domain/cart.example.com" ||
		s.part.Value != (domainValue{URL: "https://cart.example.com"}) {
		t.Errorf("%+v", s)
	}
	// One that is not Ready is away, not gone: its URL is known.
	for name, change := range map[string]func(*servingv1beta1.DomainMapping){
		"not Ready":    func(d *servingv1beta1.DomainMapping) { d.Status.Conditions[0].Status = corev1.ConditionFalse },
		"no condition": func(d *servingv1beta1.DomainMapping) { d.Status.Conditions = nil },
		"stale status": func(d *servingv1beta1.DomainMapping) { d.Generation++ },
	} {
		d := newDomain()
		change(d)
		if s := transformed(t, d); s.service != "cart" ||
			s.part.Value != (domainValue{URL: "https://cart.example.com", Away: true}) {
			t.Errorf("%s: %+v", name, s)
		}
	}
	local := newDomain()
	local.Status.URL = mustURL("http://cart.shop.svc.cluster.local")
	if s := transformed(t, local); s.service != "cart" || s.part.Value != nil {
		t.Errorf("cluster-local: %+v", s)
	}
	elsewhere := newDomain()
	elsewhere.Spec.Ref.APIVersion = "v1"
	if s := transformed(t, elsewhere); s.service != "" {
		t.Errorf("for a Kubernetes Service: %+v", s)
	}
}

func TestTroubleFromConditions(t *testing.T) {
	s := newService()
	s.Status.Conditions = append(s.Status.Conditions,
		is(corev1.ConditionUnknown, "RevisionMissing", servingv1.ServiceConditionConfigurationsReady),
		is(corev1.ConditionUnknown, reasonRollout, servingv1.ServiceConditionRoutesReady))
	if got := trouble(s); len(got) != 1 || got[lifecycle.FailedRollout].Reason != "RevisionMissing" {
		t.Errorf("trouble during a gradual rollout: %+v", got)
	}
	s.Status.Conditions[2] = is(corev1.ConditionFalse, "RevisionMissing", servingv1.ServiceConditionRoutesReady)
	s.Status.Conditions[2].Message = strings.Repeat("é", maxMessage)
	if got := trouble(s)[lifecycle.Outage]; got == nil || len(got.Message) != maxMessage+len("…") {
		t.Errorf("%+v", got)
	}
	if got := trouble(newService()); got != nil {
		t.Errorf("trouble of a healthy Service: %+v", got)
	}
}

func TestCompose(t *testing.T) {
	parts := observer.Parts{}
	for _, obj := range []any{newService(), newRoute(), newRevision()} {
		p := transformed(t, obj).part
		parts[p.Name] = p
	}
	s := Compose(parts)
	if s.UID != "uid-cart" || s.Snapshot.Route == nil || len(s.Snapshot.Revisions) != 1 || !s.Snapshot.Ready ||
		s.Snapshot.Versions[lifecycle.ObjectRoute] != "7" {
		t.Errorf("got %+v", s)
	}
	again := parts[partService]
	value, ok := again.Value.(serviceValue)
	if !ok {
		t.Fatal("not a Service")
	}
	value.UID = "uid-new"
	again.Value = value
	parts[partService] = again
	if s := Compose(parts); s.Snapshot.Route != nil || len(s.Snapshot.Revisions) != 0 {
		t.Errorf("it has the parts of a deleted Service of the same name: %+v", s.Snapshot)
	}
	delete(parts, partService)
	if Compose(parts) != nil {
		t.Error("a snapshot without a Service")
	}
}

// Only a small part of an object is kept, however large a tenant makes it.
func TestHugeObjectsAreTruncated(t *testing.T) {
	t.Parallel()
	route := newRoute()
	for i := range 4000 {
		u, err := apis.ParseURL(fmt.Sprintf("https://tag-%04d-%s.apps.example.com", i, strings.Repeat("t", 50)))
		if err != nil {
			t.Fatal(err)
		}
		route.Status.Traffic = append(route.Status.Traffic,
			servingv1.TrafficTarget{Tag: fmt.Sprint(i), RevisionName: "cart-00001", URL: u})
	}
	revision := newRevision()
	for i := range 400 {
		revision.Spec.Containers = append(revision.Spec.Containers,
			corev1.Container{Name: fmt.Sprint(i), Image: strings.Repeat("i", 400)})
	}
	revision.Annotations = map[string]string{}
	for _, name := range project.carried {
		revision.Annotations[name] = strings.Repeat("a", 10<<10)
	}
	for name, obj := range map[string]any{"route": route, "revision": revision} {
		p := transformed(t, obj).part
		raw, err := json.Marshal(p.Value)
		if err != nil || len(raw) > 20<<10 || p.Size > 20<<10 || p.Size < len(raw)/4 {
			t.Errorf("%s: %d bytes kept, counted as %d (%v)", name, len(raw), p.Size, err)
		}
	}
	if v, ok := transformed(t, route).part.Value.(routeValue); !ok || v.URLs[0] != newRoute().Status.URL.String() {
		t.Errorf("the Route's own URL is not first: %v", v.URLs[:1])
	}
}
