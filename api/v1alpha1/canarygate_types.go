// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	duckv1 "knative.dev/pkg/apis/duck/v1"

	"github.com/knative-cdevents/knative-cdevents/api/tolerant"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// CanaryGate specifies how the canary of a Knative Service in the same namespace is
// judged. `spec: {service: cart}` is enough.
//
// A gate judges in runs. A run is a Tekton CustomRun that refers to the gate. With
// `watch: true`, the gate also starts a run itself at each new split of the Service's
// traffic, and keeps it in its status.
//
// +kubebuilder:object:root=true
type CanaryGate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec specifies how the canary is judged. Only service is required. Defaults are stored
	// when the gate is written. What depends on other fields is chosen when a run begins, and
	// shown in its effective values.
	Spec CanaryGateSpec `json:"spec"`
	// status is the observed state of the gate.
	Status CanaryGateStatus `json:"status,omitempty"`

	// Unread lists the fields that could not be read.
	Unread []tolerant.FieldError `json:"-"`
}

// CanaryGateSpec specifies how a canary is judged. A CustomRun can embed it instead of
// referring to a CanaryGate.
type CanaryGateSpec struct {
	// service is the name of the Knative Service, in the gate's namespace. Required.
	Service string `json:"service"`
	// canary is the name of the Revision to judge. Defaults to the newest Revision to which
	// the Route sends traffic.
	Canary string `json:"canary,omitempty"`
	// baseline is the name of the Revision to compare the canary with. It must not be the
	// same as canary. Defaults to the Revision with the largest share of the traffic, apart
	// from the canary.
	Baseline string `json:"baseline,omitempty"`
	// watch specifies whether the gate starts a run at each new split of the Service's
	// traffic and keeps it in status.run. Defaults to false.
	Watch bool `json:"watch,omitempty"`
	// dryRun specifies that the gate judges and reports, but never stops anything. Defaults
	// to false.
	DryRun bool `json:"dryRun,omitempty"`
	// suspend specifies that no further run begins: the gate starts none, and a CustomRun that
	// refers to the gate fails at once, with the reason GateSuspended. A run that has begun goes
	// on. Defaults to false.
	Suspend bool `json:"suspend,omitempty"`
	// historyLimit is the number of finished runs that status.history keeps, from 0 to 100.
	// Defaults to 10.
	HistoryLimit *int32 `json:"historyLimit,omitempty"`

	// schedule specifies when the gate judges, and for how long. Durations are written as
	// 90s, 2m or 1h30m.
	Schedule *GateSchedule `json:"schedule,omitempty"`
	// minimum specifies how much data a run needs before it can pass, or fail by comparison.
	Minimum *GateMinimum `json:"minimum,omitempty"`
	// metrics lists the metrics to judge. All of them must pass, and at least one must be
	// critical and not a dry run. Defaults to ErrorRate, EntryErrors (for stateful Services
	// only), ClientErrors and SlowRequests.
	// +listType=map
	// +listMapKey=type
	// +listMapKey=name
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
	// +listType=set
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
	// request timeout on top of this. A Fail can come at any time. Defaults to 2m.
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
	// failure only lowers the score. Defaults to true.
	Critical *bool `json:"critical,omitempty"`
	// dryRun specifies that the metric is judged and reported, but does not count. Defaults
	// to false.
	DryRun bool `json:"dryRun,omitempty"`
}

// GateExposure specifies how far the share of requests that the canary really gets may
// differ from the share that it should get: what enters at its pods from the share in the
// Route, and what it handles in a sharded cluster from the share in the placement plan.
type GateExposure struct {
	// minRatio is the smallest accepted ratio of the real share to the share in the Route or
	// the plan. Must be at least 0 and less than 1. Defaults to 0.5.
	MinRatio *float64 `json:"minRatio,omitempty"`
	// maxRatio is the largest accepted ratio of the real share to the share in the Route or
	// the plan. Must be more than 1 and at most 1000. Defaults to 2.
	MaxRatio *float64 `json:"maxRatio,omitempty"`
	// tooHigh is the verdict that replaces a Pass if the ratio exceeds maxRatio:
	// Inconclusive or Warn. Defaults to Inconclusive.
	TooHigh verdict.Verdict `json:"tooHigh,omitempty"`
	// tooLow is the verdict that replaces a Pass if the canary may get less than 0.85 of the
	// requests that the Route or the plan gives it: Inconclusive, or Warn, which suits clients
	// that stay with a pod. Defaults to Inconclusive.
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
	// pass is the score, from 0 to 100, from which a run can be a Pass. Defaults to 90.
	Pass *float64 `json:"pass,omitempty"`
	// warn is the score, from 0 to 100, from which a run can be a Warn. Must not be more
	// than pass. Defaults to 75.
	Warn *float64 `json:"warn,omitempty"`
	// minCoverage is the share of the total weight, from 0 to 1, that must be conclusive.
	// Defaults to 0.5.
	MinCoverage *float64 `json:"minCoverage,omitempty"`
}

