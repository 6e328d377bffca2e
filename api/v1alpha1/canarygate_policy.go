// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import "github.com/knative-cdevents/knative-cdevents/api/verdict"

// GatePolicy specifies by what a canary is judged. A CanaryGate has one of its own, and a
// ClusterCanaryGateTemplate one that is the same for many gates. Each of its fields is a group: a template
// that states a group states the whole of it.
type GatePolicy struct {
	// schedule specifies when the gate judges, and for how long. Durations are written as
	// 90s, 2m or 1h30m.
	Schedule *GateSchedule `json:"schedule,omitempty"`
	// minimum specifies how much data a run needs before it can pass, or fail by comparison.
	Minimum *GateMinimum `json:"minimum,omitempty"`
	// metrics lists the metrics to judge. All of them must be decided before a Pass, and at
	// least one must be critical and not a dry run. Defaults to ErrorRate, EntryErrors (for
	// stateful Services only), ClientErrors and SlowRequests.
	// +listType=atomic
	Metrics []GateMetric `json:"metrics,omitempty"`
	// exposure specifies how far the share of requests that the canary really gets may
	// differ from the share that it should get.
	Exposure *GateExposure `json:"exposure,omitempty"`
	// withoutPast is the verdict that replaces a Pass if it is not known how bad the baseline
	// was before the canary's first pod, so that harm to both sides would not show: Pass or
	// Warn. Defaults to Pass.
	WithoutPast verdict.Verdict `json:"withoutPast,omitempty"`
	// limits specifies limits above which a canary fails, whatever its metrics say.
	Limits *GateLimits `json:"limits,omitempty"`
	// statistics specifies how often a verdict may be wrong.
	Statistics *GateStatistics `json:"statistics,omitempty"`
	// score specifies how the weighted score affects the verdict.
	Score *GateScore `json:"score,omitempty"`
	// failOn lists the verdicts with which a CustomRun fails. It must contain Fail, and can
	// contain Warn, Error and Inconclusive, each once. Defaults to Fail, Error and
	// Inconclusive.
	// +listType=atomic
	FailOn []verdict.Verdict `json:"failOn,omitempty"`
}

// GateSchedule specifies when a gate judges, and for how long.
type GateSchedule struct {
	// warmup is the age below which the requests of a pod or shard are not compared, at most
	// 168h. Defaults to 3m, or a tenth of timeout if that is less.
	Warmup *Duration `json:"warmup,omitempty"`
	// interval is the time between two interim analyses, from 5s to 1h. warmup and one
	// interval together must be shorter than timeout. Defaults to 15s.
	Interval *Duration `json:"interval,omitempty"`
	// minDuration is how long the run must last before it can pass, at most 168h. If started
	// requests are not counted, as in ordinary Services, a Pass also waits for the Service's
	// request timeout on top of this, or of warmup if that is longer. A Fail can come at any
	// time. Defaults to 2m.
	MinDuration *Duration `json:"minDuration,omitempty"`
	// timeout is the time after which an undecided run becomes Inconclusive, at most 168h.
	// It must be longer than warmup and minDuration together. If the run belongs to a
	// CustomRun with a shorter timeout, that timeout less two intervals applies. Defaults to
	// 30m.
	Timeout *Duration `json:"timeout,omitempty"`
}

// GateMinimum specifies how much data a run needs before it can pass, or fail by
// comparison.
type GateMinimum struct {
	// canaryRequests is the number of requests that the canary must have finished. Must be
	// at least 1. Defaults to 300.
	CanaryRequests *int64 `json:"canaryRequests,omitempty"`
	// baselineRequests is the number of requests that the baseline must have finished. Must
	// be at least 1. Defaults to 300.
	BaselineRequests *int64 `json:"baselineRequests,omitempty"`
	// shards is the number of shards that must be seen on each side, for sharded Services.
	// Must be at least 1. Defaults to 3.
	Shards *int64 `json:"shards,omitempty"`
}

