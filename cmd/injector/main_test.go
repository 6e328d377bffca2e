// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"knative.dev/pkg/logging"

	"github.com/knative-cdevents/knative-cdevents/reconciler/sidecar"
	"github.com/knative-cdevents/knative-cdevents/test/revision"
)

func TestSettings(t *testing.T) {
	t.Parallel()
	for says, env := range map[string]map[string]string{
		"":                         {"SIDECAR_IMAGE": "i", "RESTART_TOGETHER": "true", "CONTROLLER_URL": "https://c", "CONTROLLER_CA_CONFIGMAP": "ca"},
		"SIDECAR_IMAGE is not set": {"RESTART_TOGETHER": "true"},
		`RESTART_TOGETHER is "on"`: {"SIDECAR_IMAGE": "i", "RESTART_TOGETHER": "on"},
	} {
		s, err := settings(func(name string) string { return env[name] })
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", says, err)
		}
		if says == "" && (!s.RestartTogether || s.Image != "i" || s.ControllerURL != "https://c" || s.Authorities != "ca") {
			t.Errorf("%+v", s)
		}
	}
}

// A pod of a newer Kubernetes keeps what this version of the API does not know.
func TestUnknownFieldsStay(t *testing.T) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(revision.Pod(t, declaration()))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: object}
	u.SetAPIVersion("v1")
	u.SetKind("Pod")
	future := map[string]any{"a": []any{int64(1)}}
	for _, path := range [][]string{{"spec", "future"}, {"metadata", "future"}} {
		if err := unstructured.SetNestedField(u.Object, future, path...); err != nil {
			t.Fatal(err)
		}
	}
	containers, _, _ := unstructured.NestedSlice(u.Object, "spec", "containers")
	containers[1].(map[string]any)["future"] = future //nolint:errcheck,forcetypeassert // a container
	if err := unstructured.SetNestedSlice(u.Object, containers, "spec", "containers"); err != nil {
		t.Fatal(err)
	}
	if err := injectInto(func(context.Context, *corev1.Pod) (sidecar.Settings, error) { return image, nil })(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	written, err := u.MarshalJSON()
	if err != nil || strings.Count(string(written), `"future":{"a":[1]}`) != 3 || !strings.Contains(string(written), "stateful-sidecar") {
		t.Errorf("%s, %v", written, err)
	}
}

func TestPatchesAreNotLogged(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zapcore.DebugLevel)
	log := logging.FromContext(withoutPatches(logging.WithLogger(context.Background(), zap.New(core).Sugar())))
	log.Infof("PatchBytes: %s", "secret")
	log.Warn("a warning")
	if logs.Len() != 1 || logs.All()[0].Message != "a warning" {
		t.Errorf("%v", logs.All())
	}
}
