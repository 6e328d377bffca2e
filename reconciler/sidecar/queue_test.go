// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/test/revision"
)

func TestInjectIntoQueueProxy(t *testing.T) {
	s := Settings{Image: "i", QueueProxyImage: "registry.example.com/queue-proxy@sha256:2", ServingVersion: "1.23.0", RestartTogether: true}
	pod := revision.Pod(t, declared(map[string]string{v1alpha1.AnnotationProxy: v1alpha1.ProxyQueueProxy}))
	before := pod.DeepCopy()
	if err := Inject(pod, s); err != nil {
		t.Fatal(err)
	}
	queue := named(t, pod.Spec.Containers, "queue-proxy")
	env := environment(queue)
	if queue.Image != s.QueueProxyImage || env["USER_PORT"] != "8080" || env["STATEFUL_APPLICATION_PORT"] != "8080" || env["STATEFUL_KEY"] != "path:/carts/{key}" ||
		env["STATEFUL_POD_IP"] != "status.podIP" || env["STATEFUL_RESTART_TOGETHER"] != "" || env["ENABLE_MULTI_CONTAINER_PROBES"] != "true" {
		t.Errorf("%s %v", queue.Image, env)
	}
	if stop := named(t, pod.Spec.Containers, "user-container").Lifecycle.PreStop.HTTPGet; stop.Port.IntValue() != 8481 || stop.Path != "/drain" {
		t.Errorf("%+v", stop)
	}
	// Only queue-proxy has the token, and there is no further container.
	for _, c := range pod.Spec.Containers {
		has := slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == volume })
		if has != (c.Name == "queue-proxy") {
			t.Errorf("%s has the token: %v", c.Name, has)
		}
	}
	if len(pod.Spec.InitContainers) > 0 || len(pod.Spec.Containers) != len(before.Spec.Containers) {
		t.Errorf("%+v", pod.Spec)
	}
	again := pod.DeepCopy()
	if err := Inject(again, s); err != nil || !equality.Semantic.DeepEqual(again, pod) {
		t.Error(err, cmp.Diff(pod, again))
	}

	for says, version := range map[string]string{
		"built for Knative Serving 1.23, and the cluster has \"1.24.1\"": "1.24.1", "has \"1.2\"": "1.2", "has \"\"": "", "has \"1.230.0\"": "1.230.0",
	} {
		s := s
		s.ServingVersion = version
		pod := before.DeepCopy()
		if err := Inject(pod, s); err == nil || !strings.Contains(err.Error(), says) || !equality.Semantic.DeepEqual(pod, before) {
			t.Errorf("%s: %v", version, err)
		}
	}
	s.QueueProxyImage = ""
	if err := Inject(before.DeepCopy(), s); err == nil || !strings.Contains(err.Error(), "QUEUE_PROXY_IMAGE") {
		t.Error(err)
	}
}

// Serving's modules are v0.N, where N is its minor version plus 27.
func TestBuiltForTheServingOfGoMod(t *testing.T) {
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if BuiltFor != "1.23" || !strings.Contains(string(mod), "\tknative.dev/serving v0.50.") {
		t.Errorf("go.mod has another version of Serving than %s: set BuiltFor, and run the end-to-end tests with it", BuiltFor)
	}
}
