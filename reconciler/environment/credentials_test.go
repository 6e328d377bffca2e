// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/knative-cdevents/knative-cdevents/emitter/cdevents"
)

// fromYAML returns an object.
func fromYAML(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return u
}

// secretive are objects of all forms, with every field that is read.
var secretive = []string{`
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: a, namespace: b, annotations: {ANNOTATION: x}}
spec:
  controlPlaneEndpoint: {host: x, port: 443}
  topology: {classRef: {name: x}, version: x, workers: {machineDeployments: [{name: x}], machinePools: [{name: x}]}}
status: {conditions: [{type: Available, status: "False", reason: x, message: x}, {type: ControlPlaneAvailable, status: "False", reason: x, message: x}]}
`, `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: a, namespace: b}
spec: {controlPlaneRef: {apiGroup: x.y, kind: x, name: x}}
`, `
apiVersion: platform.example.com/v1
kind: TeamCluster
metadata: {name: a, namespace: b}
spec: {region: x, version: x, parameters: {region: x, version: x}, crossplane: {compositionRef: {name: x}}, resourceRefs: [{apiVersion: x/y, kind: x, name: x, namespace: x}], resourceRef: {apiVersion: x/y, kind: x, name: x}}
status: {version: x, region: x, endpoint: x, url: x, address: {url: x}, conditions: [{type: Ready, status: "False", reason: x, message: x}, {type: Synced, status: "False", reason: x, message: x}]}
`, `
apiVersion: eks.aws.upbound.io/v1beta1
kind: Cluster
metadata: {name: a}
spec: {forProvider: {region: x, version: x}}
status: {atProvider: {endpoint: x, version: x, location: x}, conditions: [{type: Ready, status: "False", reason: x, message: x}]}
`}

// Wherever a secret stands in an object, nothing is kept of it.
func TestNoEnvironmentIsKeptWithCredentials(t *testing.T) {
	t.Parallel()
	const secret = "64_S3cretJobToken"
	for _, text := range []string{
		"https://user:" + secret + "@prod.example.com", "https://" + secret + "@prod.example.com",
		"user:" + secret + "@prod.example.com/x",
		"prod.example.com/?access_token=" + secret,
		"https://prod.example.com/" + strings.Repeat("x", 150) + "?token=" + secret,
		"failed: Get \"https://u:" + secret + "@example.com/\": 401",
	} {
		for _, object := range secretive {
			u := fromYAML(t, strings.ReplaceAll(object, "ANNOTATION", cdevents.AnnotationRepository))
			planted := 0
			eachText(u.Object, func(set func(string)) {
				set(text)
				for _, composite := range []bool{false, true} {
					v := projector{carried: cdevents.CarriedAnnotations(), composite: composite}.project(u)
					raw, err := json.Marshal(v)
					if kept := string(raw) + fmt.Sprintf("%+v", v); err != nil || strings.Contains(kept, secret) {
						t.Errorf("%q is kept as %s, %v", text, kept, err)
					}
				}
				planted++
				set("x")
			})
			if planted < 2 {
				t.Errorf("planted %d times", planted)
			}
		}
	}
}

// eachText calls visit for each "x" in what was decoded from JSON.
func eachText(v any, visit func(set func(string))) {
	switch t := v.(type) {
	case map[string]any:
		for k := range t {
			if t[k] == "x" {
				visit(func(s string) { t[k] = s })
			} else {
				eachText(t[k], visit)
			}
		}
	case []any:
		for i := range t {
			eachText(t[i], visit)
		}
	}
}
