package gaterun

import (
	"slices"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/canary/judge"
)

// Plan is how a spec, in which defaults are filled in, has a canary judged. deadline
// counts from when evidence began to be gathered.
func Plan(spec *v1alpha1.CanaryGateSpec, sharded bool, deadline time.Duration) judge.Plan {
	p := judge.Plan{
		Alpha: value(spec.Statistics.Alpha), Beta: value(spec.Statistics.Beta),
		Warmup: span(spec.Schedule.Warmup), MinDuration: span(spec.Schedule.MinDuration), Deadline: deadline,
		MinCanary: float64(value(spec.Minimum.CanaryRequests)), MinBaseline: float64(value(spec.Minimum.BaselineRequests)),
		Sharded: sharded, MinShards: int(value(spec.Minimum.Shards)),
		Exposure: judge.Exposure{
			Min: value(spec.Exposure.MinRatio), Max: value(spec.Exposure.MaxRatio), Warn: spec.Exposure.TooHigh == verdict.Warn,
		},
		Limits: judge.Limits{Restarts: float64(value(spec.Limits.Restarts)), Unaccounted: value(spec.Limits.UnaccountedRatio)},
		Score:  judge.Score{Pass: value(spec.Score.Pass), Warn: value(spec.Score.Warn), MinCoverage: value(spec.Score.MinCoverage)},
	}
	for _, m := range spec.Metrics {
		if m.Type == v1alpha1.MetricEntryErrors && !sharded && decidesByErrors(spec) {
			continue
		}
		p.Metrics = append(p.Metrics, judge.Metric{
			Name: m.Name, Kind: judge.MetricKind(m.Type), Threshold: value(m.Threshold), MaxOddsRatio: value(m.MaxOddsRatio),
			Limit: value(m.Limit), Negligible: value(m.Negligible), Weight: value(m.Weight), Critical: value(m.Critical), DryRun: m.DryRun,
		})
	}
	return p
}

// decidesByErrors: where requests are handled where they enter, errors at entry are
// the same ones, and counting them twice would only make both harder to prove.
func decidesByErrors(spec *v1alpha1.CanaryGateSpec) bool {
	return slices.ContainsFunc(spec.Metrics, func(m v1alpha1.GateMetric) bool {
		return m.Type == v1alpha1.MetricErrorRate && value(m.Critical) && !m.DryRun
	})
}

// value of what may be left out.
func value[T any](p *T) T {
	if p == nil {
		return *new(T)
	}
	return *p
}

func span(d *v1alpha1.Duration) time.Duration { return value(d).Duration }
