// SPDX-License-Identifier: Apache-2.0

package config

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"knative.dev/pkg/apis"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/test/controlplane"
)

// wrongGates are rejected by the API server itself, even without the webhook: the first ones
// because an informer could not even decode them.
var wrongGates = map[string]string{
	"duration":            `"schedule":{"warmup":"soon"}`,
	"duration in days":    `"schedule":{"timeout":"1d"}`,
	"negative duration":   `"schedule":{"warmup":"-5s"}`,
	"endless duration":    `"schedule":{"timeout":"99999999h"}`,
	"duration in years":   `"schedule":{"timeout":"P1Y"}`,
	"duration of months":  `"schedule":{"timeout":"P1M"}`,
	"nothing but a P":     `"schedule":{"timeout":"P"}`,
	"nothing but PT":      `"schedule":{"timeout":"PT"}`,
	"days and a T":        `"schedule":{"timeout":"P1DT"}`,
	"duration as number":  `"schedule":{"warmup":5}`,
	"empty duration":      `"schedule":{"warmup":""}`,
	"requests as text":    `"minimum":{"canaryRequests":"300"}`,
	"half a request":      `"minimum":{"canaryRequests":1.5}`,
	"no requests":         `"minimum":{"canaryRequests":0}`,
	"more than a number":  `"minimum":{"canaryRequests":1e30}`,
	"no shards":           `"minimum":{"shards":0}`,
	"metric without type": `"metrics":[{"name":"a"}]`,
	"unknown metric":      `"metrics":[{"type":"Requests"}]`,
	"threshold":           `"metrics":[{"type":"SlowRequests","threshold":0.3}]`,
	"code":                `"metrics":[{"type":"ClientErrors","ignoreCodes":[500]}]`,
	"odds":                `"metrics":[{"type":"ErrorRate","maxOddsRatio":1}]`,
	"limit":               `"metrics":[{"type":"ErrorRate","limit":1}]`,
	"negligible":          `"metrics":[{"type":"ErrorRate","negligible":0}]`,
	"weight":              `"metrics":[{"type":"ErrorRate","weight":0}]`,
	"critical":            `"metrics":[{"type":"ErrorRate","critical":"no"}]`,
	"eleven metrics":      `"metrics":[` + strings.Repeat(`{"type":"ErrorRate"},`, 10) + `{"type":"ErrorRate"}]`,
	"exposure":            `"exposure":{"minRatio":1}`,
	"large exposure":      `"exposure":{"maxRatio":1}`,
	"too high":            `"exposure":{"tooHigh":"Pass"}`,
	"fails unknown":       `"withoutPast":"Fail"`,
	"too low":             `"exposure":{"tooLow":"Pass"}`,
	"restarts":            `"limits":{"restarts":-1}`,
	"unaccounted":         `"limits":{"unaccountedRatio":1.5}`,
	"alpha":               `"statistics":{"alpha":0.6}`,
	"beta":                `"statistics":{"beta":0}`,
	"score":               `"score":{"pass":101}`,
	"coverage":            `"score":{"minCoverage":50}`,
	"failOn":              `"failOn":["Pass"]`,
	"watch":               `"watch":"yes"`,
}

func gateOf(spec string) *unstructured.Unstructured {
	var object map[string]any
	err := json.Unmarshal([]byte(`{"apiVersion":"knative-cdevents.dev/v1alpha1","kind":"CanaryGate","metadata":{"namespace":"default","generateName":"gate-"},"spec":`+spec+`}`), &object)
	if err != nil {
		panic(fmt.Sprintf("%s: %v", spec, err))
	}
	return &unstructured.Unstructured{Object: object}
}

func TestInvalidGatesAreRejected(t *testing.T) {
	t.Parallel()
	_, validator := schemaOf(t, crd(t, "canarygates"))
	for name, part := range wrongGates {
		if len(validation.ValidateCustomResource(nil, gateOf(`{"service":"cart",`+part+`}`).Object, validator)) == 0 {
			t.Errorf("%s: accepted", name)
		}
	}
	if len(validation.ValidateCustomResource(nil, gateOf(`{}`).Object, validator)) == 0 {
		t.Error("an empty gate is accepted")
	}
	// What the schema accepts can be decoded: otherwise no gate could be listed.
	for _, timeout := range []string{"2m", "1h30m", "90s", "1.5s", "PT2M", "P1D", "P1W", "P1DT12H", "PT1H30M", "PT1.5S", "P999W9999DT999999H999999M999999.999999999S", "999999h999999m999999s999999ms"} {
		g := gateOf(`{"service":"cart","schedule":{"timeout":"` + timeout + `"}}`)
		if errs := validation.ValidateCustomResource(nil, g.Object, validator); len(errs) > 0 {
			t.Errorf("%s: %v", timeout, errs.ToAggregate())
		}
		var read v1alpha1.Duration
		if err := json.Unmarshal([]byte(`"`+timeout+`"`), &read); err != nil || read.Duration <= 0 {
			t.Errorf("%s is %s: %v", timeout, read, err)
		}
	}
	for _, threshold := range v1alpha1.GateThresholds() {
		g := gateOf(fmt.Sprintf(`{"service":"cart","metrics":[{"type":"SlowRequests","threshold":%v}]}`, threshold))
		if errs := validation.ValidateCustomResource(nil, g.Object, validator); len(errs) > 0 {
			t.Errorf("%v: %v", threshold, errs.ToAggregate())
		}
	}
}

// The schema rejects less than the webhook, and nothing else: it accepts a spec with all defaults.
func TestSchemaAcceptsTheDefaults(t *testing.T) {
	t.Parallel()
	_, validator := schemaOf(t, crd(t, "canarygates"))
	spec := v1alpha1.CanaryGateSpec{Service: "cart"}
	spec.SetDefaults(t.Context())
	raw, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	if errs := validation.ValidateCustomResource(nil, gateOf(string(raw)).Object, validator); len(errs) > 0 {
		t.Error(errs.ToAggregate())
	}
}

