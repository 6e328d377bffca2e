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

// one returns a spec with one changed metric.
func one(change func(*v1alpha1.GateMetric)) func(*spec) {
	return func(s *spec) {
		m := v1alpha1.GateMetric{Type: v1alpha1.MetricSlowRequests}
		change(&m)
		s.Metrics = []v1alpha1.GateMetric{{Type: v1alpha1.MetricErrorRate}, m}
	}
}

func TestValidSpecsAreAccepted(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*spec){
		"the service alone": func(*spec) {},
		"both Revisions":    func(s *spec) { s.Canary, s.Baseline = "cart-00002", "cart-00001" },
		"no warm-up":        func(s *spec) { s.Schedule = &v1alpha1.GateSchedule{Warmup: span(0), MinDuration: span(0)} },
		"the shortest interval": func(s *spec) {
			s.Schedule = &v1alpha1.GateSchedule{Interval: span(5 * time.Second)}
		},
		"a bound":                     one(func(m *v1alpha1.GateMetric) { m.Threshold = ptr(2.5) }),
		"a limit above what is small": one(func(m *v1alpha1.GateMetric) { m.Limit = ptr(.02) }),
		"a small limit, and a smaller rest": one(func(m *v1alpha1.GateMetric) {
			m.Limit, m.Negligible = ptr(.001), ptr(.0005)
		}),
		"one of two is critical":     one(func(m *v1alpha1.GateMetric) { m.Critical = ptr(false) }),
		"two of a type, named apart": one(func(m *v1alpha1.GateMetric) { m.Type, m.Name = v1alpha1.MetricErrorRate, "errors-again" }),
		"codes that are fine": one(func(m *v1alpha1.GateMetric) {
			m.Type, m.Name, m.IgnoreCodes = v1alpha1.MetricClientErrors, "c", []int64{404, 409}
		}),
		"any share":    func(s *spec) { s.Exposure = &v1alpha1.GateExposure{MinRatio: ptr(0.), MaxRatio: ptr(1000.)} },
		"a warning":    func(s *spec) { s.FailOn = []verdict.Verdict{"Warn", "Fail", "Error", "Inconclusive"} },
		"pass is warn": func(s *spec) { s.Score = &v1alpha1.GateScore{Pass: ptr(80.), Warn: ptr(80.)} },
	} {
		s := spec{Service: "cart"}
		change(&s)
		if err := s.Validate(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An invalid field is reported with its path and what is allowed.
func TestInvalidSpecsAreRejected(t *testing.T) {
	t.Parallel()
	schedule := func(change func(*v1alpha1.GateSchedule)) func(*spec) {
		return func(s *spec) { s.Schedule = &v1alpha1.GateSchedule{}; change(s.Schedule) }
	}
	for name, c := range map[string]struct {
		change       func(*spec)
		where, right string
	}{
		"no service":       {func(s *spec) { s.Service = "" }, "spec.service", "name of a Knative Service"},
		"another's":        {func(s *spec) { s.Service = "shop/cart" }, "spec.service", "DNS-1035"},
		"long":             {func(s *spec) { s.Service = strings.Repeat("a", 64) }, "spec.service", "63"},
		"capitals":         {func(s *spec) { s.Canary = "Cart-2" }, "spec.canary", "DNS-1035"},
		"baseline":         {func(s *spec) { s.Baseline = "cart_1" }, "spec.baseline", "DNS-1035"},
		"the same":         {func(s *spec) { s.Canary, s.Baseline = "cart-1", "cart-1" }, "spec.baseline, spec.canary", "two different Revisions"},
		"hectic":           {schedule(func(s *v1alpha1.GateSchedule) { s.Interval = span(time.Second) }), "spec.schedule.interval", "from 5s to 1h0m0s"},
		"before the start": {schedule(func(s *v1alpha1.GateSchedule) { s.Warmup = span(-1) }), "spec.schedule.warmup", "from 0s"},
		"no time": {
			schedule(func(s *v1alpha1.GateSchedule) { s.Timeout = span(2 * time.Minute) }),
			"spec.schedule.timeout", "longer than warmup (12s) and minDuration (2m0s)",
		},
		"no look":  {schedule(func(s *v1alpha1.GateSchedule) { s.Interval = span(30 * time.Minute) }), "spec.schedule.interval", "one interval"},
		"for ever": {schedule(func(s *v1alpha1.GateSchedule) { s.Timeout = span(math.MaxInt64) }), "spec.schedule.timeout", "to 168h0m0s"},
		"sums that overflow": {
			schedule(func(s *v1alpha1.GateSchedule) { s.Warmup, s.MinDuration = span(math.MaxInt64), span(math.MaxInt64) }),
			"spec.schedule.minDuration", "to 168h0m0s",
		},
		"nothing is enough":  {func(s *spec) { s.Minimum = &v1alpha1.GateMinimum{CanaryRequests: ptr(int64(0))} }, "spec.minimum.canaryRequests", "from 1 to"},
		"less than nothing":  {func(s *spec) { s.Minimum = &v1alpha1.GateMinimum{BaselineRequests: ptr(int64(-1))} }, "spec.minimum.baselineRequests", "from 1 to"},
		"no shards":          {func(s *spec) { s.Minimum = &v1alpha1.GateMinimum{Shards: ptr(int64(0))} }, "spec.minimum.shards", "from 1 to"},
		"too many metrics":   {func(s *spec) { s.Metrics = make([]v1alpha1.GateMetric, 11) }, "spec.metrics", "at most 10 are allowed"},
		"no type":            {one(func(m *v1alpha1.GateMetric) { m.Type = "" }), "spec.metrics[1].type", "ErrorRate, EntryErrors, ClientErrors, SlowRequests, SlowerAnywhere"},
		"another type":       {one(func(m *v1alpha1.GateMetric) { m.Type = "Requests" }), "spec.metrics[1].type", "ErrorRate, EntryErrors, ClientErrors, SlowRequests, SlowerAnywhere, Query"},
		"the same name":      {one(func(m *v1alpha1.GateMetric) { m.Name = "ErrorRate" }), "spec.metrics[1].name", "metrics[0] has the same name"},
		"no name":            {one(func(m *v1alpha1.GateMetric) { m.Name = "a b" }), "spec.metrics[1].name", "alphanumeric"},
		"between bounds":     {one(func(m *v1alpha1.GateMetric) { m.Threshold = ptr(.3) }), "spec.metrics[1].threshold", "0.005 0.01"},
		"NaN as bound":       {one(func(m *v1alpha1.GateMetric) { m.Threshold = ptr(math.NaN()) }), "spec.metrics[1].threshold", "one of"},
		"no query":           {one(func(m *v1alpha1.GateMetric) { m.Type, m.Name = "Query", "q" }), "spec.metrics[1].query", "ask the operator"},
		"a free query":       {one(func(m *v1alpha1.GateMetric) { m.Type, m.Name, m.Query = "Query", "q", "sum(x)" }), "spec.metrics[1].query", "not a query"},
		"a query for errors": {one(func(m *v1alpha1.GateMetric) { m.Type, m.Name, m.Query = "ErrorRate", "e", "checkout" }), "spec.metrics[1].query", "only metrics of type Query"},
		"errors have none":   {one(func(m *v1alpha1.GateMetric) { m.Type, m.Name, m.Threshold = "ErrorRate", "e", ptr(.5) }), "spec.metrics[1].threshold", "only metrics of type SlowRequests"},
		"codes of errors":    {one(func(m *v1alpha1.GateMetric) { m.Type, m.Name, m.IgnoreCodes = "ErrorRate", "e", []int64{404} }), "spec.metrics[1].ignoreCodes", "only metrics of type ClientErrors"},
		"a failure is fine":  {one(func(m *v1alpha1.GateMetric) { m.Type, m.Name, m.IgnoreCodes = "ClientErrors", "c", []int64{404, 500} }), "spec.metrics[1].ignoreCodes[1]", "from 400 to 499"},
		"a code twice":       {one(func(m *v1alpha1.GateMetric) { m.Type, m.Name, m.IgnoreCodes = "ClientErrors", "c", []int64{404, 404} }), "spec.metrics[1].ignoreCodes[1]", "at most once"},
		"better is too bad":  {one(func(m *v1alpha1.GateMetric) { m.MaxOddsRatio = ptr(1.) }), "spec.metrics[1].maxOddsRatio", "more than 1"},
		"any odds":           {one(func(m *v1alpha1.GateMetric) { m.MaxOddsRatio = ptr(math.Inf(1)) }), "spec.metrics[1].maxOddsRatio", "at most 100"},
		"a limit of 100 %":   {one(func(m *v1alpha1.GateMetric) { m.Limit = ptr(1.) }), "spec.metrics[1].limit", "less than 1"},
		"percent":            {one(func(m *v1alpha1.GateMetric) { m.Limit = ptr(2.) }), "spec.metrics[1].limit", "less than 1"},
		"a limit by default": {one(func(m *v1alpha1.GateMetric) { m.Limit = ptr(.003) }), "spec.metrics[1].limit", "more than negligible, which is 0.005"},
		"nothing matters":    {one(func(m *v1alpha1.GateMetric) { m.Negligible = ptr(1.) }), "spec.metrics[1].negligible", "less than 1"},
		"all matters":        {one(func(m *v1alpha1.GateMetric) { m.Negligible = ptr(0.) }), "spec.metrics[1].negligible", "more than 0"},
		"anywhere's limit":   {one(func(m *v1alpha1.GateMetric) { m.Type, m.Limit = "SlowerAnywhere", ptr(.1) }), "spec.metrics[1].limit", "metrics of type SlowerAnywhere have no limit"},
		"no weight":          {one(func(m *v1alpha1.GateMetric) { m.Weight = ptr(0.) }), "spec.metrics[1].weight", "more than 0"},
		"NaN as weight":      {one(func(m *v1alpha1.GateMetric) { m.Weight = ptr(math.NaN()) }), "spec.metrics[1].weight", "more than 0"},
		"nothing decides": {func(s *spec) {
			s.Metrics = []v1alpha1.GateMetric{{Type: "ErrorRate", DryRun: true}, {Type: "SlowRequests", Critical: ptr(false)}}
		}, "spec.metrics", "at least one metric must be critical"},
		"too low is right":  {func(s *spec) { s.Exposure = &v1alpha1.GateExposure{MinRatio: ptr(1.)} }, "spec.exposure.minRatio", "less than 1"},
		"right is too high": {func(s *spec) { s.Exposure = &v1alpha1.GateExposure{MaxRatio: ptr(1.)} }, "spec.exposure.maxRatio", "more than 1"},
		"too high":          {func(s *spec) { s.Exposure = &v1alpha1.GateExposure{TooHigh: "Pass"} }, "spec.exposure.tooHigh", "Inconclusive or Warn"},
		"fails unknown":     {func(s *spec) { s.WithoutPast = verdict.Fail }, "spec.withoutPast", "Pass or Warn"},
		"too low":           {func(s *spec) { s.Exposure = &v1alpha1.GateExposure{TooLow: "Pass"} }, "spec.exposure.tooLow", "Inconclusive or Warn"},
		"restarts":          {func(s *spec) { s.Limits = &v1alpha1.GateLimits{Restarts: ptr(int64(-1))} }, "spec.limits.restarts", "from 0"},
		"unaccounted":       {func(s *spec) { s.Limits = &v1alpha1.GateLimits{UnaccountedRatio: ptr(1.01)} }, "spec.limits.unaccountedRatio", "at most 1"},
		"never wrong":       {func(s *spec) { s.Statistics = &v1alpha1.GateStatistics{Alpha: ptr(0.)} }, "spec.statistics.alpha", "more than 0"},
		"mostly wrong":      {func(s *spec) { s.Statistics = &v1alpha1.GateStatistics{Beta: ptr(.51)} }, "spec.statistics.beta", "at most 0.5"},
		"ratio as score":    {func(s *spec) { s.Score = &v1alpha1.GateScore{Pass: ptr(.9)} }, "spec.score.warn", "not be more than pass"},
		"score":             {func(s *spec) { s.Score = &v1alpha1.GateScore{Pass: ptr(101.)} }, "spec.score.pass", "at most 100"},
		"coverage":          {func(s *spec) { s.Score = &v1alpha1.GateScore{MinCoverage: ptr(50.)} }, "spec.score.minCoverage", "at most 1"},
		"pass fails":        {func(s *spec) { s.FailOn = []verdict.Verdict{"Fail", "Pass"} }, "spec.failOn[1]", "Warn, Fail, Error, Inconclusive"},
		"not fail":          {func(s *spec) { s.FailOn = []verdict.Verdict{"Warn"} }, "spec.failOn", "dryRun"},
		"twice":             {func(s *spec) { s.FailOn = []verdict.Verdict{"Fail", "Fail"} }, "spec.failOn[1]", "each at most once"},
	} {
		g := v1alpha1.CanaryGate{Spec: spec{Service: "cart"}}
		c.change(&g.Spec)
		err := g.Validate(t.Context())
		if err == nil || !strings.Contains(err.Error(), c.where) || !strings.Contains(err.Error(), c.right) {
			t.Errorf("%s: want an error at %s with %q, got %v", name, c.where, c.right, err)
		}
	}
}

// All mistakes are reported at once.
func TestAllErrorsAreReported(t *testing.T) {
	t.Parallel()
	s := spec{Service: "Cart", FailOn: []verdict.Verdict{"Pass"}, Score: &v1alpha1.GateScore{Pass: ptr(-1.)}}
	err := s.Validate(t.Context())
	for _, where := range []string{"service", "failOn[0]", "score.pass"} {
		if !strings.Contains(err.Error(), where) {
			t.Errorf("%s is not reported: %v", where, err)
		}
	}
}
