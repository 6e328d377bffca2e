// SPDX-License-Identifier: Apache-2.0

package dashboards

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// input is a series of a scenario, in promtool's notation: a value for each minute.
type input struct {
	Series string `json:"series"`
	Values string `json:"values"`
}

// metric is a series, as one replica exports it.
func metric(name, pod string, labels ...string) string {
	all := fmt.Sprintf(`job="controller",instance=%q`, pod)
	for pair := range slices.Chunk(labels, 2) {
		all += fmt.Sprintf(",%s=%q", pair[0], pair[1])
	}
	return name + "{" + all + "}"
}

func ofCart(name, pod string, labels ...string) string {
	return metric(name, pod, append([]string{"k8s_namespace_name", "shop", "kn_service_name", "cart"}, labels...)...)
}

// expected is what a query of a panel must show at a time: values by the labels that are left.
type expected struct {
	panel, query string // the query's legend or column
	at           time.Duration
	want         map[string]float64
}

// canaryOf is a Service whose canary gets and handles 10 % of 600 requests a minute from the tenth minute on.
func canaryOf(pod string) []input {
	return []input{
		{metric("cdevents_leading_ratio", pod), "1x40"},
		{ofCart("canary_traffic_share_ratio", pod, "kn_revision_name", "cart-1"), "1x10 0.9x29"},
		{ofCart("canary_traffic_share_ratio", pod, "kn_revision_name", "cart-2"), "0x10 0.1x29"},
		{ofCart("canary_handled_requests_total", pod, "kn_revision_name", "cart-1", "outcome", "ok"), "0+600x10 6540+540x29"},
		{ofCart("canary_handled_requests_total", pod, "kn_revision_name", "cart-2", "outcome", "ok"), "0x10 60+60x29"},
	}
}

const (
	distance  = "Handled share, how far from the Route, the ten furthest"
	required  = "Required and real share"
	bars      = "Releases, and what failed"
	over      = "Verdicts over time"
	outcomesT = "Verdicts and their reasons"
	finishedT = "Finished runs"
)

