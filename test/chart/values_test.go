// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func pod(t *testing.T, all objects, name string) map[string]any {
	t.Helper()
	u := all["Deployment/"+namespace+"/"+name]
	if u == nil {
		u = all["Deployment/delivery/"+name]
	}
	spec, found, err := unstructured.NestedMap(u.Object, "spec", "template", "spec")
	if err != nil || !found {
		t.Fatal(name, err)
	}
	return spec
}

func container(t *testing.T, all objects, name string) map[string]any {
	t.Helper()
	list, ok := pod(t, all, name)["containers"].([]any)
	if !ok || len(list) != 1 {
		t.Fatalf("%s has %d containers", name, len(list))
	}
	only, ok := list[0].(map[string]any)
	if !ok {
		t.Fatalf("%s has a container that is no object", name)
	}
	return only
}

var programs = []string{"controller", "webhook", "sidecar-injector"}

// Registries and tags replace what they say, of every image.
func TestImages(t *testing.T) {
	t.Parallel()
	const digest = "@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	images := "images:\n  controller: ghcr.example/x/controller" + digest +
		"\n  webhook: ghcr.example:5000/x/webhook:v1" + digest + "\n"
	for given, want := range map[string][2]string{
		"":                           {"ghcr.example/x/controller" + digest, "ghcr.example:5000/x/webhook:v1" + digest},
		"image: {tag: v2}":           {"ghcr.example/x/controller:v2", "ghcr.example:5000/x/webhook:v2"},
		"image: {registry: r:5000/}": {"r:5000/controller" + digest, "r:5000/webhook:v1" + digest},
		"image: {registry: mirror.example.com/a/b, tag: v2}": {
			"mirror.example.com/a/b/controller:v2", "mirror.example.com/a/b/webhook:v2",
		},
	} {
		all := rendered(t, images+given)
		for i, name := range programs[:2] {
			if got := container(t, all, name)["image"]; got != want[i] {
				t.Errorf("%s: %s", given, got)
			}
		}
	}
	all := rendered(t, `
sidecar: {enabled: true}
tekton: {namespaces: [shop]}
image: {registry: mirror.example.com, pullPolicy: Always}
imagePullSecrets: [{name: pull}]
`)
	for name, u := range all {
		if text := fmt.Sprint(u.Object); strings.Contains(text, "ko://") {
			t.Errorf("%s names an image of another registry: %s", name, text)
		}
	}
	for _, name := range programs {
		secrets := fmt.Sprint(pod(t, all, name)["imagePullSecrets"])
		if container(t, all, name)["imagePullPolicy"] != "Always" || secrets != "[map[name:pull]]" {
			t.Errorf("%s: %s", name, secrets)
		}
	}
}

// What a program can be given reaches its pods, and no other ones.
func TestPods(t *testing.T) {
	t.Parallel()
	const given = `
  replicas: 5
  resources: {requests: {memory: 1Gi}}
  nodeSelector: {disk: ssd}
  tolerations: [{key: infra, operator: Exists}]
  affinity: {nodeAffinity: {}}
  topologySpreadConstraints: []
  priorityClassName: system-cluster-critical
  podAnnotations: {example.com/a: b}
  env: [{name: GOGC, value: "50"}]
`
	plainly := rendered(t, "sidecar: {enabled: true}")
	for _, name := range programs {
		value, more := name, ""
		if name == "sidecar-injector" {
			value, more = "sidecar", "  enabled: true\n"
		}
		text := value + ":" + given + more
		if name != "sidecar-injector" {
			text += "sidecar: {enabled: true}\n"
		}
		all := rendered(t, text)
		for _, other := range programs {
			spec := pod(t, all, other)
			if other != name {
				compare(t, other, objects{"": {Object: pod(t, plainly, other)}}, objects{"": {Object: spec}})
				continue
			}
			c := container(t, all, name)
			got := fmt.Sprint(spec["nodeSelector"], spec["tolerations"], spec["affinity"],
				spec["topologySpreadConstraints"], ", ", spec["priorityClassName"])
			want := "map[disk:ssd] [map[key:infra operator:Exists]] map[nodeAffinity:map[]] [], system-cluster-critical"
			if memory, _, _ := unstructured.NestedString(c, "resources", "requests", "memory"); memory != "1Gi" {
				t.Errorf("%s: %v", name, c["resources"])
			}
			if got != want {
				t.Errorf("%s: %s", name, got)
			}
			u := all["Deployment/"+namespace+"/"+name]
			a, _, _ := unstructured.NestedStringMap(u.Object, "spec", "template", "metadata", "annotations")
			if a["example.com/a"] != "b" {
				t.Errorf("%s: annotations %v", name, a)
			}
			if n, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "replicas"); fmt.Sprint(n) != "5" {
				t.Errorf("%s: %v replicas", name, n)
			}
			if env := fmt.Sprint(c["env"]); !strings.Contains(env, "map[name:GOGC value:50]") {
				t.Errorf("%s: %s", name, env)
			}
		}
	}
}