// GateMetric specifies a metric to judge.
type GateMetric struct {
	// name is the name of the metric. It must be a valid label value and unique in the gate.
	// Defaults to the type.
	Name string `json:"name,omitempty"`
	// type is the type of the metric. ErrorRate counts errors and timeouts by the Revision
	// that handled the request. EntryErrors counts them by the Revision where the request
	// entered; beside a critical ErrorRate, it is left out for Services that are not
	// stateful. ClientErrors counts requests that were answered with a 4xx code, by the
	// Revision where they entered. SlowRequests counts requests that took longer than threshold. SlowerAnywhere
	// compares durations at every bound of the histogram at once. Query counts what a query
	// of the operator's counts. Required.
	Type string `json:"type"`
	// query is the name of a query that the operator has put into ConfigMap config-canary.
	// Required for Query, and not allowed for other types.
	Query string `json:"query,omitempty"`
	// threshold is the duration above which a request is slow. It must be one of the bounds of
	// the histogram in which durations are counted: 5ms, 10ms, 25ms, 50ms, 100ms, 250ms, 500ms,
	// 1s, 2.5s, 5s or 10s. Allowed for SlowRequests only, for which it defaults to 500ms.
	Threshold *Duration `json:"threshold,omitempty"`
	// ignoreCodes lists codes from 400 to 499 that are not errors for this Service. Allowed
	// for ClientErrors only.
	// +listType=set
	IgnoreCodes []int64 `json:"ignoreCodes,omitempty"`
	// maxOddsRatio is the tolerated ratio of the odds of a bad request on the canary to the
	// odds on the baseline. Must be more than 1 and at most 100. Defaults to 3 for
	// ClientErrors and to 1.5 for other types.
	MaxOddsRatio *float64 `json:"maxOddsRatio,omitempty"`
	// limit is the ratio of bad requests above which the canary fails, whatever the baseline
	// does. Must be more than negligible and less than 1. Not allowed for SlowerAnywhere. If
	// it is not set, there is no limit.
	Limit *float64 `json:"limit,omitempty"`
	// negligible is the ratio of bad requests below which no comparison is needed. Must be
	// more than 0 and less than 1. Defaults to 0.005.
	Negligible *float64 `json:"negligible,omitempty"`
	// weight is the weight of the metric in the score. Must be more than 0 and at most 1000.
	// Defaults to 1.
	Weight *float64 `json:"weight,omitempty"`
	// critical specifies whether the gate fails if this metric fails. If it is false, a
	// failure only lowers the score. It has no effect if dryRun is true. Defaults to true.
	Critical *bool `json:"critical,omitempty"`
	// dryRun specifies that the metric is judged and reported, but does not count: it neither
	// fails the gate nor affects the score, even if critical is true. Defaults to false.
	DryRun bool `json:"dryRun,omitempty"`
}

// GateExposure specifies how far the share of requests that the canary really gets may
// differ from the share that it should get: what enters at its pods from the share in the
// Route, and what it handles in a sharded cluster from the share in the placement plan.
type GateExposure struct {
	// minRatio is the smallest accepted ratio of the real share to the share in the Route or
	// the plan. A Pass needs proof that the ratio is not smaller; 0 accepts any share. Must be
	// at least 0 and less than 1. Defaults to 0.85.
	MinRatio *float64 `json:"minRatio,omitempty"`
	// maxRatio is the largest accepted ratio of the real share to the share in the Route or
	// the plan. Must be more than 1 and at most 1000. Defaults to 2.
	MaxRatio *float64 `json:"maxRatio,omitempty"`
	// tooHigh is the verdict that replaces a Pass if the ratio exceeds maxRatio:
	// Inconclusive or Warn. Defaults to Inconclusive.
	TooHigh verdict.Verdict `json:"tooHigh,omitempty"`
	// tooLow is the verdict that replaces a Pass if the ratio may be less than minRatio:
	// Inconclusive, or Warn, which suits clients that stay with a pod. Defaults to
	// Inconclusive.
	TooLow verdict.Verdict `json:"tooLow,omitempty"`
}

// GateLimits specifies limits above which a canary fails, whatever its metrics say.
type GateLimits struct {
	// restarts is the number of restarts of the canary's containers to tolerate. Must be at
	// least 0. If it is omitted, the canary's restarts are compared with the baseline's, and a
	// crash loop fails the canary.
	Restarts *int64 `json:"restarts,omitempty"`
	// unaccountedRatio is the tolerated ratio of requests that the canary began, but neither
	// finished nor answered within the request timeout. Must be from 0 to 1. Defaults to
	// 0.01.
	UnaccountedRatio *float64 `json:"unaccountedRatio,omitempty"`
}

// GateStatistics specifies how often a verdict may be wrong.
type GateStatistics struct {
	// alpha bounds the probability that a canary fails although it is not worse than the
	// baseline. Must be more than 0 and at most 0.5. Defaults to 0.05.
	Alpha *float64 `json:"alpha,omitempty"`
	// beta bounds the probability that a canary passes although it is worse than tolerated.
	// Must be more than 0 and at most 0.5. Defaults to 0.05.
	Beta *float64 `json:"beta,omitempty"`
}

// GateScore specifies how the weighted score affects the verdict.
type GateScore struct {
	// pass is the score, a whole number from 0 to 100, from which a run can be a Pass.
	// Defaults to 90.
	Pass *int32 `json:"pass,omitempty"`
	// warn is the score, a whole number from 0 to 100, from which a run can be a Warn. Must
	// not be more than pass. Defaults to 75.
	Warn *int32 `json:"warn,omitempty"`
	// minCoverage is the share of the total weight, from 0 to 1, that must be conclusive.
	// Defaults to 0.5.
	MinCoverage *float64 `json:"minCoverage,omitempty"`
}
