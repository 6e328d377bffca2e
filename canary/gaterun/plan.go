// SPDX-License-Identifier: Apache-2.0

package gaterun

import (
	"slices"
	"strconv"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/canary/judge"
)

// Plan converts a spec with all defaults to a plan. deadline counts from the start of
// the evidence.
func Plan(spec *v1alpha1.CanaryGateSpec, sharded bool, deadline time.Duration) judge.Plan {
	p := judge.Plan{
		Alpha:        deref(spec.Statistics.Alpha),
		Beta:         deref(spec.Statistics.Beta),
		Warmup:       duration(spec.Schedule.Warmup),
		MinDuration:  duration(spec.Schedule.MinDuration),
		Deadline:     deadline,
		MinCanary:    float64(deref(spec.Minimum.CanaryRequests)),
		MinBaseline:  float64(deref(spec.Minimum.BaselineRequests)),
		Sharded:      sharded,
		MinShards:    int(deref(spec.Minimum.Shards)),
		PastRequired: spec.WithoutPast == verdict.Warn,
		Exposure: judge.Exposure{
			Min: deref(spec.Exposure.MinRatio), Max: deref(spec.Exposure.MaxRatio), Warn: spec.Exposure.TooHigh == verdict.Warn,
			WarnLow: spec.Exposure.TooLow == verdict.Warn,
		},
		Limits: limits(spec.Limits),
		Score: judge.Score{
			Pass: float64(deref(spec.Score.Pass)), Warn: float64(deref(spec.Score.Warn)),
			MinCoverage: deref(spec.Score.MinCoverage),
		},
	}
	for _, m := range judged(spec, sharded) {
		p.Metrics = append(p.Metrics, judge.Metric{
			Name:         m.Name,
			Kind:         judge.MetricKind(m.Type),
			Threshold:    duration(m.Threshold).Seconds(),
			MaxOddsRatio: deref(m.MaxOddsRatio),
			Limit: deref(
				m.Limit,
			),
			Negligible:  deref(m.Negligible),
			Weight:      deref(m.Weight),
			Critical:    deref(m.Critical),
			DryRun:      m.DryRun,
			IgnoreCodes: codes(m.IgnoreCodes),
		})
	}
	return p
}

// judged returns the metrics that a Service is judged by, with or without shards.
func judged(spec *v1alpha1.CanaryGateSpec, sharded bool) (all []v1alpha1.GateMetric) {
	for _, m := range spec.Metrics {
		if sharded || !decidesBy(spec, judge.MetricKind(m.Type).Repeats()) {
			all = append(all, m)
		}
	}
	return all
}

// limits of the spec. Restarts are compared with the baseline's, unless they have a limit.
func limits(of *v1alpha1.GateLimits) judge.Limits {
	if of.Restarts == nil {
		return judge.Limits{Restarts: -1, CompareRestarts: true, Unaccounted: deref(of.UnaccountedRatio)}
	}
	return judge.Limits{Restarts: float64(*of.Restarts), Unaccounted: deref(of.UnaccountedRatio)}
}

// decidesBy reports whether a critical metric is of a kind. A second test of what it
// counts would only reduce the power of both: in a Service without shards the errors at
// entry are the same errors.
func decidesBy(spec *v1alpha1.CanaryGateSpec, kind judge.MetricKind) bool {
	return slices.ContainsFunc(spec.Metrics, func(m v1alpha1.GateMetric) bool {
		return judge.MetricKind(m.Type) == kind && deref(m.Critical) && !m.DryRun
	})
}

// deref returns the zero value for nil.
func deref[T any](p *T) T {
	if p == nil {
		return *new(T)
	}
	return *p
}

func duration(d *v1alpha1.Duration) time.Duration { return deref(d).Duration }

func codes(of []int64) []string {
	var out []string
	for _, code := range of {
		out = append(out, strconv.FormatInt(code, 10))
	}
	return out
}