func data(t *testing.T, all objects, name string) map[string]string {
	t.Helper()
	out, _, err := unstructured.NestedStringMap(all["ConfigMap/"+namespace+"/"+name].Object, "data")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A key replaces the one of the manifest, and the others stay. There are as many buckets as replicas.
func TestConfig(t *testing.T) {
	t.Parallel()
	all := rendered(t, `
controller: {replicas: 12}
config:
  cdevents: {cluster-uri: "https://clusters.example.com/eu-1"}
  canary: {mapping.cloudstate: "runtimes: [cloudstate]\nrules: []\n", scrape-interval: 30s}
  observability: {metrics-protocol: grpc, metrics-endpoint: "collector:4317"}
  leaderElection: {lease-duration: 20s}
`)
	shipped := rendered(t, "")
	for name, want := range map[string]map[string]string{
		"config-cdevents":        {"cluster-uri": "https://clusters.example.com/eu-1"},
		"config-canary":          {"mapping.cloudstate": "runtimes: [cloudstate]\nrules: []\n", "scrape-interval": "30s"},
		"config-observability":   {"metrics-protocol": "grpc", "metrics-endpoint": "collector:4317"},
		"config-leader-election": {"lease-duration": "20s", "buckets": "10"},
		"config-logging":         {},
	} {
		expected := data(t, shipped, name)
		for key, value := range want {
			expected[key] = value
		}
		if got := data(t, all, name); fmt.Sprint(got) != fmt.Sprint(expected) {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := data(t, rendered(t, "controller: {replicas: 0}"), "config-leader-election")["buckets"]; got != "1" {
		t.Errorf("%s buckets", got)
	}
}

// Replicas that divide the Services into different numbers of buckets would lead the same ones.
func TestElectionsRestartTheController(t *testing.T) {
	t.Parallel()
	shipped := elections(t, rendered(t, ""))
	for given, same := range map[string]bool{
		"controller: {podAnnotations: {a: b}}":         true,
		"controller: {replicas: 3}":                    true,
		"controller: {replicas: 5}":                    false,
		"config: {leaderElection: {buckets: '4'}}":     false,
		"config: {leaderElection: {retry-period: 1s}}": false,
	} {
		if got := elections(t, rendered(t, given)); (got == shipped) != same {
			t.Errorf("%s: the controller's checksum is the same: %t, want %t", given, got == shipped, same)
		}
	}
}

// What users give replaces what the manifest has. Nothing is there twice: Flux and kustomize refuse such YAML, and the
// API server refuses such variables.
func TestValuesReplaceTheManifest(t *testing.T) {
	t.Parallel()
	all := rendered(t, `
sidecar: {enabled: true, env: [{name: WEBHOOK_NAME, value: other}]}
webhook: {env: [{name: NO_PROXY, value: everything}]}
controller: {env: [{name: GOMEMLIMIT, value: 500MiB}, {name: GOGC, value: "50"}]}
proxy: {httpProxy: "http://proxy.example.com:3128"}
monitoring:
  podMonitors: {enabled: true, labels: {app.kubernetes.io/component: x}, endpoint: {port: x, interval: 30s, scheme: https}}
  rules: {enabled: true, labels: {app.kubernetes.io/name: x}}
  dashboards: {enabled: true, labels: {grafana_dashboard: "true"}}
`)
	for program, want := range map[string]string{
		"controller":       "map[name:GOMEMLIMIT value:500MiB]",
		"webhook":          "map[name:NO_PROXY value:everything]",
		"sidecar-injector": "map[name:WEBHOOK_NAME value:other]",
	} {
		env, _, err := unstructured.NestedSlice(container(t, all, program), "env")
		if err != nil {
			t.Fatal(err)
		}
		seen := map[any]bool{}
		for _, v := range env {
			one, _ := v.(map[string]any)
			if seen[one["name"]] {
				t.Errorf("%s has the variable %s twice", program, one["name"])
			}
			seen[one["name"]] = true
		}
		if text := fmt.Sprint(env); !strings.Contains(text, want) || !seen["POD_NAME"] || !seen["HTTP_PROXY"] {
			t.Errorf("%s: %s, want %s", program, text, want)
		}
	}
	for _, name := range programs {
		u := all["PodMonitor/"+namespace+"/"+name]
		if got := fmt.Sprint(u.Object["spec"]); !strings.Contains(got, "[map[interval:30s port:metrics scheme:https]]") {
			t.Errorf("PodMonitor %s: %s", name, got)
		}
		if got := u.GetLabels()["app.kubernetes.io/component"]; got != "x" {
			t.Errorf("PodMonitor %s: component %s", name, got)
		}
	}
	if got := all["PrometheusRule/"+namespace+"/knative-cdevents"].GetLabels()["app.kubernetes.io/name"]; got != "x" {
		t.Errorf("rules: name %s", got)
	}
	if got := all["ConfigMap/"+namespace+"/knative-cdevents-dashboards"].GetLabels()["grafana_dashboard"]; got != "true" {
		t.Errorf("dashboards: %s", got)
	}
}

// Helm deletes what is null, also defaults.
func TestNullIsTheDefault(t *testing.T) {
	t.Parallel()
	const all = "sidecar: {enabled: true}\nproxy: {httpProxy: 'http://proxy.example.com:3128'}\n"
	compare(t, "null", rendered(t, all+`
monitoring: {podMonitors: {enabled: true}, rules: {enabled: true}, dashboards: {enabled: true}}
`), rendered(t, all+`
controller: {env: null, podAnnotations: null}
monitoring:
  podMonitors: {enabled: true, labels: null, endpoint: null}
  rules: {enabled: true, labels: null}
  dashboards: {enabled: true, labels: null}
config: {leaderElection: null, cdevents: null, canary: null, logging: null, observability: null, sidecars: null}
`))
}

// A chart that depends on this one turns it off by a condition, as "condition: knative-cdevents.enabled".
func TestChartOfCharts(t *testing.T) {
	t.Parallel()
	compare(t, "enabled", core(t), rendered(t, "enabled: true"))
}

// The API server and the cluster's own names are reached without the proxy.
func TestProxy(t *testing.T) {
	t.Parallel()
	all := rendered(t, "proxy: {httpsProxy: 'http://proxy.example.com:3128', noProxy: 10.0.0.0/8}\nsidecar: {enabled: true}")
	for _, name := range programs {
		env := fmt.Sprint(container(t, all, name)["env"])
		for _, want := range []string{
			"map[name:HTTPS_PROXY value:http://proxy.example.com:3128]",
			"map[name:NO_PROXY value:$(KUBERNETES_SERVICE_HOST),.svc,.cluster.local,10.0.0.0/8]",
		} {
			if !strings.Contains(env, want) {
				t.Errorf("%s: %s", name, env)
			}
		}
	}
}

// What definitions are left out is not rendered, and what is not kept has no annotation.
func TestDefinitions(t *testing.T) {
	t.Parallel()
	for given, want := range map[string][2]int{"install: false": {0, 0}, "keep: false": {1, 0}, "install: true": {1, 1}} {
		var found, kept int
		for _, u := range rendered(t, "crds: {"+given+"}") {
			if u.GetKind() == "CustomResourceDefinition" {
				found++
				if u.GetAnnotations()["helm.sh/resource-policy"] == "keep" {
					kept++
				}
			}
		}
		if (found > 0) != (want[0] > 0) || (kept > 0) != (want[1] > 0) || kept > 0 && kept != found {
			t.Errorf("%s: %d definitions, %d kept", given, found, kept)
		}
	}
}

// The schema says where a value is wrong, and what would be right.
func TestSchemaRefuses(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"contoller: {replicas: 3}":                 `additional properties 'contoller' not allowed`,
		"controller: {replica: 3}":                 `'/controller': additional properties 'replica' not allowed`,
		"controller: {replicas: three}":            `'/controller/replicas': got string, want integer`,
		"controller: {replicas: -1}":               `'/controller/replicas': minimum: got -1, want 0`,
		"config: {canary: {scrape-interval: 30}}":  `'/config/canary/scrape-interval': got number, want string`,
		"image: {registry: 'https://example.com'}": `'/image/registry'`,
		"image: {pullPolicy: Sometimes}":           `'/image/pullPolicy': value must be one of '', 'Always', 'IfNotPresent', 'Never'`,
		"imagePullSecrets: [pull]":                 `'/imagePullSecrets/0': got string, want object`,
		"images: {controller: ''}":                 `'/images/controller'`,
		"sidecar: {enabled: 'yes'}":                `'/sidecar/enabled': got string, want boolean`,
		"networkPolicies: {egressPorts: [0]}":      `'/networkPolicies/egressPorts/0': minimum: got 0, want 1`,
		"webhook: {resources: {limit: {}}}":        `'/webhook/resources': additional properties 'limit' not allowed`,
		"tekton: {namespaces: [a, a]}":             `'/tekton/namespaces'`,
		"monitoring: {enabled: true}":              `'/monitoring': additional properties 'enabled' not allowed`,
	} {
		_, err := render(t, namespace, given)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", given, err)
		}
	}
}

// README lists every value, with its default, and no other one.
func TestReadmeListsTheValues(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(folder + "/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{}
	if err := yaml.Unmarshal(raw, &values); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	leaves("", values, want)
	page, err := os.ReadFile(folder + "/README.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]+`) \\| `?([^|`]*)`? \\|").FindAllStringSubmatch(string(page), -1) {
		for _, name := range strings.Split(row[1], ", ") {
			listed[strings.Trim(name, "`")] = row[2]
		}
	}
	for name, value := range want {
		got, found := listed[name]
		if !found || got != value && got != "…" {
			t.Errorf("README says %q of %s, which is %s", got, name, value)
		}
	}
	for name := range listed {
		if _, ok := want[name]; !ok {
			t.Errorf("README lists %s, which is no value", name)
		}
	}
}

// leaves are the values that are set as one: those that no program has, and what a program has of its own.
func leaves(prefix string, values map[string]any, out map[string]string) {
	for name, value := range values {
		inner, ok := value.(map[string]any)
		if ok && len(inner) > 0 && name != "resources" {
			leaves(prefix+name+".", inner, out)
			continue
		}
		raw, _ := json.Marshal(value)
		out[prefix+name] = string(raw)
	}
}

// The program of each image is named by its value, so that a release can resolve the file with ko.
func TestValuesNamePrograms(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(folder + "/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// The sidecar is a module of its own.
	for _, image := range regexp.MustCompile(`ko://github.com/knative-cdevents/knative-cdevents/(cmd/\S+)`).
		FindAllStringSubmatch(string(raw), -1) {
		if _, err := os.Stat("../../" + image[1] + "/main.go"); err != nil { //nolint:gosec // a program of the repository
			t.Error(err)
		}
	}
}
