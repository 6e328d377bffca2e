// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	httptransport "github.com/knative-cdevents/knative-cdevents/emitter/transport/http"
	"github.com/knative-cdevents/knative-cdevents/reconciler/source/valid"
)

// The samples work together in any namespace, without Knative Eventing. README shows the shipped
// source.
func TestSamplesWorkTogether(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("samples/200-source.yaml")
	if err != nil {
		t.Fatal(err)
	}
	sample := &v1alpha1.CDEventSource{}
	if err := yaml.UnmarshalStrict(raw, sample); err != nil {
		t.Fatal(err)
	}
	sample.Namespace = "shop"
	if err := valid.Check(sample, namespace, httptransport.Schemes); err != nil {
		t.Error(err)
	}
	sink := sample.Spec.Sink.Ref
	if sink == nil || sink.APIVersion != "v1" || sink.Kind != "Service" {
		t.Fatalf("the sink is %+v", sink)
	}
	var pod *corev1.PodTemplateSpec
	var service *corev1.Service
	for _, m := range decode(t, "samples/100-*.yaml") {
		if m.GetNamespace() != "" {
			t.Errorf("%s is in namespace %s", m.GetName(), m.GetNamespace())
		}
		switch o := m.object.(type) {
		case *appsv1.Deployment:
			pod = &o.Spec.Template
		case *corev1.Service:
			service = o
		default:
			t.Errorf("%s holds a %T", m.file, o)
		}
	}
	if pod == nil || service == nil || service.Name != sink.Name {
		t.Fatalf("pod %v, service %v, sink %s", pod, service, sink.Name)
	}
	for key, value := range service.Spec.Selector {
		if pod.Labels[key] != value {
			t.Errorf("the Service selects %s=%s, the pods have %v", key, value, pod.Labels)
		}
	}
	if image := pod.Spec.Containers[0].Image; image != "ko://github.com/knative-cdevents/knative-cdevents/cmd/display" {
		t.Errorf("image %s", image)
	}
	if port := service.Spec.Ports[0]; port.Port != 80 || port.TargetPort.StrVal != pod.Spec.Containers[0].Ports[0].Name {
		t.Errorf("%+v", port)
	}
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, document, _ := strings.Cut(string(raw), "apiVersion:")
	shown := strings.Replace("apiVersion:"+document, "  name: releases\n", "  name: releases\n  namespace: shop\n", 1)
	if !strings.Contains(string(readme), shown) {
		t.Error("README and config/samples show different sources")
	}
}
