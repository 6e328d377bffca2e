// SPDX-License-Identifier: Apache-2.0

package rivals

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/knative-cdevents/knative-cdevents/canary/rivals/argo"
)

// startArgo starts the part of Argo Rollouts that analyzes.
func startArgo(t *testing.T) *rival {
	t.Helper()
	return start(t, "argo-rollouts", "github.com/argoproj/argo-rollouts", filepath.Join("manifests", "crds"),
		"rollouts-controller", "--controllers", "analysis", "--leader-elect=false", "--metricsPort", "0", "--healthzPort", "0")
}

// TestRealArgo lets Argo Rollouts decide on the same measurements as its rules: it must come to the same end, after as
// many measurements.
func TestRealArgo(t *testing.T) {
	tool := startArgo(t)
	good, exactly, bad, none := "1", "0.95", "0.949", "NaN"
	succeeds := argo.Metric{Interval: time.Second, Count: 4, Op: ">=", Than: .95, FailureLimit: 1}
	fails := argo.Metric{Interval: time.Second, Count: 4, Op: "<", Than: .95, Fails: true}
	endless := succeeds
	endless.Count, endless.End = 0, 3*time.Second
	for name, c := range map[string]struct {
		m        argo.Metric
		measured []string
	}{
		"good":               {succeeds, []string{good}},
		"exactly":            {succeeds, []string{exactly}},
		"bad":                {succeeds, []string{bad}},
		"bad_once":           {succeeds, []string{good, bad, good}},
		"bad_at_last":        {succeeds, []string{good, good, bad, bad}},
		"no_requests":        {succeeds, []string{none}},
		"nothing_fails":      {fails, []string{none}},
		"fails":              {fails, []string{good, bad}},
		"until_it_is_ended":  {endless, []string{bad, good}},
		"fails_before_ended": {endless, []string{good, bad}},
	} {
		tool.set(name, c.measured...)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			measured := 0
			want, _ := c.m.Run(func(at time.Duration) (float64, bool) {
				v, err := strconv.ParseFloat(nth(c.measured, measured), 64)
				must(t, err)
				if c.m.End == 0 || at < c.m.End {
					measured++
				}
				return v, true
			})
			metric := map[string]any{
				"name": "success-rate", "interval": c.m.Interval.String(), "failureLimit": int64(c.m.FailureLimit),
				map[bool]string{true: "failureCondition", false: "successCondition"}[c.m.Fails]: fmt.Sprintf("result[0] %s %v", c.m.Op, c.m.Than),
				"provider": map[string]any{"prometheus": map[string]any{"address": tool.url, "query": "success_of_" + name}},
			}
			if c.m.Count > 0 {
				metric["count"] = int64(c.m.Count)
			}
			endAfter := math.MaxInt
			if c.m.End > 0 {
				endAfter = measured
			}
			got := tool.in(t).analyze(name, metric, nil, endAfter)
			if asked := tool.asks(name); got != string(want) || c.m.Count > 0 && asked != measured {
				t.Errorf("Argo says %s after %d measurements, and its rules here %s after %d", got, asked, want, measured)
			}
		})
	}
}

var example = regexp.MustCompile("(?s)```yaml\n(apiVersion: argoproj.io/v1alpha1\nkind: AnalysisTemplate\n.*?)```")

// TestArgoAsksAGate has Argo Rollouts ask a gate as docs/gate-http.md says.
func TestArgoAsksAGate(t *testing.T) {
	tool := startArgo(t)
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "gate-http.md"))
	must(t, err)
	found := example.FindSubmatch(doc)
	if found == nil {
		t.Fatal("the documentation has no AnalysisTemplate")
	}
	for name, c := range map[string]struct {
		verdicts []string
		want     string
		asked    int
	}{
		"passes": {[]string{"Running", "Running", "Pass"}, "Successful", 3},
		"warns":  {[]string{"Warn"}, "Successful", 1},
		"fails":  {[]string{"Running", "Fail", "Pass"}, "Failed", 2},
		"breaks": {[]string{"Error"}, "Failed", 1},
		"never":  {[]string{"Running", "Inconclusive"}, "Inconclusive", 70},
	} {
		tool.set(name, c.verdicts...)
		var template struct {
			Spec struct {
				Metrics []map[string]any `json:"metrics"`
			} `json:"spec"`
		}
		must(t, yaml.Unmarshal(found[1], &template))
		metric := template.Spec.Metrics[0]
		metric["interval"] = "1s"
		must(t, unstructured.SetNestedField(metric, tool.url+"/v1/gates/"+name, "provider", "web", "url"))
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := []any{map[string]any{"name": "token", "value": "a-token"}}
			got := tool.in(t).analyze(name, metric, args, math.MaxInt)
			if asked := tool.asks(name); got != c.want || asked != c.asked {
				t.Errorf("the analysis ends as %s after %d questions, want %s after %d", got, asked, c.want, c.asked)
			}
		})
	}
}

var analysisRuns = schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "analysisruns"}

// analyze has an analysis run, which is ended after some measurements as the end of a rollout does, and returns how it
// ends.
func (r *rival) analyze(name string, metric map[string]any, args []any, endAfter int) string {
	r.Helper()
	runs := r.dynamic.Resource(analysisRuns).Namespace("default")
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Minute)
	defer cancel()
	run, err := runs.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "argoproj.io/v1alpha1", "kind": "AnalysisRun",
		"metadata": map[string]any{"generateName": "run-"},
		"spec":     map[string]any{"metrics": []any{metric}, "args": args},
	}}, metav1.CreateOptions{})
	must(r.T, err)
	for ended := false; ; time.Sleep(200 * time.Millisecond) {
		now, err := runs.Get(ctx, run.GetName(), metav1.GetOptions{})
		must(r.T, err)
		phase, _, err := unstructured.NestedString(now.Object, "status", "phase")
		must(r.T, err)
		if slices.Contains([]string{"Successful", "Failed", "Inconclusive", "Error"}, phase) {
			return phase
		}
		if !ended && r.asks(name) >= endAfter {
			_, err := runs.Patch(ctx, run.GetName(), types.MergePatchType, []byte(`{"spec": {"terminate": true}}`), metav1.PatchOptions{})
			must(r.T, err)
			ended = true
		}
	}
}
