// SPDX-License-Identifier: Apache-2.0

package cdevents

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// captured returns an event of a type in CDEvents 0.5, as a receiver got it on a real cluster, with
// the cluster's own names replaced. Capture them again with
//
//	make e2e RUN='TestLifeOfAService|TestIncidents' E2E_CAPTURE=$PWD/emitter/cdevents/testdata/captured
//	make e2e-full RUN='TestCrossplane|TestEnvironmentFlow' E2E_CAPTURE=$PWD/emitter/cdevents/testdata/captured
func captured(t *testing.T, typ string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "captured", typ+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// uncaptured lists the types that have not been captured: the page shows them as rendered, and says
// so.
var uncaptured = map[lifecycle.Type]bool{
	lifecycle.ClusterUnsettled: true, lifecycle.ClusterRebalanced: true, lifecycle.Judged: true,
}

// example returns what the page shows for a transition.
func example(t *testing.T, tr lifecycle.Transition) string {
	t.Helper()
	e := render(t, profile(Version05), tr)
	if uncaptured[tr.Type] {
		return indented(t, e.Data()) + "\n"
	}
	return string(captured(t, e.Type()))
}

// The page shows what this code sends: a captured event and a rendered one have the same fields.
func TestCapturedEventsMatchRenderedOnes(t *testing.T) {
	for _, tr := range story() {
		if uncaptured[tr.Type] {
			continue
		}
		e := render(t, profile(Version05), tr)
		data := captured(t, e.Type())
		s, err := schemaOf(Version05, e.Type())
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(doc); err != nil {
			t.Errorf("%s: %v", e.Type(), err)
		}
		got, want := fields(t, data), fields(t, e.Data())
		if strings.HasPrefix(e.Type(), "dev.cdeventsx.stateful-cluster.") {
			// Captured from a runtime that reports less, and without pipeline annotations.
			want = slices.DeleteFunc(want, func(f string) bool { return !slices.Contains(got, f) })
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: only captured: %q, only rendered: %q", e.Type(), without(got, want), without(want, got))
		}
	}
}

func without(all, known []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(f string) bool { return slices.Contains(known, f) })
}

// fields returns the paths of all values of a JSON document.
func fields(t *testing.T, data []byte) []string {
	t.Helper()
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	paths := map[string]bool{}
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, inside := range v {
				walk(at+"."+name, inside)
			}
		case []any:
			for _, inside := range v {
				walk(at+"[]", inside)
			}
		default:
			paths[at] = true
		}
	}
	walk("", v)
	return slices.Sorted(maps.Keys(paths))
}
