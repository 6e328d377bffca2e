// SPDX-License-Identifier: Apache-2.0

package doorbell

import (
	"slices"
	"strings"
	"testing"
)

func TestDecodePage(t *testing.T) {
	for name, c := range map[string]struct {
		text, version, rest, wrong string
		names                      []string
	}{
		"as the API server writes it": {
			text:    `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"7","continue":"x","remainingItemCount":3},"items":[{"kind":"PartialObjectMetadata","metadata":{"name":"a"}},{"metadata":{"name":"b","managedFields":[{"fieldsV1":{"f:x":{}}}]}}]}`,
			version: "7", rest: "x", names: []string{"a", "b"},
		},
		"none":                          {text: `{"metadata":{"resourceVersion":"7"},"items":null}`, version: "7"},
		"none, as an array":             {text: `{"metadata":{"resourceVersion":"7"},"items":[]}`, version: "7"},
		"without a version":             {text: `{"metadata":{},"items":[]}`, wrong: "no resourceVersion"},
		"cut off":                       {text: `{"metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a"}},`, wrong: "EOF", version: "7", names: []string{"a"}},
		"an object instead of a list":   {text: `{"metadata":{"resourceVersion":"7"},"items":{}}`, wrong: "an array was expected", version: "7"},
		"something else than an object": {text: `[]`, wrong: "expected"},
		"nothing":                       {text: ``, wrong: "EOF"},
	} {
		var names []string
		p, err := decodePage(strings.NewReader(c.text), func(o *Object) { names = append(names, o.Metadata.Name) })
		if c.wrong == "" && err != nil || c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)) {
			t.Errorf("%s: got error %v, want %q", name, err, c.wrong)
		}
		if !slices.Equal(names, c.names) || p.Metadata.ResourceVersion != c.version || p.Metadata.Continue != c.rest {
			t.Errorf("%s: got %v, %+v", name, names, p)
		}
	}
}

func TestNewer(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{{"9", "10", false}, {"10", "9", true}, {"9", "9", false}, {"9", "", true}, {"x", "9", true}, {"", "", true}} {
		if got := newer(c.a, c.b); got != c.want {
			t.Errorf("%q is newer than %q: %v", c.a, c.b, got)
		}
	}
}
