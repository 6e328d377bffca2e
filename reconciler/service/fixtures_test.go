// SPDX-License-Identifier: Apache-2.0

package service

import (
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"
	"knative.dev/serving/pkg/apis/serving"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
	servingv1beta1 "knative.dev/serving/pkg/apis/serving/v1beta1"
)

var project = projector{carried: []string{"cdevents.knative-cdevents.dev/commit-sha"}, clusterDomain: "cluster.local"}

func percent(p int64) *int64 { return &p }

func meta(name string, owner *metav1.OwnerReference) metav1.ObjectMeta {
	m := metav1.ObjectMeta{
		Namespace: "shop", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "7", Generation: 2,
		CreationTimestamp: metav1.NewTime(time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)),
		ManagedFields:     []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
		Annotations: map[string]string{
			"cdevents.knative-cdevents.dev/commit-sha":         "abc",
			"kubectl.kubernetes.io/last-applied-configuration": "{…}",
		},
		Labels: map[string]string{"app": "cart"},
	}
	if owner != nil {
		m.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	return m
}

func owner(kind string) *metav1.OwnerReference {
	yes := true
	return &metav1.OwnerReference{
		APIVersion: "serving.knative.dev/v1", Kind: kind, Name: "cart", UID: "uid-cart",
		Controller: &yes,
	}
}

func is(status corev1.ConditionStatus, reason string, t apis.ConditionType) apis.Condition {
	return apis.Condition{Type: t, Status: status, Reason: reason}
}

func mustURL(s string) *apis.URL {
	u, err := apis.ParseURL(s)
	if err != nil {
		panic(err)
	}
	return u
}

func newService() *servingv1.Service {
	s := &servingv1.Service{ObjectMeta: meta("cart", nil)}
	s.Status.ObservedGeneration = 2
	s.Status.Conditions = duckv1.Conditions{is(corev1.ConditionTrue, "", apis.ConditionReady)}
	s.Status.LatestReadyRevisionName = "cart-00001"
	return s
}

func newRoute() *servingv1.Route {
	r := &servingv1.Route{ObjectMeta: meta("cart", owner("Service"))}
	r.Status.ObservedGeneration = 2
	r.Status.Conditions = duckv1.Conditions{
		is(corev1.ConditionTrue, "", apis.ConditionReady), is(corev1.ConditionTrue, "", servingv1.RouteConditionIngressReady),
	}
	r.Status.URL = mustURL("http://cart.shop.example.com")
	r.Status.Traffic = []servingv1.TrafficTarget{
		{RevisionName: "cart-00001", Percent: percent(60)},
		{
			RevisionName: "cart-00002", Percent: percent(10), Tag: "canary",
			URL: mustURL("http://canary-cart.shop.example.com"),
		},
		{RevisionName: "cart-00001", Percent: percent(30)},
		{RevisionName: "cart-00003", Tag: "next", URL: mustURL("http://next-cart.shop.svc.cluster.local")},
	}
	return r
}

func newRevision() *servingv1.Revision {
	r := &servingv1.Revision{ObjectMeta: meta("cart-00002", owner("Configuration"))}
	r.Labels = map[string]string{
		serving.ServiceLabelKey: "cart", serving.ServiceUIDLabelKey: "uid-cart", serving.ConfigurationGenerationLabelKey: "2",
	}
	r.Spec.Containers = []corev1.Container{
		{Name: "proxy", Image: "registry/proxy:1"},
		{Name: "app", Image: "registry/app:2", Ports: []corev1.ContainerPort{{ContainerPort: 8080}}},
	}
	r.Status.Conditions = duckv1.Conditions{is(corev1.ConditionTrue, "", apis.ConditionReady)}
	r.Status.ContainerStatuses = []servingv1.ContainerStatus{
		{Name: "app", ImageDigest: "registry/app@sha256:aa"}, {Name: "proxy", ImageDigest: "registry/proxy@sha256:bb"},
	}
	return r
}

func transformed(t *testing.T, obj any) *stored {
	t.Helper()
	once, err := project.transform(obj)
	if err != nil {
		t.Fatal(err)
	}
	twice, err := project.transform(once)
	if err != nil || !reflect.DeepEqual(once, twice) {
		t.Fatalf("a second transform changes the object (%v): %+v", err, twice)
	}
	s, ok := once.(*stored)
	if !ok {
		t.Fatalf("stored as %T", once)
	}
	if m := s.GetObjectMeta(); m.GetManagedFields() != nil || m.GetAnnotations() != nil || m.GetName() == "" ||
		m.GetResourceVersion() != "7" {
		t.Errorf("metadata: %+v", m)
	}
	return s
}

func newDomain() *servingv1beta1.DomainMapping {
	d := &servingv1beta1.DomainMapping{ObjectMeta: meta("cart.example.com", nil)}
	d.Spec.Ref = duckv1.KReference{APIVersion: "serving.knative.dev/v1", Kind: "Service", Name: "cart"}
	d.Status.URL = mustURL("https://cart.example.com")
	d.Status.Conditions = duckv1.Conditions{is(corev1.ConditionTrue, "", apis.ConditionReady)}
	d.Status.ObservedGeneration = d.Generation
	return d
}
