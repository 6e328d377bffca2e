// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// The defaults that the descriptions of the fields promise. A test of the schema compares its own with them.
const defaults = `{
  "service": "cart",
  "schedule": {"warmup": "3m0s", "interval": "15s", "minDuration": "2m0s", "timeout": "30m0s"},
  "minimum": {"canaryRequests": 300, "baselineRequests": 300, "shards": 3},
  "metrics": [
    {"name": "ErrorRate", "type": "ErrorRate", "maxOddsRatio": 1.5, "negligible": 0.005, "weight": 1, "critical": true},
    {"name": "EntryErrors", "type": "EntryErrors", "maxOddsRatio": 1.5, "negligible": 0.005, "weight": 1, "critical": true},
    {"name": "ClientErrors", "type": "ClientErrors", "maxOddsRatio": 3, "negligible": 0.005, "weight": 1, "critical": true},
    {"name": "SlowRequests", "type": "SlowRequests", "threshold": "500ms", "maxOddsRatio": 1.5, "negligible": 0.005, "weight": 1, "critical": true}
  ],
  "historyLimit": 10,
  "withoutPast": "Pass",
  "exposure": {"minRatio": 0.85, "maxRatio": 2, "tooHigh": "Inconclusive", "tooLow": "Inconclusive"},
  "limits": {"unaccountedRatio": 0.01},
  "statistics": {"alpha": 0.05, "beta": 0.05},
  "score": {"pass": 90, "warn": 75, "minCoverage": 0.5},
  "failOn": ["Fail", "Error", "Inconclusive"]
}`

func TestDefaults(t *testing.T) {
	t.Parallel()
	s := spec{Service: "cart"}
	s.SetDefaults(t.Context())
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var got, want any
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(defaults), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if err := s.Validate(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestDefaultsOverwriteNothing(t *testing.T) {
	t.Parallel()
	s := spec{
		Service: "cart", GatePolicy: v1alpha1.GatePolicy{
			Minimum:  &v1alpha1.GateMinimum{Shards: ptr(int64(5))},
			Metrics:  []v1alpha1.GateMetric{{Name: "slow", Type: v1alpha1.MetricSlowRequests, Threshold: span(time.Second), Critical: ptr(false)}},
			Exposure: &v1alpha1.GateExposure{TooHigh: verdict.Warn, MinRatio: ptr(0.)},
			FailOn:   []verdict.Verdict{verdict.Fail},
		},
	}
	s.SetDefaults(t.Context())
	m := s.Metrics[0]
	if *s.Minimum.Shards != 5 || *s.Minimum.CanaryRequests != 300 || len(s.Metrics) != 1 || m.Name != "slow" || m.Threshold.Duration != time.Second || *m.Critical ||
		*m.Weight != 1 || s.Exposure.TooHigh != "Warn" || *s.Exposure.MinRatio != 0 || len(s.FailOn) != 1 {
		t.Errorf("%+v", s)
	}
}

// Two runs must not share values that one of them may change.
func TestDefaultsAreNotShared(t *testing.T) {
	t.Parallel()
	var a, b spec
	a.SetDefaults(t.Context())
	b.SetDefaults(t.Context())
	a.FailOn[0], *a.Score.Pass = "Warn", 1
	if b.FailOn[0] != "Fail" || *b.Score.Pass != 90 {
		t.Error("the defaults of two specs share memory")
	}
}

// FuzzValidate checks that Validate never panics, changes nothing, and that a valid spec stays
// valid and the same with defaults.
func FuzzValidate(f *testing.F) {
	f.Add([]byte(`{"service":"cart"}`), math.NaN(), int64(-1))
	f.Add([]byte(defaults), 1.5, int64(300))
	f.Add([]byte(`{"service":"cart","metrics":[{"type":"SlowRequests","limit":0.1}],"schedule":{"interval":"5s"}}`), math.Inf(-1), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, raw []byte, number float64, whole int64) {
		var s spec
		if err := json.Unmarshal(raw, &s); err != nil {
			return
		}
		if s.Exposure != nil { // numbers that JSON lacks, but params of a CustomRun can hold
			s.Exposure.MaxRatio = &number
		}
		if s.Minimum != nil {
			s.Minimum.CanaryRequests = &whole
		}
		before := s.DeepCopy()
		err := s.Validate(t.Context())
		if !equality.Semantic.DeepEqual(before, &s) && number == number { //nolint:gocritic // NaN differs from itself
			t.Fatalf("Validate changed the spec:\n%+v\n%+v", before, s)
		}
		if err != nil {
			return
		}
		s.SetDefaults(t.Context())
		if err := s.Validate(t.Context()); err != nil {
			t.Fatalf("invalid with defaults: %v", err)
		}
		again := s.DeepCopy()
		again.SetDefaults(t.Context())
		if diff := cmp.Diff(&s, again); diff != "" {
			t.Fatalf("SetDefaults is not idempotent: %s", diff)
		}
		if math.IsNaN(number) && s.Exposure != nil && *s.Exposure.MaxRatio != *s.Exposure.MaxRatio { //nolint:gocritic // NaN
			t.Fatal("Validate accepted NaN")
		}
	})
}