// Conditions of a CanaryGate beside Ready.
const (
	// GateServiceFound says whether the Service exists and its traffic is known.
	GateServiceFound = "ServiceFound"
	// GateMeasured says whether the data that the gate's metrics need is measured. If it
	// is False, the reason says what is missing, such as EntryMetricsUnavailable.
	GateMeasured = "Measured"
)

// CanaryGateStatus is the observed state of a CanaryGate.
type CanaryGateStatus struct {
	duckv1.Status `json:",inline"`
	// latest is a summary of the newest run, no matter whether the gate started it or a
	// CustomRun that refers to the gate.
	Latest *GateLatest `json:"latest,omitempty"`
	// history lists the last finished runs, newest first: those that the gate started, and those
	// of CustomRuns that refer to the gate. spec.historyLimit is how many.
	// +listType=atomic
	History []GatePastRun `json:"history,omitempty"`
	// run is the run in progress, or else the last run, of a gate with watch set to true.
	Run *GateRun `json:"run,omitempty"`
}

// GateLatest is a summary of a run.
type GateLatest struct {
	// id identifies the run.
	ID string `json:"id"`
	// customRun is the name of the CustomRun that the run belongs to. It is empty if the
	// gate started the run itself.
	CustomRun string `json:"customRun,omitempty"`
	// startTime is the time at which the run began.
	StartTime metav1.Time `json:"startTime"`
	// verdict is the verdict of the run, such as Running, Pass or Fail.
	Verdict verdict.Verdict `json:"verdict"`
	// reasons are the reasons for the verdict, most important first, in CamelCase.
	// +listType=atomic
	Reasons []string `json:"reasons,omitempty"`
	// message is a human-readable explanation of the verdict.
	Message string `json:"message,omitempty"`
	// canary is the name of the Revision that the run judges.
	Canary string `json:"canary,omitempty"`
	// baseline is the name of the Revision that the canary is compared with.
	Baseline string `json:"baseline,omitempty"`
	// requests is the number of requests that each side has finished.
	Requests *GateRequests `json:"requests,omitempty"`
	// missing is the least that a verdict still needs. It is omitted if nothing is missing.
	Missing *GateMissing `json:"missing,omitempty"`
}

// GateRequests counts the finished requests of each side.
type GateRequests struct {
	// canary is the number of requests that the canary has finished.
	Canary int64 `json:"canary"`
	// baseline is the number of requests that the baseline has finished.
	Baseline int64 `json:"baseline"`
}

// GateMissing is the least that a verdict still needs.
type GateMissing struct {
	// canaryRequests is the number of requests that the canary must still finish.
	CanaryRequests int64 `json:"canaryRequests,omitempty"`
	// baselineRequests is the number of requests that the baseline must still finish.
	BaselineRequests int64 `json:"baselineRequests,omitempty"`
	// canaryShards is the number of shards that the canary still needs, in sharded Services.
	CanaryShards int64 `json:"canaryShards,omitempty"`
	// baselineShards is the number of shards that the baseline still needs, in sharded Services.
	BaselineShards int64 `json:"baselineShards,omitempty"`
}

// GatePastRun is a finished run.
type GatePastRun struct {
	// id identifies the run.
	ID string `json:"id"`
	// customRun is the name of the CustomRun that the run belonged to. It is empty if the gate
	// started the run itself.
	CustomRun string `json:"customRun,omitempty"`
	// canary is the name of the Revision that the run judged.
	Canary string `json:"canary,omitempty"`
	// baseline is the name of the Revision that the canary was compared with.
	Baseline string `json:"baseline,omitempty"`
	// verdict is the verdict with which the run ended.
	Verdict verdict.Verdict `json:"verdict"`
	// reasons are the reasons for the verdict, most important first, in CamelCase.
	// +listType=atomic
	Reasons []string `json:"reasons,omitempty"`
	// requests is the number of requests that each side had finished.
	Requests *GateRequests `json:"requests,omitempty"`
	// startTime is the time at which the run began.
	StartTime metav1.Time `json:"startTime"`
	// completionTime is the time at which the run ended.
	CompletionTime metav1.Time `json:"completionTime"`
}

