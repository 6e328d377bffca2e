// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// Objects of foreign kinds have any form. Reading one never panics, and nothing is announced that its conditions do
// not say.
func FuzzForeignObjects(f *testing.F) {
	for _, pattern := range []string{"testdata/*/created.json", "testdata/*/upgraded.json", "testdata/*/deleted.json"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			var all []struct{ Object json.RawMessage }
			if err := json.Unmarshal(raw, &all); err != nil {
				f.Fatal(err)
			}
			for i, c := range all {
				f.Add([]byte(c.Object), i%2 == 0)
			}
		}
	}
	f.Add([]byte(`{"apiVersion":"a/v1","kind":"B","metadata":{"labels":3,"ownerReferences":[1]},"spec":[],"status":{"conditions":{"type":"Ready"}}}`), true)
	f.Add([]byte(`{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Cluster","spec":{"topology":{"workers":{"machineDeployments":[null,{"name":5}]}}},"status":{"conditions":[null,{"type":"Available","status":true,"observedGeneration":"x"}]}}`), false)
	f.Fuzz(func(t *testing.T, raw []byte, composite bool) {
		var o map[string]any
		u := &unstructured.Unstructured{}
		if json.Unmarshal(raw, &o) != nil || u.UnmarshalJSON(raw) != nil {
			t.Skip()
		}
		kept, err := projector{composite: composite}.transform(u)
		if err != nil {
			t.Fatal(err)
		}
		object, ok := kept.(*stored)
		if !ok {
			t.Fatalf("kept %T", kept)
		}
		v, ok := object.part.Value.(value)
		if !ok {
			t.Fatalf("kept %T", object.part.Value)
		}
		if v.Facts.Ready && !says(o, "Ready") && !says(o, "Available") {
			t.Errorf("ready without a condition that says so: %s", raw)
		}
		if v.Facts.Settled && !v.Facts.Ready {
			t.Errorf("settled and not ready: %s", raw)
		}
		at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
		r := lifecycle.NextEnvironment(lifecycle.DefaultRules, lifecycle.EnvironmentMemory{}, v.Facts, at)
		for _, tr := range r.Transitions {
			if tr.Type == lifecycle.EnvironmentCreated && !v.Facts.Ready {
				t.Errorf("created and not ready: %s", raw)
			}
		}
		if again := lifecycle.NextEnvironment(lifecycle.DefaultRules, r.Memory, v.Facts, at); len(again.Transitions) > 0 {
			t.Errorf("the same state is announced twice: %v", again.Transitions)
		}
		if stored, err := json.Marshal(r.Memory); err != nil || len(stored) > 200<<10 {
			t.Errorf("%d bytes are remembered: %v", len(stored), err)
		}
	})
}

// says reports whether anything in a document is a condition of this type that is True.
func says(v any, condition string) bool {
	switch t := v.(type) {
	case map[string]any:
		if t["type"] == condition && t["status"] == "True" {
			return true
		}
		for _, inner := range t {
			if says(inner, condition) {
				return true
			}
		}
	case []any:
		for _, inner := range t {
			if says(inner, condition) {
				return true
			}
		}
	}
	return false
}
