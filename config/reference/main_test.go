// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

func TestFields(t *testing.T) {
	t.Parallel()
	const schema = `
type: object
required: [sink]
properties:
  sink: {type: string, description: "Where to | from", maxLength: 5}
  wait: {type: string, format: duration, description: "How long\n  to wait", default: 1m}
  ratio: {type: number, minimum: 0, exclusiveMinimum: true, maximum: 1000000000}
  list:
    type: array
    maxItems: 3
    items: {type: object, properties: {name: {type: string, enum: [a, b]}}}
  labels: {type: object, additionalProperties: {type: string}}
  rule: {type: object, default: {}, description: "One, or the other", x-kubernetes-validations: [{rule: "true", message: "it has both"}]}
  known: {type: boolean, default: false, description: "Whether it is known. Defaults to false."}
`
	want := []string{
		"| `known` | boolean | Whether it is known. Defaults to false. |",
		"| `labels` | map of string |  |",
		"| `list` | list of object | At most 3 items. |",
		"| `list[].name` | string | One of `a`, `b`. |",
		"| `ratio` | number | More than 0. At most 1000000000. |",
		"| `rule` | object | One, or the other. |",
		`| ` + "`sink`" + ` | string | Where to \| from. Required. At most 5 characters. |`,
		"| `wait` | duration | How long to wait. Default: `\"1m\"`. |",
	}
	var s apiextensionsv1.JSONSchemaProps
	if err := yaml.UnmarshalStrict([]byte(schema), &s); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	fields(&out, "", &s)
	if got := strings.TrimSpace(out.String()); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}