// GateEffective is what a run takes where the gate leaves a choice: to the Service, to the time
// that a CustomRun has, or to its params. Everything else stands in the gate's spec.
type GateEffective struct {
	// schedule is when the run judges, and for how long. Its timeout is what is left of the
	// CustomRun's, if that is less than the gate's.
	Schedule GateSchedule `json:"schedule"`
	// minimum is the amount of data that the run needs before it can pass, or fail by
	// comparison.
	Minimum GateMinimum `json:"minimum"`
	// metrics are the metrics that the run judges, with all their values. Metrics that do not
	// apply to the Service are left out as soon as that is known.
	// +listType=atomic
	Metrics []GateMetric `json:"metrics,omitempty"`
	// limits are the limits above which the canary fails, whatever its metrics say.
	Limits GateLimits `json:"limits"`
	// failOn lists the verdicts with which a CustomRun fails.
	// +listType=atomic
	FailOn []verdict.Verdict `json:"failOn,omitempty"`
	// dryRun specifies that the run judges and reports, but stops nothing.
	DryRun bool `json:"dryRun,omitempty"`
}

// GateRun is one judgement of one canary. Without its spec and evidence, it is also the
// content of a CustomRun's extraFields.
type GateRun struct {
	// id identifies the run. It is different for each run.
	ID string `json:"id"`
	// gate is the name of the CanaryGate. It is empty if a CustomRun embeds the spec.
	Gate string `json:"gate,omitempty"`
	// service is the Knative Service that the run is about.
	Service GateObject `json:"service"`
	// canary is the Revision that the run judges. It does not change during the run.
	Canary GateObject `json:"canary"`
	// baseline is the Revision that the canary is compared with. It does not change during
	// the run.
	Baseline *GateObject `json:"baseline,omitempty"`
	// split is the percentage of the traffic that each Revision had when the run began, by
	// name.
	Split map[string]int64 `json:"split,omitempty"`
	// effective is what the run takes where the gate leaves a choice.
	Effective *GateEffective `json:"effective,omitempty"`
	// spec is the gate's spec, with defaults and params, when the run began. It is stored in
	// the CanaryGateRun only.
	// +kubebuilder:pruning:PreserveUnknownFields
	Spec *runtime.RawExtension `json:"spec,omitempty"`

	// startTime is the time at which the run began.
	StartTime metav1.Time `json:"startTime"`
	// deadline is the time at which an undecided run becomes Inconclusive.
	Deadline metav1.Time `json:"deadline"`
	// waitingSince is the time since when the run waits for the shards to be where the plan
	// wants them. It is stored in the CanaryGateRun only.
	WaitingSince *metav1.Time `json:"waitingSince,omitempty"`
	// placedSince is when a run that waited for the shards found them in place. It is present until the pods have been
	// scraped again, and only in the CanaryGateRun.
	PlacedSince *metav1.MicroTime `json:"placedSince,omitempty"`
	// completionTime is the time at which the run ended. It is not set while the run is in
	// progress.
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// verdict is Running, or the verdict with which the run ended.
	Verdict verdict.Verdict `json:"verdict"`
	// reasons are the reasons for the verdict, most important first, in CamelCase.
	// +listType=atomic
	Reasons []string `json:"reasons,omitempty"`
	// message is a human-readable explanation of the verdict. It says what the run waits
	// for.
	Message string `json:"message,omitempty"`
	// report contains the numbers that the verdict is based on. It is not set before the pods
	// of the Service have been scraped.
	Report *verdict.Judgement `json:"report,omitempty"`
	// evidence is what judging continues from after a restart. It is stored in the
	// CanaryGateRun only.
	// +kubebuilder:pruning:PreserveUnknownFields
	Evidence *runtime.RawExtension `json:"evidence,omitempty"`
}

// GateObject identifies an object that a run is about.
type GateObject struct {
	// name is the name of the object.
	Name string `json:"name"`
	// uid is the UID of the object.
	UID types.UID `json:"uid"`
}

// CanaryGateList is a list of CanaryGate.
//
// +kubebuilder:object:root=true
type CanaryGateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []CanaryGate `json:"items"`
}
