// SPDX-License-Identifier: Apache-2.0

package config

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
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

func gateOf(spec string) *unstructured.Unstructured {
	var object map[string]any
	err := json.Unmarshal([]byte(`{"apiVersion":"knative-cdevents.dev/v1alpha1","kind":"CanaryGate","metadata":{"namespace":"default","generateName":"gate-"},"spec":`+spec+`}`), &object)
	if err != nil {
		panic(fmt.Sprintf("%s: %v", spec, err))
	}
	return &unstructured.Unstructured{Object: object}
}

// What is stored counts, whatever a later release has as defaults. What depends on the type of a metric or on another
// field is chosen when a run begins.
func TestSchemaAndGoHaveTheSameDefaults(t *testing.T) {
	t.Parallel()
	structural, validator := schemaOf(t, crd(t, "canarygates"))
	read := func(object any) (spec v1alpha1.CanaryGateSpec) {
		t.Helper()
		raw, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(raw, &spec); err != nil {
			t.Fatal(err)
		}
		return spec
	}
	for _, given := range []string{
		`{"service":"cart"}`,
		`{"service":"cart","schedule":{},"minimum":{},"exposure":{},"limits":{},"statistics":{},"score":{}}`,
		`{"service":"cart","watch":true,"suspend":true,"historyLimit":0,"schedule":{"timeout":"1h"},"minimum":{"shards":5},
			"metrics":[{"type":"SlowRequests","critical":false},{"type":"Query","query":"paid","weight":2,"dryRun":true},{"type":"ErrorRate"}],
			"exposure":{"minRatio":0,"tooLow":"Warn"},"withoutPast":"Warn","limits":{"restarts":0},"statistics":{"alpha":0.1},
			"score":{"warn":10},"failOn":["Fail"]}`,
	} {
		object := gateOf(given).Object
		before := read(object["spec"])
		defaulting.Default(object, structural)
		if errs := validation.ValidateCustomResource(nil, object, validator); len(errs) > 0 {
			t.Errorf("%s: %v", given, errs.ToAggregate())
		}
		stored, counts := read(object["spec"]), before
		counts.SetDefaults(t.Context())
		again := *stored.DeepCopy()
		again.SetDefaults(t.Context())
		if diff := cmp.Diff(counts, again); diff != "" {
			t.Errorf("%s: a run of the stored gate differs (+):\n%s", given, diff)
		}
		counts.Schedule.Warmup = nil
		for i := range counts.Metrics {
			m := &counts.Metrics[i]
			m.Name, m.Threshold, m.MaxOddsRatio = "", nil, nil
		}
		if diff := cmp.Diff(counts, stored); diff != "" {
			t.Errorf("%s: what is stored differs (+):\n%s", given, diff)
		}
	}
}

// A duration that a gate may have is one that a CustomRun may have, which no schema checks, and the other way round.
func TestSchemaAndGoReadTheSameDurations(t *testing.T) {
	t.Parallel()
	_, validator := schemaOf(t, crd(t, "canarygates"))
	for _, text := range []string{
		"0", "0s", "5s", "1h30m", "1h0m0.5s", "0.5h", "1m0.000001ms", "999999h",
		"", "00", "5", "5s5s", "1m1h", ".5s", "5.s", "500us", "500µs", "1ns", "+5s", "-0s", "-0", "-", " 5s", "1h 5m", "1d", "PT5M", "1000000h", "0.0000000001s", "1e3s",
	} {
		object := gateOf(`{"service":"cart","schedule":{"warmup":"` + text + `"}}`).Object
		errs := validation.ValidateCustomResource(nil, object, validator)
		d, err := v1alpha1.ParseDuration(text)
		if (err == nil) != (len(errs) == 0) {
			t.Errorf("%q: the schema says %v, and Go %v", text, errs.ToAggregate(), err)
		}
		if err != nil {
			continue
		}
		raw, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		var again v1alpha1.Duration
		if err := json.Unmarshal(raw, &again); err != nil || again != d {
			t.Errorf("%q is written as %s: %v", text, raw, err)
		}
	}
}

