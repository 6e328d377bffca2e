package v1alpha1

import (
	"context"
	"slices"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// The types of a GateMetric.
const (
	// MetricErrorRate: requests that ended in an error or a time-out.
	MetricErrorRate = "ErrorRate"
	// MetricEntryErrors: the same by the Revision where the request entered.
	MetricEntryErrors = "EntryErrors"
	// MetricSlowRequests: requests that took longer than the threshold.
	MetricSlowRequests = "SlowRequests"
	// MetricSlowerAnywhere: compared at every bound of the histogram at once.
	MetricSlowerAnywhere = "SlowerAnywhere"
)

// GateThresholds are the bounds of the histogram in which durations are counted, in
// seconds: canary/attribution has the same. Only these can be a metric's threshold.
func GateThresholds() []float64 {
	return []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
}

// SetDefaults fills in what is not given, as the fields' descriptions say. It is used
// when a run begins: the objects of users stay as they wrote them, so that a later
// version may judge better by default.
func (s *CanaryGateSpec) SetDefaults(context.Context) {
	schedule := given(&s.Schedule)
	span(&schedule.Warmup, 30*time.Second)
	span(&schedule.Interval, 15*time.Second)
	span(&schedule.MinDuration, 2*time.Minute)
	span(&schedule.Timeout, 30*time.Minute)

	minimum := given(&s.Minimum)
	unless(&minimum.CanaryRequests, 300)
	unless(&minimum.BaselineRequests, 300)
	unless(&minimum.Shards, 3)

	if len(s.Metrics) == 0 {
		s.Metrics = []GateMetric{{Type: MetricErrorRate}, {Type: MetricEntryErrors}, {Type: MetricSlowRequests}}
	}
	for i := range s.Metrics {
		s.Metrics[i].setDefaults()
	}

	exposure := given(&s.Exposure)
	unless(&exposure.MinRatio, .5)
	unless(&exposure.MaxRatio, 2)
	if exposure.TooHigh == "" {
		exposure.TooHigh = verdict.Inconclusive
	}

	limits := given(&s.Limits)
	unless(&limits.Restarts, 0)
	unless(&limits.UnaccountedRatio, .01)

	statistics := given(&s.Statistics)
	unless(&statistics.Alpha, .05)
	unless(&statistics.Beta, .05)

	score := given(&s.Score)
	unless(&score.Pass, 90)
	unless(&score.Warn, 75)
	unless(&score.MinCoverage, .5)

	if len(s.FailOn) == 0 {
		s.FailOn = slices.Clone(failOn)
	}
}

// failOn is the default: what is not proven to be good does not go on.
var failOn = []verdict.Verdict{verdict.Fail, verdict.Error, verdict.Inconclusive}

func (m *GateMetric) setDefaults() {
	if m.Name == "" {
		m.Name = m.Type
	}
	if m.Type == MetricSlowRequests {
		unless(&m.Threshold, .5)
	}
	unless(&m.MaxOddsRatio, 1.5)
	unless(&m.Negligible, .005)
	unless(&m.Weight, 1)
	unless(&m.Critical, true)
}

// given returns the group of fields, empty if there was none.
func given[T any](group **T) *T {
	if *group == nil {
		*group = new(T)
	}
	return *group
}

func unless[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

func span(field **Duration, value time.Duration) {
	unless(field, Duration{value})
}