// This tests what the API server rejects, what it stores and what kubectl shows.
func TestGatesOnARealAPIServer(t *testing.T) {
	cp := controlplane.Start(t)
	ctx := t.Context()
	untyped, err := dynamic.NewForConfig(cp.Config())
	if err != nil {
		t.Fatal(err)
	}
	api := untyped.Resource(v1alpha1.GateResource).Namespace("default")
	for name, part := range wrongGates {
		if _, err := api.Create(ctx, gateOf(`{"service":"cart",`+part+`}`), metav1.CreateOptions{}); !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ours, err := client.New(cp.Config())
	if err != nil {
		t.Fatal(err)
	}
	gates := ours.CanaryGates("default")
	made, err := gates.Create(ctx, &v1alpha1.CanaryGate{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.GateKind.Kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "cart"},
		Spec:       v1alpha1.CanaryGateSpec{Service: "cart"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if made.Spec.Schedule != nil || made.Spec.Metrics != nil {
		t.Errorf("a default was written into a user's object: %+v", made.Spec)
	}
	now := metav1.Now()
	made.Status.Latest = &v1alpha1.GateLatest{
		ID: "r1", StartTime: now, Verdict: verdict.Running, Reasons: "InsufficientSample, BaselineMissing", Message: "200 requests are missing",
		Canary: "cart-00002", Requests: "100", Missing: "200 canary, 5 baseline",
	}
	made.Status.SetConditions(apis.Conditions{{Type: apis.ConditionReady, Status: "False", Reason: "ServiceNotFound"}})
	made.Status.Run = &v1alpha1.GateRun{
		ID: "r1", Service: v1alpha1.GateObject{Name: "cart", UID: "s"}, Canary: v1alpha1.GateObject{Name: "cart-00002", UID: "c"},
		StartTime: now, Deadline: now, Verdict: verdict.Running, Reasons: []string{"InsufficientSample"}, Message: "200 requests are missing",
		Report: &verdict.Judgement{Verdict: verdict.Running, Canary: verdict.Samples{Requests: 100, Missing: 200, Shards: 2}, Score: 7},
	}
	made.Spec.Service = "another"
	kept, err := gates.UpdateStatus(ctx, made, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if kept.Spec.Service != "cart" || kept.Status.Run.Report.Canary.Shards != 2 {
		t.Errorf("%+v %+v", kept.Spec, kept.Status.Run.Report)
	}
	want := []string{"cart cart False ServiceNotFound cart-00002 Running InsufficientSample, BaselineMissing 100 200 canary, 5 baseline 200 requests are missing"}
	if got := shown(ctx, t, cp.Config()); !slices.Equal(got, want) {
		t.Errorf("kubectl shows\n%q\nwant\n%q", got, want)
	}
}

// shown returns the rows that `kubectl get canarygates -o wide` prints, without the age.
func shown(ctx context.Context, t *testing.T, config *rest.Config) []string {
	t.Helper()
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := kube.RESTClient().Get().AbsPath("/apis/knative-cdevents.dev/v1alpha1/namespaces/default/canarygates").
		SetHeader("Accept", "application/json;as=Table;g=meta.k8s.io;v=v1").DoRaw(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var table metav1.Table
	if err := json.Unmarshal(raw, &table); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, row := range table.Rows {
		cells := make([]string, 0, len(row.Cells))
		for _, cell := range row.Cells[:len(row.Cells)-1] {
			cells = append(cells, fmt.Sprint(cell))
		}
		out = append(out, strings.Join(cells, " "))
	}
	return out
}

// The page documents every field, and states the right defaults.
func TestPageDocumentsEveryField(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/gates.md")
	if err != nil {
		t.Fatal(err)
	}
	structural, _ := schemaOf(t, crd(t, "canarygates"))
	fields := 0
	var look func(s schema.Structural)
	look = func(s schema.Structural) {
		for name, p := range s.Properties {
			if fields++; !strings.Contains(string(page), name+"`") {
				t.Errorf("%s is not documented", name)
			}
			look(p)
			if p.Items != nil {
				look(*p.Items)
			}
		}
	}
	spec := structural.Properties["spec"]
	// The groups are documented by their fields.
	for name, p := range spec.Properties {
		if len(p.Properties) > 0 {
			look(p)
		} else {
			look(schema.Structural{Properties: map[string]schema.Structural{name: p}})
		}
	}
	if fields < 30 {
		t.Errorf("checked only %d fields", fields)
	}
	for _, row := range []string{
		"| `schedule.warmup` | `3m` |", "| `schedule.interval` | `15s` |", "| `schedule.minDuration` | `2m` |", "| `schedule.timeout` | `30m` |",
		"| `minimum.canaryRequests`, `.baselineRequests` | `300` |", "| `minimum.shards` | `3` |", "| `metrics[].threshold` | `0.5` |",
		"| `metrics[].maxOddsRatio` | `3` for `ClientErrors`, `1.5` for others |", "| `metrics[].negligible` | `0.005` |", "| `exposure.minRatio`, `.maxRatio` | `0.5`, `2` |",
		"| `limits.restarts` | none |", "| `limits.unaccountedRatio` | `0.01` |", "| `statistics.alpha`, `.beta` | `0.05` |", "| `score.pass`, `.warn` | `90`, `75` |",
		"| `score.minCoverage` | `0.5` |", "| `failOn` | `Fail`, `Error`, `Inconclusive` |",
	} {
		if !strings.Contains(string(page), row) {
			t.Errorf("the page states a different default: %s", row)
		}
	}
}