// This tests what the API server refuses without the webhook, what it stores and what kubectl shows.
func TestDefinitionsOnARealAPIServer(t *testing.T) {
	cp := controlplane.Start(t)
	ctx := t.Context()
	untyped, err := dynamic.NewForConfig(cp.Config())
	if err != nil {
		t.Fatal(err)
	}
	t.Run("rules of gates", func(t *testing.T) {
		checkGateRules(t, untyped.Resource(v1alpha1.GateResource).Namespace("default"))
	})
	t.Run("words on durations", func(t *testing.T) {
		for text, field := range map[string]string{"1d": "retryAfterMax", "00": "timeout", "PT2H": "timeout", "soon": "backoffDelay"} {
			_, err := untyped.Resource(v1alpha1.SourceResource).Namespace("default").Create(ctx,
				sourceOf(fmt.Sprintf(`"delivery":{%q:%q}`, field, text)), metav1.CreateOptions{})
			if err == nil || !strings.Contains(err.Error(), "it must be a duration from PT0") || strings.Contains(err.Error(), "evaluating rule") {
				t.Errorf("%s: %v", text, err)
			}
		}
	})
	t.Run("rules of templates", func(t *testing.T) {
		checkTemplateRules(t, untyped.Resource(v1alpha1.TemplateResource))
	})
	t.Run("templates are required", func(t *testing.T) { checkTemplateSamples(t, cp) })
	t.Run("rules of sources", func(t *testing.T) {
		checkSourceRules(t, untyped.Resource(v1alpha1.SourceResource).Namespace("default"))
	})
	t.Run("owners of sources", func(t *testing.T) {
		checkOwners(t, untyped.Resource(v1alpha1.SourceResource).Namespace("default"))
	})
	t.Run("lists are what was applied", func(t *testing.T) {
		checkAppliedLists(t, untyped.Resource(v1alpha1.GateResource).Namespace("default"))
	})
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
	if made.Spec.Schedule.Warmup != nil || made.Spec.Schedule.Timeout.Duration != 30*time.Minute || len(made.Spec.Metrics) != 4 {
		t.Errorf("stored: %+v", made.Spec)
	}
	now := metav1.Now()
	made.Status.Latest = &v1alpha1.GateLatest{
		GateRunSummary: v1alpha1.GateRunSummary{
			ID: "r1", StartTime: now, Verdict: verdict.Running, Reasons: []string{"InsufficientSample", "BaselineMissing"},
			Canary: "cart-00002", Requests: &v1alpha1.GateRequests{Canary: 100},
		}, Message: "200 requests are missing", Missing: &v1alpha1.GateMissing{CanaryRequests: 200},
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
	want := []string{"cart cart False ServiceNotFound false cart-00002 Running InsufficientSample 100 200 200 requests are missing <nil>"}
	if got := shown(ctx, t, cp.Config()); !slices.Equal(got, want) {
		t.Errorf("kubectl shows\n%q\nwant\n%q", got, want)
	}
}

// checkAppliedLists applies a gate as Flux and kubectl apply --server-side do. The default items belong to nobody, so they
// must not stay beside those that are applied later, and they come back when a list is no longer applied.
func checkAppliedLists(t *testing.T, api dynamic.ResourceInterface) {
	t.Helper()
	ctx := t.Context()
	for i, step := range []struct{ applied, metrics, failOn string }{
		{`{"service":"cart"}`, "ErrorRate EntryErrors ClientErrors SlowRequests", "Fail Error Inconclusive"},
		{`{"service":"cart","metrics":[{"type":"Query","query":"paid"}],"failOn":["Fail"]}`, "Query", "Fail"},
		{`{"service":"cart","metrics":[{"type":"SlowRequests"},{"type":"ErrorRate"}],"failOn":["Warn","Fail"]}`, "SlowRequests ErrorRate", "Warn Fail"},
		{`{"service":"cart"}`, "ErrorRate EntryErrors ClientErrors SlowRequests", "Fail Error Inconclusive"},
	} {
		object := gateOf(step.applied)
		object.SetGenerateName("")
		object.SetName("applied")
		is, err := api.Apply(ctx, "applied", object, metav1.ApplyOptions{FieldManager: "flux"})
		if err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		var stored v1alpha1.CanaryGate
		decoded(t, is, &stored)
		var metrics, failOn []string
		for _, m := range stored.Spec.Metrics {
			metrics = append(metrics, m.Type)
		}
		for _, v := range stored.Spec.FailOn {
			failOn = append(failOn, string(v))
		}
		if got := strings.Join(metrics, " "); got != step.metrics {
			t.Errorf("step %d: metrics %s, want %s", i, got, step.metrics)
		}
		if got := strings.Join(failOn, " "); got != step.failOn {
			t.Errorf("step %d: failOn %s, want %s", i, got, step.failOn)
		}
	}
	// Stored defaults of items are part of the one value that a list is.
	for _, step := range []struct {
		manager, metric string
		conflict        bool
	}{
		{"flux", `{"type":"ErrorRate"}`, false},
		{"argocd", `{"type":"ErrorRate"}`, true},
		{"argocd", `{"type":"ErrorRate","negligible":0.005,"weight":1,"critical":true,"dryRun":false}`, false},
	} {
		object := gateOf(`{"service":"cart","metrics":[` + step.metric + `]}`)
		object.SetGenerateName("")
		object.SetName("applied")
		if _, err := api.Apply(ctx, "applied", object, metav1.ApplyOptions{FieldManager: step.manager}); apierrors.IsConflict(err) != step.conflict || err != nil && !step.conflict {
			t.Errorf("%s applies %s: %v", step.manager, step.metric, err)
		}
	}
	if err := api.Delete(ctx, "applied", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
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

// The description of a field, which the reference shows, states the default that the schema sets.
func TestDescriptionsStateTheDefaults(t *testing.T) {
	t.Parallel()
	structural, _ := schemaOf(t, crd(t, "canarygates"))
	fields := 0
	var look func(s schema.Structural, at string)
	look = func(s schema.Structural, at string) {
		switch v := s.Default.Object.(type) {
		case string, bool, int64, float64:
			if fields++; !strings.Contains(s.Description, fmt.Sprintf("Defaults to %v.", v)) {
				t.Errorf("the default of %s is %v, and its description %q", at, v, s.Description)
			}
		}
		for name, p := range s.Properties {
			look(p, at+"."+name)
		}
		if s.Items != nil {
			look(*s.Items, at+"[]")
		}
	}
	look(structural.Properties["spec"], "spec")
	if fields < 20 {
		t.Errorf("checked only %d fields", fields)
	}
}
