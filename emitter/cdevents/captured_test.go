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

// captured is an event of a type in CDEvents 0.5 as a receiver got it from a
// Knative Service on a real cluster, with other names for what is the cluster's.
// They are written anew by
//
//	make e2e RUN='TestLifeOfAService|TestIncidents' E2E_CAPTURE=$PWD/emitter/cdevents/testdata/captured
func captured(t *testing.T, typ string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "captured", typ+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// imagined are the types that nobody has captured yet: the page shows them as they
// are rendered, and says so.
var imagined = map[lifecycle.Type]bool{
	lifecycle.ClusterUnsettled: true, lifecycle.Judged: true,
}

// example is what the page shows of a transition.
func example(t *testing.T, tr lifecycle.Transition) string {
	t.Helper()
	e := render(t, profile(Version05), tr)
	if imagined[tr.Type] {
		return indented(t, e.Data()) + "\n"
	}
	return string(captured(t, e.Type()))
}

// What the page shows is what this code sends: an event that was captured and one
// that is rendered now have the same fields.
func TestCapturedEventsAreAsRendered(t *testing.T) {
	for _, tr := range story() {
		if imagined[tr.Type] {
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
			// It was captured of a runtime that tells less, from a pipeline that says nothing.
			want = slices.DeleteFunc(want, func(f string) bool { return !slices.Contains(got, f) })
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: captured alone was %q, and rendered alone is %q", e.Type(), without(got, want), without(want, got))
		}
	}
}

func without(all, known []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(f string) bool { return slices.Contains(known, f) })
}

// fields are the paths of all values of a JSON document.
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
