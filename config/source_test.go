// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
)

// What is stored counts, whatever a later release has as defaults. An object without them, as in memory, means the same.
func TestSchemaAndGoHaveTheSameDefaultsOfSources(t *testing.T) {
	t.Parallel()
	structural, validator := schemaOf(t, crd(t, "cdeventsources"))
	const (
		delivery = `{"backoffDelay":"PT1S","backoffPolicy":"exponential","format":"binary","retryAfterMax":"PT5M","timeout":"PT30S"}`
		letters  = `{"backoffDelay":"PT1S","backoffPolicy":"linear","deadLetterSink":{"uri":"http://letters"},"format":"json","retry":3,"retryAfterMax":"PT5M","timeout":"1m"}`
	)
	for given, want := range map[string]string{
		`"selector":{}`: `"selector":{},"cdevents":{"version":"0.5"},"delivery":` + delivery + `,"replay":"None"`,
		`"cdevents":{"version":"0.4"},"delivery":{},"replay":"Current"`:                                                                          `"cdevents":{"version":"0.4"},"delivery":` + delivery + `,"replay":"Current"`,
		`"cdevents":{},"delivery":{"backoffPolicy":"linear","deadLetterSink":{"uri":"http://letters"},"format":"json","retry":3,"timeout":"1m"}`: `"cdevents":{"version":"0.5"},"delivery":` + letters + `,"replay":"None"`,
		`"cdevents":null,"delivery":null,"replay":null`:                                                                                          `"cdevents":{"version":"0.5"},"delivery":` + delivery + `,"replay":"None"`,
	} {
		object := sourceOf(given).Object
		read := func() (s v1alpha1.CDEventSource, policy transport.Policy) {
			t.Helper()
			raw, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(raw, &s); err != nil {
				t.Fatal(err)
			}
			if policy, err = transport.NewPolicy(s.Spec.Delivery); err != nil {
				t.Fatalf("%s: %v", given, err)
			}
			return s, policy
		}
		before, counts := read()
		defaulting.PruneNonNullableNullsWithoutDefaults(object, structural)
		defaulting.Default(object, structural)
		if errs := validation.ValidateCustomResource(nil, object, validator); len(errs) > 0 {
			t.Errorf("%s: %v", given, errs.ToAggregate())
		}
		if diff := cmp.Diff(sourceOf(want).Object, object); diff != "" {
			t.Errorf("%s: what is stored differs (+):\n%s", given, diff)
		}
		stored, still := read()
		if diff := cmp.Diff(counts, still); diff != "" {
			t.Errorf("%s: the delivery of the stored source differs (+):\n%s", given, diff)
		}
		current := func(s v1alpha1.CDEventSource) bool { return s.Spec.Replay == v1alpha1.ReplayCurrent }
		if before.Spec.Version() != stored.Spec.Version() || current(before) != current(stored) {
			t.Errorf("%s: %q and %q are stored, which mean something else", given, stored.Spec.Version(), stored.Spec.Replay)
		}
	}
}

// What belongs together has one owner: a selector of two halves, or a reference with the name of another's, selects what
// nobody asked for.
func checkOwners(t *testing.T, sources dynamic.ResourceInterface) {
	t.Helper()
	apply := func(owner, spec string) map[string]any {
		t.Helper()
		object := sourceOf(spec)
		object.SetGenerateName("")
		object.SetName("owned")
		is, err := sources.Apply(t.Context(), "owned", object, metav1.ApplyOptions{FieldManager: owner, Force: true})
		if err != nil {
			t.Fatal(err)
		}
		of, _, _ := unstructured.NestedMap(is.Object, "spec")
		return of
	}
	apply("team", `{"sink":{"ref":{"apiVersion":"v1","kind":"Service","name":"cart","address":"a"}},
		"selector":{"matchLabels":{"team":"a"}},"auth":{"authorization":{"name":"a","key":"a"}},
		"delivery":{"deadLetterSink":{"ref":{"apiVersion":"v1","kind":"Service","name":"letters","address":"a"}}}}`)
	got := apply("platform", `{"sink":{"ref":{"apiVersion":"v1","kind":"Service","name":"shop"}},
		"selector":{"matchExpressions":[{"key":"tier","operator":"Exists"}]},"auth":{"authorization":{"name":"b","key":"b"}},
		"delivery":{"deadLetterSink":{"ref":{"apiVersion":"v1","kind":"Service","name":"others"}}}}`)
	want := map[string]any{
		"sink":     map[string]any{"ref": map[string]any{"apiVersion": "v1", "kind": "Service", "name": "shop"}},
		"selector": map[string]any{"matchExpressions": []any{map[string]any{"key": "tier", "operator": "Exists"}}},
		"auth":     map[string]any{"authorization": map[string]any{"name": "b", "key": "b"}},
		"delivery": map[string]any{
			"deadLetterSink": map[string]any{"ref": map[string]any{"apiVersion": "v1", "kind": "Service", "name": "others"}},
			"timeout":        "PT30S", "backoffPolicy": "exponential", "backoffDelay": "PT1S", "retryAfterMax": "PT5M", "format": "binary",
		},
		"cdevents": map[string]any{"version": "0.5"}, "replay": "None",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what another owner applied is mixed with what was there, or has other defaults (+):\n%s", diff)
	}
	if err := sources.Delete(t.Context(), "owned", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}
