// SPDX-License-Identifier: Apache-2.0

package gaterun_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/canary/judge"
)

// The API has the metrics that can be judged, each with the fields that it uses, and the documentation
// lists them.
func TestMetricsOfTheAPI(t *testing.T) {
	t.Parallel()
	docs, err := os.ReadFile("../../docs/gates.md")
	if err != nil {
		t.Fatal(err)
	}
	kinds, types := judge.Kinds(), v1alpha1.GateMetricTypes()
	if len(kinds) != len(types) {
		t.Fatalf("%q and %q", kinds, types)
	}
	for i, kind := range kinds {
		if string(kind) != types[i] {
			t.Errorf("%s is %s in the API", kind, types[i])
		}
		if !strings.Contains(string(docs), "`"+types[i]+"`") {
			t.Errorf("the documentation does not have %s", kind)
		}
		allowed := func(m v1alpha1.GateMetric) bool {
			m.Type, m.Name = types[i], "tried"
			if m.Query == "" && kind.Source() == judge.Queries {
				m.Query = "requests"
			}
			spec := &v1alpha1.CanaryGateSpec{Service: "cart", GatePolicy: v1alpha1.GatePolicy{Metrics: []v1alpha1.GateMetric{{Type: v1alpha1.MetricErrorRate}, m}}}
			spec.SetDefaults(t.Context())
			return spec.Validate(t.Context()) == nil
		}
		limit, half := 0.1, v1alpha1.Duration{Duration: 500 * time.Millisecond}
		if got := allowed(v1alpha1.GateMetric{Limit: &limit}); got != kind.Limited() {
			t.Errorf("%s may have a limit: %v", kind, got)
		}
		if got := allowed(v1alpha1.GateMetric{Query: "requests"}); got != (kind.Source() == judge.Queries) {
			t.Errorf("%s may have a query: %v", kind, got)
		}
		if got := allowed(v1alpha1.GateMetric{IgnoreCodes: []int64{404}}); got != (kind == judge.ClientErrors) {
			t.Errorf("%s may ignore codes: %v", kind, got)
		}
		if got := allowed(v1alpha1.GateMetric{Threshold: &half}); got != (kind == judge.Slow) {
			t.Errorf("%s may have a threshold: %v", kind, got)
		}
	}
}
