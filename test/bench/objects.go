// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"
	"knative.dev/serving/pkg/apis/serving"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
)

// Objects are as large as in a real cluster, where manifests have a dozen settings and Serving fills in the defaults,
// because memory is measured with them.

const userInfo = "system:serviceaccount:delivery:deployer"

func podSpec(name string, generation int) corev1.PodSpec {
	c := corev1.Container{
		Name:  "app",
		Image: fmt.Sprintf("registry.example.com/shop/%s:1.%d.0", name, generation),
		Ports: []corev1.ContainerPort{{Name: "http1", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
		ReadinessProbe: &corev1.Probe{
			ProbeHandler:     corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz"}},
			SuccessThreshold: 1, PeriodSeconds: 5,
		},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("512Mi")},
		},
	}
	for i := range 8 {
		c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%d", i), Value: "https://settings.example.com/" + name + "/" + strconv.Itoa(i)})
	}
	return corev1.PodSpec{Containers: []corev1.Container{c}}
}

func serviceObject(name string) (*servingv1.Service, error) {
	svc := &servingv1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "serving.knative.dev/v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{
			"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "shop", "app.kubernetes.io/managed-by": "delivery",
		}},
	}
	svc.Spec.Template.Labels = map[string]string{"app.kubernetes.io/name": name}
	svc.Spec.Template.Annotations = map[string]string{"autoscaling.knative.dev/min-scale": "0", "autoscaling.knative.dev/target": "50"}
	svc.Spec.Template.Spec.PodSpec = podSpec(name, 1)
	timeout, concurrency := int64(300), int64(0)
	svc.Spec.Template.Spec.TimeoutSeconds, svc.Spec.Template.Spec.ContainerConcurrency = &timeout, &concurrency
	// kubectl apply stores a copy of the manifest in the object.
	applied, err := json.Marshal(svc)
	if err != nil {
		return nil, fmt.Errorf("encoding Service %s: %w", name, err)
	}
	svc.Annotations = map[string]string{
		serving.CreatorAnnotation: userInfo, serving.UpdaterAnnotation: userInfo,
		corev1.LastAppliedConfigAnnotation: string(applied),
	}
	return svc, nil
}

func serviceStatus(svc *servingv1.Service) {
	svc.Status.ObservedGeneration = svc.Generation
	svc.Status.Conditions = ready("ConfigurationsReady", "Ready", "RoutesReady")
	svc.Status.LatestCreatedRevisionName, svc.Status.LatestReadyRevisionName = newer(svc.Name), newer(svc.Name)
	svc.Status.URL = hostOf(svc.Name)
	svc.Status.Address = &duckv1.Addressable{URL: apis.HTTP(svc.Name + "." + namespace + ".svc.cluster.local")}
	svc.Status.Traffic = traffic(svc.Name, 0)
}

func routeObject(svc *servingv1.Service) *servingv1.Route {
	r := &servingv1.Route{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: svc.Name, Labels: map[string]string{serving.ServiceLabelKey: svc.Name},
		Annotations:     map[string]string{serving.CreatorAnnotation: userInfo, serving.UpdaterAnnotation: userInfo},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(svc, servingv1.SchemeGroupVersion.WithKind("Service"))},
	}}
	r.Spec.Traffic = traffic(svc.Name, 0)
	return r
}

func routeStatus(r *servingv1.Route, percent int64) {
	r.Status.ObservedGeneration = r.Generation
	r.Status.Conditions = ready("AllTrafficAssigned", "CertificateProvisioned", "IngressReady", "Ready")
	r.Status.URL = hostOf(r.Name)
	r.Status.Address = &duckv1.Addressable{URL: apis.HTTP(r.Name + "." + namespace + ".svc.cluster.local")}
	r.Status.Traffic = traffic(r.Name, percent)
}

func revisionObject(svc *servingv1.Service, generation int) *servingv1.Revision {
	rev := &servingv1.Revision{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: fmt.Sprintf("%s-%05d", svc.Name, generation),
		Labels: map[string]string{
			serving.ConfigurationLabelKey: svc.Name, serving.ServiceLabelKey: svc.Name,
			serving.ServiceUIDLabelKey: string(svc.UID), serving.ConfigurationUIDLabelKey: string(svc.UID),
			serving.ConfigurationGenerationLabelKey: strconv.Itoa(generation), serving.RoutingStateLabelKey: "active",
		},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(svc, servingv1.SchemeGroupVersion.WithKind("Configuration"))},
		Annotations: map[string]string{
			"autoscaling.knative.dev/min-scale": "0", "autoscaling.knative.dev/target": "50",
			serving.CreatorAnnotation: userInfo, serving.RoutesAnnotationKey: svc.Name,
			serving.RoutingStateModifiedAnnotationKey: "2026-11-21T09:00:00Z",
		},
	}}
	rev.Spec = *svc.Spec.Template.Spec.DeepCopy()
	rev.Spec.PodSpec = podSpec(svc.Name, generation)
	return rev
}

func revisionStatus(rev *servingv1.Revision) {
	rev.Status.ObservedGeneration = rev.Generation
	rev.Status.Conditions = ready("Active", "ContainerHealthy", "Ready", "ResourcesAvailable")
	rev.Status.ContainerStatuses = []servingv1.ContainerStatus{{
		Name: "app", ImageDigest: fmt.Sprintf("registry.example.com/shop/app@sha256:%064x", len(rev.Name)),
	}}
}

// traffic gives a share to the newer Revision, and the rest to the older one.
func traffic(service string, percent int64) []servingv1.TrafficTarget {
	latest := false
	out := []servingv1.TrafficTarget{}
	for _, t := range []target{{older(service), 100 - percent}, {newer(service), percent}} {
		if t.Percent > 0 {
			out = append(out, servingv1.TrafficTarget{RevisionName: t.RevisionName, Percent: &t.Percent, LatestRevision: &latest})
		}
	}
	return out
}

func ready(types ...apis.ConditionType) duckv1.Conditions {
	out := make(duckv1.Conditions, len(types))
	for i, t := range types {
		out[i] = apis.Condition{Type: t, Status: corev1.ConditionTrue, LastTransitionTime: apis.VolatileTime{Inner: metav1.Now()}}
	}
	return out
}

func hostOf(service string) *apis.URL { return apis.HTTP(service + "." + namespace + ".example.com") }
