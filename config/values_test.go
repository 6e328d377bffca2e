// SPDX-License-Identifier: Apache-2.0

package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// others are values that are not ours, or no words: those of eventing's delivery, numbers, and the value of an annotation
// that members of a cluster read. docs/api.md says so.
var others = []string{
	"CDEventSource spec.delivery.backoffPolicy linear", "CDEventSource spec.delivery.backoffPolicy exponential",
	"CDEventSource spec.delivery.format binary", "CDEventSource spec.delivery.format json",
	"CDEventSource spec.cdevents.version 0.5", "CDEventSource spec.cdevents.version 0.4",
	"ShardPlacement status.mode enforce", "ShardPlacement status.mode observe",
}

var camelCase = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)

// Our own values are in CamelCase, as those of Kubernetes.
func TestValuesAreInCamelCase(t *testing.T) {
	t.Parallel()
	n, seen := 0, map[string]bool{}
	var look func(kind, path string, p *apiextensionsv1.JSONSchemaProps)
	look = func(kind, path string, p *apiextensionsv1.JSONSchemaProps) {
		for _, raw := range p.Enum {
			value := strings.Trim(string(raw.Raw), `"`)
			at := kind + " " + strings.TrimPrefix(path, ".") + " " + value
			n++
			switch {
			case strings.HasSuffix(path, ".threshold"): // a duration
			case slices.Contains(others, at):
				seen[at] = true
			case !camelCase.MatchString(value):
				t.Errorf("%s is not in CamelCase", at)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(p.Properties)) {
			field := p.Properties[name]
			look(kind, path+"."+name, &field)
		}
		if p.Items != nil && p.Items.Schema != nil {
			look(kind, path+"[]", p.Items.Schema)
		}
		if p.AdditionalProperties != nil && p.AdditionalProperties.Schema != nil {
			look(kind, path+".*", p.AdditionalProperties.Schema)
		}
	}
	for _, c := range of[*apiextensionsv1.CustomResourceDefinition](t) {
		look(c.Spec.Names.Kind, "", c.Spec.Versions[0].Schema.OpenAPIV3Schema)
	}
	if n < 50 || len(seen) != len(others) {
		t.Errorf("looked at %d values, and of the others only at %v", n, slices.Sorted(maps.Keys(seen)))
	}
}
