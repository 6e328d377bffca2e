// SPDX-License-Identifier: Apache-2.0

package argo_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/canary/rivals/argo"
)

// The first metric is the example of docs/features/analysis.md.
const templates = `
apiVersion: argoproj.io/v1alpha1
kind: AnalysisTemplate
spec:
  args: [{name: service-name}]
  metrics:
  - name: success-rate
    interval: 5m
    successCondition: result[0] >= 0.95
    failureLimit: 3
    provider:
      prometheus:
        address: http://prometheus.example.com:9090
        query: |
          sum(irate(
            istio_requests_total{reporter="source",destination_service=~"{{args.service-name}}",response_code!~"5.*"}[5m]
          )) /
          sum(irate(
            istio_requests_total{reporter="source",destination_service=~"{{args.service-name}}"}[5m]
          ))
  - name: latency
    interval: 1m
    initialDelay: 2m
    count: 3
    failureCondition: result[0] > 0.5
    provider:
      prometheus:
        query: histogram_quantile(0.99, sum(rate(http_server_request_duration_seconds_bucket{service="x"}[2m])) by (le))
  - name: web
    provider: {web: {url: "http://example.com"}}
  - name: memory
    failureCondition: result[0] > 1e9
    provider: {prometheus: {query: 'container_memory_usage_bytes'}}
  - name: nan
    successCondition: isNaN(result[0]) || result[0] < 1
    provider: {prometheus: {query: 'sum(rate(x_total[1m]))'}}
`

func TestRead(t *testing.T) {
	t.Parallel()
	got, left, err := argo.Read([]byte(templates))
	if err != nil || len(got) != 2 || len(left) != 3 {
		t.Fatalf("%+v, %q, %v", got, left, err)
	}
	for i, want := range []string{"web: only provider.prometheus", "memory: container_memory_usage_bytes cannot be computed", "nan: condition"} {
		if !strings.HasPrefix(left[i], want) {
			t.Errorf("%q, want %q", left[i], want)
		}
	}
	if m := got[0]; m.Name != "success-rate" || m.Start != 5*time.Minute || m.Interval != 5*time.Minute || m.FailureLimit != 3 || m.Op != ">=" || m.Than != .95 || m.Fails || m.Count != 0 {
		t.Errorf("%+v", m)
	}
	if m := got[1]; m.Start != 2*time.Minute || m.Count != 3 || m.Op != ">" || m.Than != .5 || !m.Fails {
		t.Errorf("%+v", m)
	}
	if _, _, err := argo.Read([]byte("spec: {metrics: [{name: web, provider: {web: {}}}]}")); err == nil || !strings.Contains(err.Error(), "nothing in the AnalysisTemplate can be computed: web:") {
		t.Errorf("%v", err)
	}
}

// A template cannot ask for so many measurements that they take for ever, nor for what Argo Rollouts refuses.
func TestTemplateWithoutEnd(t *testing.T) {
	t.Parallel()
	for _, times := range []string{"interval: 1ns", "interval: 0s", "interval: 1m, initialDelay: -2000000h", "interval: 1m, failureLimit: -1"} {
		const rest = `{spec: {metrics: [{name: a, successCondition: "result > 1", provider: {prometheus: {query: "sum(rate(a[1m]))"}}, `
		if got, _, err := argo.Read([]byte(rest + times + "}]}}")); err == nil {
			t.Errorf("%s: %+v", times, got)
		}
	}
}

func TestQueries(t *testing.T) {
	t.Parallel()
	asked := time.Duration(0)
	counts := func(within time.Duration, _, _ bool) (argo.Counts, error) {
		asked = within
		return argo.Counts{Other: 80, ClientErrors: 15, Errors: 5, Bounds: []float64{.1, .5, 1}, Buckets: []float64{90, 0, 10}, Long: within}, nil
	}
	for text, want := range map[string]float64{
		`sum(rate(requests_total{code!~"5.."}[2m])) / sum(rate(requests_total[2m]))`:                           .95,
		`100 * sum(increase(requests_total{response_code=~"[45].*"}[2m])) / sum(increase(requests_total[2m]))`: 20,
		`1 - (sum(rate(x{response_code_class="5xx"}[2m])) / sum(rate(x[2m])))`:                                 .95,
		`sum(rate(requests_total[2m]))`: 100. / 120,
		`histogram_quantile(0.95, sum by (le) (rate(istio_request_duration_milliseconds_bucket{app="x"}[2m])))`: 750,
		`sum(increase(http_server_request_duration_seconds_count{app="x"}[2m]))`:                                100,
	} {
		q, err := argo.ReadQuery(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := q.Of(counts); err != nil || math.Abs(got-want) > 1e-9 || asked != 2*time.Minute {
			t.Errorf("%s is %v within %s (%v), want %v", text, got, asked, err, want)
		}
	}
	for _, text := range []string{
		`sum(`, `up`, `sum(increase(requests_total{status="{{args.code}}"}[2m]))`, `avg(rate(x[1m]))`, `max_over_time(x[1m])`, `sum(rate(x{code="200"}[1m]))`, `sum(rate(x{code=~"2.*"}[1m]))`, `rate(x_sum[1m])`,
		`sum(rate(x[1m] offset 1h))`, `histogram_quantile(0.99, sum(rate(x_bucket{code!~"5.*"}[1m])) by (le))`, `histogram_quantile(0.99, x_bucket)`,
		`sum(rate(x[1m])) > 5`, `rate((x + y)[1m:10s])`, `histogram_quantile(0.9, rate(x[1m]))`, `sum(rate(x_bucket[1m]))`, `absent(rate(x[1m]))`, `time()`,
	} {
		if _, err := argo.ReadQuery(text); err == nil {
			t.Errorf("%s can be computed", text)
		}
	}
}

// What is not a number meets no condition, and fails only what must meet one.
func TestConditions(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"<", "<=", ">", ">="} {
		for want, fails := range map[argo.Phase]bool{argo.Successful: true, argo.Failed: false} {
			m := argo.Metric{Interval: time.Minute, Count: 1, Op: op, Than: 1, Fails: fails}
			if end, _ := m.Run(func(time.Duration) (float64, bool) { return math.NaN(), true }); end != want {
				t.Errorf("not a number %s 1: %s, want %s", op, end, want)
			}
		}
	}
}
