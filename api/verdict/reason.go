// SPDX-License-Identifier: Apache-2.0

package verdict

// Reason is a machine-readable reason for a verdict. There are few, because metrics use them as a
// label.
type Reason string

// The reasons for a Pass.
//
//reasons:table CanaryGate/Run
const (
	// NonInferior: the canary is proven to be no worse than tolerated.
	NonInferior Reason = "NonInferior"
	// Negligible: so few of the canary's requests are bad that a comparison does not matter.
	Negligible Reason = "Negligible"
	// NotApplicable: nothing that the metric counts exists for this Service, so the run leaves it out.
	NotApplicable Reason = "NotApplicable"
)

// The reasons for a Warn or a Fail.
//
//reasons:table CanaryGate/Run
const (
	// RelativeRegression: the canary is proven to be worse than its baseline. Look at the metric that the message
	// names.
	RelativeRegression Reason = "RelativeRegression"
	// AbsoluteLimit: a metric is proven to be above its limit. Look at the metric that the message names.
	AbsoluteLimit Reason = "AbsoluteLimit"
	// Outage: most of the canary's requests fail for minutes, and hardly any of the baseline's. Look at its pods.
	Outage Reason = "Outage"
	// Restarts: the canary's containers restart too often. Look at the log of the container that ended.
	Restarts Reason = "Restarts"
	// UnaccountedRequests: the canary started requests and did not finish them. Find out why they end without an
	// answer.
	UnaccountedRequests Reason = "UnaccountedRequests"
	// HangingRequests: the canary has more open requests than its share explains. Wait, or find out why they hang.
	HangingRequests Reason = "HangingRequests"
	// PossiblyWorse: the canary is worse, and perhaps no more than tolerated. Look at the metric before you go on.
	PossiblyWorse Reason = "PossiblyWorse"
	// AnswersDiffer: the canary answers far more, or far fewer, requests with a redirect. Check that it should.
	AnswersDiffer Reason = "AnswersDiffer"
	// LowScore: too much of the weight of all metrics failed. See which, or change score.
	LowScore Reason = "LowScore"
	// LowCoverage: too much of the weight of all metrics is undecided. Give the run more time, or change score.
	LowCoverage Reason = "LowCoverage"
	// PastUnknown: it is not known how bad the baseline was before the canary. Let it serve ten minutes before.
	PastUnknown Reason = "PastUnknown"
)

// The reasons for the lack of a Pass, and for an Inconclusive.
//
//reasons:table CanaryGate/Run
const (
	// InsufficientSample: too few requests were finished. Give the canary more traffic, or the run more time.
	InsufficientSample Reason = "InsufficientSample"
	// InsufficientShards: too few shards can be compared. Wait, or lower minimum.shards.
	InsufficientShards Reason = "InsufficientShards"
	// BaselineMissing: the baseline handled too few requests to compare with. Leave it a larger share.
	BaselineMissing Reason = "BaselineMissing"
	// BaselineUnhealthy: the baseline is above the limit, too. Repair what both Revisions have in common.
	BaselineUnhealthy Reason = "BaselineUnhealthy"
	// BaselineWorsened: the baseline is far worse than before the canary's first pod. Look at what both Revisions share.
	BaselineWorsened Reason = "BaselineWorsened"
	// CanaryHandledNothing: the canary gets traffic and handles none. Check that requests reach its pods.
	CanaryHandledNothing Reason = "CanaryHandledNothing"
	// ExposureMismatch: the canary handles more or less than its share. Find out why, or change exposure.
	ExposureMismatch Reason = "ExposureMismatch"
	// ColdStart: most requests are of pods or shards younger than warmup. Wait, or warm pods up before they are ready.
	ColdStart Reason = "ColdStart"
	// Rebalancing: shards move between pods. Wait.
	Rebalancing Reason = "Rebalancing"
	// WindowTooShort: a request may take longer than the run has lasted. Wait.
	WindowTooShort Reason = "WindowTooShort"
	// Undecided: neither a Pass nor a Fail is proven yet. Wait, or give the canary more traffic.
	Undecided Reason = "Undecided"
	// NoData: what a metric needs is not measured. The next reason, or the message, says what.
	NoData Reason = "NoData"
	// Timeout: the run has reached its deadline. Give it more time, or the canary more traffic.
	Timeout Reason = "Timeout"
	// DryRun: the verdict stops nothing, because the gate is a dry run.
	DryRun Reason = "DryRun"
	// InvalidSpec: the run cannot judge by these values. Correct the gate as the message says.
	InvalidSpec Reason = "InvalidSpec"
)
