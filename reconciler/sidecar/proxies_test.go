// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"knative.dev/serving/pkg/queue/readiness"
	"sigs.k8s.io/yaml"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/test/revision"
)

// shippedExample returns the example of the ConfigMap that is installed.
func shippedExample(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile("../../config/optional/sidecar/400-config-sidecars.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var cm corev1.ConfigMap
	if err := yaml.Unmarshal(raw, &cm); err != nil {
		t.Fatal(err)
	}
	if all, err := ParseProxies(cm.Data); err != nil || len(all.named) > 0 || cm.Name != ProxiesConfig {
		t.Fatalf("%s: %+v, %v", cm.Name, all, err)
	}
	var examples map[string]string
	if err := yaml.Unmarshal([]byte(cm.Data["_example"]), &examples); err != nil {
		t.Fatal(err)
	}
	return examples["cloudstate"]
}

func TestInjectTheSidecarOfTheInstallation(t *testing.T) {
	proxies, err := ParseProxies(map[string]string{"cloudstate": shippedExample(t)})
	if err != nil {
		t.Fatal(err)
	}
	pod := revision.Pod(t, map[string]string{
		v1alpha1.AnnotationRuntime: "cloudstate", v1alpha1.AnnotationProxy: "cloudstate", v1alpha1.AnnotationShards: "32", "example.com/journal": "$(HOME)",
	})
	before := pod.DeepCopy()
	if err := Inject(pod, Settings{Image: "i", Proxies: proxies}); err != nil {
		t.Fatal(err)
	}
	c := pod.Spec.InitContainers[0]
	if c.Name != "cloudstate-proxy" || !strings.HasPrefix(c.Image, "registry.example.com/cloudstate-proxy") || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways {
		t.Errorf("%+v", c)
	}
	want := map[string]string{
		"HTTP_PORT": "8600", "USER_FUNCTION_PORT": "8080", "NUMBER_OF_SHARDS": "32", "JOURNAL": "$$(HOME)", "SELECTOR_LABEL": "serving.knative.dev/service",
	}
	if got := environment(c); !maps.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
	queue := environment(named(t, pod.Spec.Containers, "queue-proxy"))
	if queue["USER_PORT"] != "8600" {
		t.Errorf("%v", queue)
	}
	probes, err := readiness.DecodeProbes(queue["SERVING_READINESS_PROBE"], true)
	if err != nil || len(probes) != 2 || probes[1].HTTPGet.Path != "/ready" || probes[1].HTTPGet.Port.IntValue() != 8601 {
		t.Errorf("%+v, %v", probes, err)
	}
	// All else is as Serving made it.
	if undone := undo(pod, before); !equality.Semantic.DeepEqual(undone, before) {
		t.Error(cmp.Diff(before, undone))
	}
	again := pod.DeepCopy()
	if err := Inject(again, Settings{Image: "i", Proxies: proxies}); err != nil || !equality.Semantic.DeepEqual(again, pod) {
		t.Error(err, cmp.Diff(pod, again))
	}

	for says, proxy := range map[string]string{"config-sidecars has cloudstate": "akka"} {
		pod := revision.Pod(t, map[string]string{v1alpha1.AnnotationRuntime: "akka", v1alpha1.AnnotationProxy: proxy})
		was := pod.DeepCopy()
		if err := Inject(pod, Settings{Image: "i", Proxies: proxies}); err == nil || !strings.Contains(err.Error(), says) || !equality.Semantic.DeepEqual(pod, was) {
			t.Errorf("%v", err)
		}
	}
}

func TestWrongSidecarsOfTheInstallation(t *testing.T) {
	good := shippedExample(t)
	for says, data := range map[string]map[string]string{
		"key akka: error":       {"akka": "no: such"},
		"container.image":       {"akka": "userPort: 8600\ncontainer: {name: a}"},
		"userPort is 8012":      {"akka": "userPort: 8012\ncontainer: {name: a, image: i}"},
		"container.name is":     {"akka": "userPort: 8600\ncontainer: {name: queue-proxy, image: i}"},
		"restartPolicy must":    {"akka": "userPort: 8600\ncontainer: {name: a, image: i, restartPolicy: Always}"},
		"no name of an env":     {"akka": "userPort: 8600\ncontainer: {name: a, image: i}\nenvironment: {A B: example.com/a}"},
		"no name of an annot":   {"akka": "userPort: 8600\ncontainer: {name: a, image: i}\nenvironment: {A: a/b/c}"},
		"readiness.path":        {"akka": "userPort: 8600\ncontainer: {name: a, image: i}\nreadiness: {path: x, port: 1}"},
		"applicationPort is A,": {"akka": "userPort: 8600\ncontainer: {name: a, image: i}\nenvironment: {A: a}\napplicationPort: A"},
		"the key must be":       {"queue-proxy": good},
	} {
		data["fine"] = good
		proxies, err := ParseProxies(data)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
		// Nothing of it is in force, and whoever asks for it learns why.
		if _, err := proxies.Named("fine"); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	if _, err := (Proxies{}).Named("akka"); err == nil || !strings.Contains(err.Error(), "names no sidecar") {
		t.Error(err)
	}
}