// TestScenarios evaluates what has been wrong in pictures, with promtool: no traffic, one Service, 500 Services, a failed
// release, and a controller that restarts.
func TestScenarios(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed: apt-get install prometheus")
	}
	const minute = time.Minute
	gate := []string{"gate", "cart"}
	verdictIs := func(pod, v, values string) input {
		return input{ofCart("gate_verdict", pod, "gate", "cart", "verdict", v), values}
	}
	type test struct {
		name   string
		series []input
		checks []expected
	}
	tests := []test{
		{"no traffic", []input{
			{metric("cdevents_leading_ratio", "a"), "1x40"},
			{ofCart("canary_traffic_share_ratio", "a", "kn_revision_name", "cart-1"), "1x40"},
			{ofCart("canary_handled_requests_total", "a", "kn_revision_name", "cart-1", "outcome", "ok"), "700x40"},
		}, []expected{
			{required, "{{kn_revision_name}} required", 30 * minute, map[string]float64{`{kn_revision_name="cart-1"}`: 1}},
			{required, "{{kn_revision_name}} handled", 30 * minute, nil}, // not 100 % of nothing
			{distance, ofServices, 30 * minute, nil},
			{bars, "released", 30 * minute, nil},
		}},
		{"one Service with a canary, before, right after the step, and later", canaryOf("a"), []expected{
			{distance, ofServices, 8 * minute, nil},  // no canary, no distance
			{distance, ofServices, 12 * minute, nil}, // the window has both splits
			{distance, ofServices, 30 * minute, map[string]float64{`{k8s_namespace_name="shop", kn_service_name="cart"}`: 0}},
			// Of now, and not since the pods began: then it would be 7 %.
			{required, "{{kn_revision_name}} handled", 30 * minute, map[string]float64{`{kn_revision_name="cart-1"}`: .9, `{kn_revision_name="cart-2"}`: .1}},
		}},
		{"a canary of 10 % that handles a third", []input{
			{ofCart("canary_traffic_share_ratio", "a", "kn_revision_name", "cart-1"), "0.9x40"},
			{ofCart("canary_traffic_share_ratio", "a", "kn_revision_name", "cart-2"), "0.1x40"},
			{ofCart("canary_handled_requests_total", "a", "kn_revision_name", "cart-1", "outcome", "ok"), "0+400x40"},
			{ofCart("canary_handled_requests_total", "a", "kn_revision_name", "cart-2", "outcome", "ok"), "0+200x40"},
		}, []expected{{distance, ofServices, 30 * minute, map[string]float64{`{k8s_namespace_name="shop", kn_service_name="cart"}`: .2333}}}},
		{"a controller that restarts: counters begin again, on another pod", append([]input{
			{ofCart("canary_traffic_share_ratio", "b", "kn_revision_name", "cart-1"), "_x21 0.9x19"},
			{ofCart("canary_traffic_share_ratio", "b", "kn_revision_name", "cart-2"), "_x21 0.1x19"},
			{ofCart("canary_handled_requests_total", "b", "kn_revision_name", "cart-1", "outcome", "ok"), "_x21 0+540x19"},
			{ofCart("canary_handled_requests_total", "b", "kn_revision_name", "cart-2", "outcome", "ok"), "_x21 0+60x19"},
			{ofCart("dora_deployments_total", "a", "environment", "production", "outcome", "completed"), "4x20 stale"},
			{ofCart("dora_deployments_total", "b", "environment", "production", "outcome", "completed"), "_x21 4x19"},
			{metric("cdevents_leading_ratio", "b"), "1x40"},
			verdictIs("a", "Fail", "1x20 stale"), verdictIs("b", "Fail", "_x21 1x19"),
		}, until(canaryOf("a"), 20)...), []expected{
			{distance, ofServices, 32 * minute, map[string]float64{`{k8s_namespace_name="shop", kn_service_name="cart"}`: 0}},
			{required, "{{kn_revision_name}} handled", 32 * minute, map[string]float64{`{kn_revision_name="cart-1"}`: .9, `{kn_revision_name="cart-2"}`: .1}},
			{bars, "released", 22 * minute, map[string]float64{`{}`: 0}}, // read again is not released again
			{over, "{{gate}}", 25 * minute, map[string]float64{`{gate="cart"}`: 4}},
		}},
		{"a failed release: stopped once, whatever the number of sinks", []input{
			{metric("cdevents_leading_ratio", "a"), "1x40"},
			{metric("process_start_time_seconds", "a"), "0x40"},
			{ofCart("dora_deployments_total", "a", "environment", "production", "outcome", "completed"), "1x40"},
			{ofCart("dora_deployments_total", "a", "environment", "production", "outcome", "stopped"), "_x20 1x20"},
			{metric("cdevents_delivered_total", "a", "source", "shop/a", "type", "dev.cdevents.service.rolledback.0.3.0"), "_x20 1x20"},
			{metric("cdevents_delivered_total", "a", "source", "shop/b", "type", "dev.cdevents.service.rolledback.0.3.0"), "_x20 1x20"},
			verdictIs("a", "Running", "1x20 0x20"), verdictIs("a", "Fail", "0x20 1x20"), verdictIs("a", "Pass", "0x40"),
			{ofCart("gate_runs_total", "a", append(gate, "verdict", "Fail")...), "0x20 1x19"},
			{ofCart("gate_runs_total", "a", append(gate, "verdict", "Pass")...), "0x40"},
			{ofCart("gate_run_reasons_total", "a", append(gate, "verdict", "Fail", "reason", "RelativeRegression")...), "_x21 1x19"},
		}, []expected{
			{bars, "canary stopped", 20 * minute, map[string]float64{`{}`: 1}},
			{bars, "canary stopped", 24 * minute, map[string]float64{`{}`: 0}},
			{over, "{{gate}}", 15 * minute, map[string]float64{`{gate="cart"}`: 1}},
			{over, "{{gate}}", 25 * minute, map[string]float64{`{gate="cart"}`: 4}},
			{finishedT, "{{gate}} {{verdict}}", 21 * minute, map[string]float64{`{gate="cart", verdict="Fail"}`: 1}}, // at once, and once
			{finishedT, "{{gate}} {{verdict}}", 18 * minute, nil},
			{finishedT, "{{gate}} {{verdict}}", 24 * minute, map[string]float64{`{gate="cart", verdict="Fail"}`: 0}},
			{outcomesT, "Runs", 26 * minute, map[string]float64{`{gate="cart", verdict="Fail", reason="RelativeRegression"}`: 1}},
		}},
	}
	many := test{name: "500 Services, of which each hundredth has a canary that handles twice its share"}
	top := map[string]float64{}
	for i := range 500 {
		name := fmt.Sprintf("s%03d", i)
		of := func(m string, labels ...string) string {
			return metric(m, "a", append([]string{"k8s_namespace_name", "shop", "kn_service_name", name}, labels...)...)
		}
		if i%100 != 0 {
			many.series = append(many.series, input{of("canary_traffic_share_ratio", "kn_revision_name", name+"-1"), "1x40"},
				input{of("canary_handled_requests_total", "kn_revision_name", name+"-1", "outcome", "ok"), "0+600x40"})
			continue
		}
		top[fmt.Sprintf(`{k8s_namespace_name="shop", kn_service_name=%q}`, name)] = .1
		many.series = append(many.series, input{of("canary_traffic_share_ratio", "kn_revision_name", name+"-1"), "0.9x40"},
			input{of("canary_traffic_share_ratio", "kn_revision_name", name+"-2"), "0.1x40"},
			input{of("canary_handled_requests_total", "kn_revision_name", name+"-1", "outcome", "ok"), "0+480x40"},
			input{of("canary_handled_requests_total", "kn_revision_name", name+"-2", "outcome", "ok"), "0+120x40"})
	}
	many.checks = []expected{
		{distance, ofServices, 30 * minute, top},
		{"Services by state", "measured", 30 * minute, map[string]float64{`{}`: 500}},
		{"Services by state", "rolling out", 30 * minute, map[string]float64{`{}`: 5}},
	}
	// The window of rates has a few scrapes, as Grafana's has.
	v := Values{Namespace: "shop", Service: "cart", Environment: "production", Interval: 5 * minute, Step: minute, Shown: 15 * minute}
	var file []map[string]any
	for _, c := range append(tests, many) {
		var exprs []map[string]any
		for _, e := range c.checks {
			samples := []map[string]any{}
			for labels, value := range e.want {
				samples = append(samples, map[string]any{"labels": labels, "value": value})
			}
			exprs = append(exprs, map[string]any{"expr": rounded(query(t, v, e)), "eval_time": e.at.String(), "exp_samples": samples})
		}
		file = append(file, map[string]any{"name": c.name, "interval": "1m", "input_series": c.series, "promql_expr_test": exprs})
	}
	content, err := yaml.Marshal(map[string]any{"evaluation_interval": "1m", "tests": file})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "scenarios.yaml")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), program, "test", "rules", path).CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s", err, out)
	}
}

// rounded compares shares to a hundredth of a percent: promtool compares exactly.
func rounded(expr string) string { return "round(10000 * (" + expr + ")) / 10000" }

// until ends series after so many minutes, as those of a pod that is gone do.
func until(all []input, minutes int) []input {
	for i := range all {
		before, after, _ := strings.Cut(all[i].Values, " ")
		if after == "" {
			before, after = strings.Split(before, "x")[0]+fmt.Sprintf("x%d", minutes), ""
		} else {
			after = after[:strings.LastIndex(after, "x")] + fmt.Sprintf("x%d", minutes-11)
		}
		all[i].Values = strings.TrimSpace(before+" "+after) + " stale"
	}
	return all
}

// query returns the query of a panel by its legend or column.
func query(t *testing.T, v Values, e expected) string {
	t.Helper()
	for _, b := range Queries(v) {
		if b.Panel == e.panel && (b.Legend == e.query || b.Column == e.query) && b.Legend+b.Column != "" {
			return b.Expr
		}
	}
	t.Fatalf("no panel %q has a query %q", e.panel, e.query)
	return ""
}
