// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
)

func customRun(name, field, apiVersion string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "tekton.dev/v1beta1", "kind": "CustomRun",
		"metadata": map[string]any{"namespace": "shop", "name": name},
		"spec":     map[string]any{field: map[string]any{"apiVersion": apiVersion, "kind": "CanaryGate", "name": "cart"}},
	}}
}

func TestGateRuns(t *testing.T) {
	t.Parallel()
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{CustomRuns: "CustomRunList"}, customRun("first", "customRef", "knative-cdevents.dev/v1alpha1"))
	runs := WatchGateRuns(t.Context(), client)
	wait := func(name string) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); !runs.Ours("shop", name); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s is not known", name)
			}
		}
	}
	wait("first")
	time.Sleep(100 * time.Millisecond) // the fake's watch does not send earlier objects
	for name, version := range map[string]string{"theirs": "example.com/v1", "alike": "knative-cdevents.dev.example.com/v1", "own": "knative-cdevents.dev/v1"} {
		if _, err := client.Resource(CustomRuns).Namespace("shop").Create(t.Context(), customRun(name, "customSpec", version), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	wait("own")
	if err := client.Resource(CustomRuns).Namespace("shop").Delete(t.Context(), "own", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"first": true, "own": true, "theirs": false, "alike": false} {
		if got := runs.Ours("shop", name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if runs.Ours("other", "first") {
		t.Error("a CustomRun in another namespace was recorded")
	}
}
