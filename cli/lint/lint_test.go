// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func lint(text string) *Linter {
	l := &Linter{System: "knative-cdevents"}
	l.Read("a.yaml", []byte(text))
	return l
}

const (
	gateHead   = "apiVersion: knative-cdevents.dev/v1alpha1\nkind: CanaryGate\nmetadata: {name: g}\n"
	sourceHead = "apiVersion: knative-cdevents.dev/v1alpha1\nkind: CDEventSource\nmetadata: {name: s, namespace: shop}\n"
	configHead = "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: knative-cdevents, name: "
	runHead    = "apiVersion: tekton.dev/v1beta1\nkind: CustomRun\nmetadata: {name: r}\nspec:\n  customRef: {apiVersion: knative-cdevents.dev/v1alpha1, kind: CanaryGate, name: g}\n"
)

func TestProblems(t *testing.T) {
	for _, c := range []struct {
		name, text string
		line       int
		field      string
		what       string
	}{
		{"an unknown field", gateHead + "spec:\n  service: cart\n  shedule: {timeout: 1h}\n", 6, "spec.shedule", "this field does not exist; did you mean schedule?"},
		{"an unknown field of a part", gateHead + "spec:\n  service: cart\n  metrics:\n    - type: ErrorRate\n      treshold: 1s\n", 8, "spec.metrics[0].treshold", "did you mean threshold?"},
		{"a field beside the spec", gateHead + "specs:\n  service: cart\nspec: {service: cart}\n", 4, "specs", "did you mean spec?"},
		{"no such type", gateHead + "spec:\n  service: cart\n  metrics:\n    - type: EntryErrors\n    - type: Errors\n", 8, "spec.metrics[1].type", "ErrorRate"},
		{"no such duration", gateHead + "spec:\n  service: cart\n  schedule:\n    timeout: 1d\n", 7, "spec.schedule.timeout", "is not a duration"},
		{"no time to judge", gateHead + "spec:\n  service: cart\n  schedule:\n    timeout: 2m\n", 7, "spec.schedule.timeout", "it must be longer than warmup"},
		{"no service", gateHead + "spec: {}\n", 4, "spec.service", "the name of a Knative Service"},
		{"the wrong type", gateHead + "spec:\n  service: cart\n  watch: yes please\n", 6, "spec.watch", "it "},
		{"no such kind", strings.Replace(gateHead, "CanaryGate", "CanaryGates", 1), 2, "kind", "did you mean CanaryGate.v1alpha1?"},
		{"no such version", strings.Replace(gateHead, "v1alpha1", "v1beta1", 1), 2, "kind", "knative-cdevents.dev/v1beta1 has no kind CanaryGate; did you mean CanaryGate.v1alpha1?"},
		{"no name", "apiVersion: knative-cdevents.dev/v1alpha1\nkind: CanaryGate\nspec: {service: cart}\n", 1, "metadata", "set metadata.name"},

		{"no such name", strings.Replace(gateHead, "name: g", "name: My_Gate", 1) + "spec: {service: cart}\n", 3, "metadata.name", "\"My_Gate\" is not a name: a lowercase RFC 1123 subdomain"},
		{"a path as sink", sourceHead + "spec:\n  sink:\n    uri: /events\n", 6, "spec.sink.uri", "http://HOST/PATH"},
		{"another's sink", sourceHead + "spec:\n  sink:\n    ref: {apiVersion: v1, kind: Service, name: a, namespace: bank}\n", 6, "spec.sink.ref", "only to objects in its own namespace"},
		{"others' events", sourceHead + "spec:\n  namespaceSelector: {}\n  sink: {uri: http://sink}\n", 5, "spec.namespaceSelector", "is allowed only for sources in namespace knative-cdevents"},
		{"a wrong expression", sourceHead + "spec:\n  sink: {uri: http://sink}\n  filters:\n    - cesql: 1 + 1\n", 7, "spec.filters[0]", ""},
		{"no such replay", sourceHead + "spec:\n  sink: {uri: http://sink}\n  replay: All\n", 6, "spec.replay", "it must be one of None, Current"},
		{"in a list", "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimSpace(sourceHead), "\n", "\n  ") + "\n  spec: {}\n", 7, "spec.sink", ""},
		{"in a list of its kind", strings.Replace(strings.Split(gateHead, "metadata")[0], "Gate", "GateList", 1) + "items:\n- metadata: {name: g}\n  spec: {servise: x}\n", 5, "spec.servise", "did you mean service?"},
		{"another time in a list", "a: &g {apiVersion: knative-cdevents.dev/v1alpha1, kind: CanaryGate, metadata: {name: g}, spec: {servise: x}}\nkind: List\nitems: [*g]\n", 1, "spec.servise", "did you mean service?"},
		{"a word that kubectl reads as a boolean", gateHead + "spec:\n  service: on\n", 5, "spec.service", "it must be"},
		{"in the second document", "---\n# nothing\n---\n" + sourceHead + "spec: {sink: {uri: /a}}\n", 7, "spec.sink.uri", ""},
		{"JSON", `{"apiVersion": "knative-cdevents.dev/v1alpha1", "kind": "CDEventSource", "metadata": {"name": "s"},` + "\n" + `"spec": {"sinks": {}}}`, 2, "spec.sinks", "did you mean sink?"},

		{"an annotation of the Service", "apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata:\n  name: cart\n  annotations:\n    cdevents.knative-cdevents.dev/comit-sha: abc\n", 6, "metadata.annotations[cdevents.knative-cdevents.dev/comit-sha]", "did you mean cdevents.knative-cdevents.dev/commit-sha?"},
		{"a cluster in the wrong place", "apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata:\n  name: cart\n  annotations:\n    stateful.knative-cdevents.dev/runtime: pekko\n", 6, "metadata.annotations[stateful.knative-cdevents.dev/runtime]", "move it to spec.template.metadata.annotations"},
		{"no such runtime", "apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {name: cart}\nspec:\n  template:\n    metadata:\n      annotations:\n        stateful.knative-cdevents.dev/runtime: erlang\n", 8, "spec.template.metadata.annotations[stateful.knative-cdevents.dev/runtime]", `it is "erlang"; it must be one of akka`},
		{"a label of the namespace", "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: shop\n  labels:\n    cdevents.knative-cdevents.dev/enviroment: prod\n", 6, "metadata.labels[cdevents.knative-cdevents.dev/enviroment]", "did you mean cdevents.knative-cdevents.dev/environment?"}, //nolint:misspell // on purpose
		{"no such setting", configHead + "config-cdevents}\ndata:\n  incident-outage: 1m\n", 5, "data[incident-outage]", "are not settings"},
		{"a wrong setting", configHead + "config-cdevents}\ndata:\n  incident-outage-after: soon\n", 5, "data[incident-outage-after]", "must be a duration such as 10s"},
		{"a wrong interval", configHead + "config-canary}\ndata:\n  scrape-interval: often\n", 5, "data[scrape-interval]", "must be a duration such as 15s"},
		{"no such setting of a canary", configHead + "config-canary}\ndata:\n  scrape-intervall: 15s\n", 5, "data[scrape-intervall]", "is not a setting; the settings are"},
		{"a wrong query", configHead + "config-canary}\ndata:\n  prometheus-url: http://p\n  query.q: |\n    total: 1\n    bad: rate(x)\n", 6, "data[query.q]", "bad: it is not valid PromQL"},
		{"a wrong mapping", configHead + "config-canary}\ndata:\n  mapping.x: \"rules: []\"\n", 5, "data[mapping.x]", "1 to 32"},
		{"no address of Prometheus", configHead + "config-canary}\ndata: {query.q: \"\"}\n", 4, "data", "prometheus-url is missing"},
		{"no log level", configHead + "config-logging}\ndata:\n  loglevel.controller: loud\n", 4, "data", "invalid logging level"},
		{"a changed example", configHead + "config-canary, annotations: {knative.dev/example-checksum: abc}}\ndata:\n  _example: a\n", 5, "data[_example]", "copy the setting out of it"},
		{"a gate in a CustomRun", "apiVersion: tekton.dev/v1beta1\nkind: CustomRun\nmetadata: {generateName: judge-}\nspec:\n  customSpec:\n    apiVersion: knative-cdevents.dev/v1alpha1\n    kind: CanaryGate\n    spec:\n      service: cart\n      failOn: [Warn]\n", 10, "spec.customSpec.spec.failOn", "it must contain Fail"},
		{"a gate in a Pipeline", "apiVersion: tekton.dev/v1\nkind: Pipeline\nmetadata: {name: p}\nspec:\n  tasks:\n    - name: judge\n      taskSpec:\n        apiVersion: knative-cdevents.dev/v1alpha1\n        kind: CanaryGate\n        spec: {servise: cart}\n", 10, "spec.tasks[0].taskSpec.spec.servise", "did you mean service?"},
		{"a param of a CustomRun", runHead + "  params:\n    - {name: dry-run, value: true}\n    - {name: timeout, value: 5m5m}\n", 8, "spec.params[1]", "each of h, m, s and ms at most once"},
		{"a param that does not exist", runHead + "  params:\n    - {name: time-out, value: $(params.timeout)}\n", 7, "spec.params[0]", "the params are baseline, canary,"},
		{"a param with a list", runHead + "  params:\n    - name: fail-on\n      value: [Fail]\n", 8, "spec.params[0].value", "must be a string"},
		{"a param in a Pipeline", "apiVersion: tekton.dev/v1\nkind: Pipeline\nmetadata: {name: p}\nspec:\n  finally:\n    - name: judge\n      taskRef: {apiVersion: knative-cdevents.dev/v1alpha1, kind: CanaryGate}\n      params:\n        - {name: min-requests, value: 0}\n", 9, "spec.finally[0].params[0]", "a whole number of at least 1"},
		{"no YAML", "a: [\n", 0, "", "it is not valid YAML"},
		{"a template", "a: {{ .Values.a }}\nb: [\n", 0, "", "render it first"},
	} {
		l := lint(c.text)
		i := slices.IndexFunc(l.Problems, func(p Problem) bool {
			return p.Field == c.field && p.Line == c.line && strings.Contains(p.What, c.what)
		})
		if i < 0 {
			t.Errorf("%s: want %s in line %d with %q, got %+v", c.name, c.field, c.line, c.what, l.Problems)
		}
	}
}

// What is right, and what is not ours, has no problem.
func TestRight(t *testing.T) {
	for _, text := range []string{
		"", "# nothing\n", gateHead + "spec: {service: cart}\n", gateHead + "spec: &s {service: cart}\nstatus: {}\n",
		sourceHead + "spec:\n  sink: {uri: http://sink}\n  ceOverrides: {extensions: {team: a}}\n  selector: {matchLabels: {a: b}}\n",
		strings.Replace(sourceHead, ", namespace: shop", "", 1) + "spec:\n  namespaceSelector: {}\n  sink: {ref: {apiVersion: v1, kind: Service, name: a, namespace: bank}}\n",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: config-cdevents, namespace: other}\ndata: {a: b}\n",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: config-logging}\ndata: {loglevel.a: loud}\n",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {1: a, yes: b}\n", gateHead + "spec: {service: cart, watch: yes}\n",
		gateHead + "spec: {service: cart, canary: \"on\"}\n", strings.Replace(gateHead, "{name: g}", "{name: g, labels: {since: 2026-11-28}}", 1) + "spec: {service: cart}\n",
		"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {templates: []}\n",
		runHead + "  params: [{name: timeout, value: 20m}, {name: canary, value: \"\"}, {name: min-requests, value: $(params.least)}, {name: dry-run, value: true}]\n",
		strings.Replace(runHead, "knative-cdevents.dev/v1alpha1", "example.com/v1", 1) + "  params: [{name: timeout, value: 5m5m}, {name: more, value: [a]}]\n",
		"apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {name: cart, labels: {knative-cdevents.dev/rollout: progressive}}\n",
	} {
		if l := lint(text); len(l.Problems) > 0 {
			t.Errorf("%s\nhas problems %+v", text, l.Problems)
		}
	}
}

