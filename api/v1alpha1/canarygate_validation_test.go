// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

type spec = v1alpha1.CanaryGateSpec

func ptr[T any](v T) *T { return &v }

func span(d time.Duration) *v1alpha1.Duration { return &v1alpha1.Duration{Duration: d} }

// Package config goes through the rules, which the schema has too. These values have no JSON, but a Go client may have
// them.
func TestInvalidNumbersAreRejected(t *testing.T) {
	t.Parallel()
	metric := func(m v1alpha1.GateMetric) spec {
		m.Type = v1alpha1.MetricErrorRate
		return spec{GatePolicy: v1alpha1.GatePolicy{Metrics: []v1alpha1.GateMetric{m}}}
	}
	for _, c := range []struct {
		spec         spec
		where, right string
	}{
		{metric(v1alpha1.GateMetric{Weight: ptr(math.NaN())}), "metrics[0].weight", "more than 0"},
		{metric(v1alpha1.GateMetric{MaxOddsRatio: ptr(math.Inf(1))}), "metrics[0].maxOddsRatio", "at most 100"},
		{metric(v1alpha1.GateMetric{Limit: ptr(math.NaN())}), "metrics[0].limit", "more than 0"},
		{spec{GatePolicy: v1alpha1.GatePolicy{Score: &v1alpha1.GateScore{MinCoverage: ptr(math.NaN())}}}, "score.minCoverage", "0 or more"},
		{
			spec{GatePolicy: v1alpha1.GatePolicy{Schedule: &v1alpha1.GateSchedule{Warmup: span(math.MaxInt64), MinDuration: span(math.MaxInt64)}}},
			"schedule.minDuration", "to 168h0m0s",
		},
	} {
		c.spec.Service = "cart"
		err := c.spec.Validate(t.Context())
		if err == nil || !strings.Contains(err.Error(), c.where) || !strings.Contains(err.Error(), c.right) {
			t.Errorf("want an error at %s with %q, got %v", c.where, c.right, err)
		}
	}
}

// All mistakes are reported at once.
func TestAllErrorsAreReported(t *testing.T) {
	t.Parallel()
	s := spec{Service: "Cart", GatePolicy: v1alpha1.GatePolicy{FailOn: []verdict.Verdict{"Pass"}, Score: &v1alpha1.GateScore{Pass: ptr(int32(-1))}}}
	err := s.Validate(t.Context())
	for _, where := range []string{"service", "failOn[0]", "score.pass"} {
		if !strings.Contains(err.Error(), where) {
			t.Errorf("%s is not reported: %v", where, err)
		}
	}
}
