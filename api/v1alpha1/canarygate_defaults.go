// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// GateThresholds returns the bounds of the duration histogram; canary/attribution uses the same.
// Only these can be a metric's threshold.
func GateThresholds() []time.Duration {
	const ms = time.Millisecond
	return []time.Duration{
		5 * ms, 10 * ms, 25 * ms, 50 * ms, 100 * ms, 250 * ms, 500 * ms, 1000 * ms, 2500 * ms, 5000 * ms, 10000 * ms,
	}
}

// SetDefaults sets the fields that are not given, as their descriptions say. The schema in
// config/300-canarygate.yaml has the same defaults, and the API server stores them, apart from those
// that depend on other fields: warmup, and the name, threshold and maxOddsRatio of a metric. Those
// are set when a run begins, as are all of a spec that a CustomRun embeds.
func (s *CanaryGateSpec) SetDefaults(ctx context.Context) {
	setDefault(&s.HistoryLimit, 10)
	s.GatePolicy.SetDefaults(ctx)
}

// SetDefaults sets the fields that are not given, in all groups.
func (p *GatePolicy) SetDefaults(context.Context) {
	schedule := ensure(&p.Schedule)
	setDuration(&schedule.Timeout, 30*time.Minute)
	setDuration(&schedule.Warmup, min(3*time.Minute, max(0, schedule.Timeout.Duration/10)))
	setDuration(&schedule.Interval, 15*time.Second)
	setDuration(&schedule.MinDuration, 2*time.Minute)

	minimum := ensure(&p.Minimum)
	setDefault(&minimum.CanaryRequests, 300)
	setDefault(&minimum.BaselineRequests, 300)
	setDefault(&minimum.Shards, 3)

	if p.Metrics == nil {
		p.Metrics = defaultGateMetrics()
	}
	for i := range p.Metrics {
		p.Metrics[i].setDefaults()
	}

	exposure := ensure(&p.Exposure)
	setDefault(&exposure.MinRatio, .85)
	setDefault(&exposure.MaxRatio, 2)
	if exposure.TooHigh == "" {
		exposure.TooHigh = verdict.Inconclusive
	}
	if exposure.TooLow == "" {
		exposure.TooLow = verdict.Inconclusive
	}

	if p.WithoutPast == "" {
		p.WithoutPast = verdict.Pass
	}

	limits := ensure(&p.Limits)
	setDefault(&limits.UnaccountedRatio, .01)

	statistics := ensure(&p.Statistics)
	setDefault(&statistics.Alpha, .05)
	setDefault(&statistics.Beta, .05)

	score := ensure(&p.Score)
	setDefault(&score.Pass, 90)
	setDefault(&score.Warn, 75)
	setDefault(&score.MinCoverage, .5)

	if p.FailOn == nil {
		p.FailOn = slices.Clone(failOn)
	}
}

// failOn is the default: a rollout stops unless the canary is proven good.
var failOn = []verdict.Verdict{verdict.Fail, verdict.Error, verdict.Inconclusive}

func (m *GateMetric) setDefaults() {
	if m.Name == "" {
		m.Name = m.Type
	}
	kind, _ := m.kind()
	if kind.threshold > 0 {
		setDuration(&m.Threshold, kind.threshold)
	}
	setDefault(&m.MaxOddsRatio, cmp.Or(kind.odds, 1.5))
	setDefault(&m.Negligible, .005)
	setDefault(&m.Weight, 1)
	setDefault(&m.Critical, true)
}

// ensure returns the group of fields, and creates it if it is nil.
func ensure[T any](group **T) *T {
	if *group == nil {
		*group = new(T)
	}
	return *group
}

func setDefault[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

func setDuration(field **Duration, value time.Duration) {
	setDefault(field, Duration{value})
}