// The manifests of this repository are right.
func TestOwnManifests(t *testing.T) {
	l := &Linter{System: "knative-cdevents"}
	for _, dir := range []string{"config/samples", "config/tekton", "config/recipes", "config/optional", "config"} {
		err := filepath.WalkDir(filepath.Join("..", "..", dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".yaml" {
				return err
			}
			raw, err := os.ReadFile(path) //nolint:gosec // a file of this repository
			if err != nil {
				return err
			}
			l.Read(path, raw)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(l.Problems) > 0 || l.Checked < 5 {
		t.Errorf("%d of %d objects were checked: %+v", l.Checked, l.Objects, l.Problems)
	}
}

func TestNearest(t *testing.T) {
	known := []string{"schedule", "service", "score"}
	for word, want := range map[string]string{"shedule": "schedule", "Service": "service", "zebra": "", "x": ""} {
		if got := nearest(word, known); got != want {
			t.Errorf("%s is near %q, want %q", word, got, want)
		}
	}
}

// What makes kubectl refuse an object is told on one line.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	for manifest, want := range map[string]string{
		"kind: CanaryGate\nmetadata: {name: a}\n":                                                     "it has no apiVersion; set knative-cdevents.dev/v1alpha1",
		"apiVersion: knative-cdevents.dev/v1alpha1\nkind: CanaryGate\nspec: {}\nspec: {service: a}\n": `it cannot be read: line 4: mapping key "spec" already defined at line 3`,
	} {
		l := &Linter{}
		l.Read("a.yaml", []byte(manifest))
		if len(l.Problems) != 1 || l.Problems[0].What != want {
			t.Errorf("%q: %+v, want %q", manifest, l.Problems, want)
		}
	}
}
