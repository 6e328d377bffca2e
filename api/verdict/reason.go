// SPDX-License-Identifier: Apache-2.0

package verdict

// Reason is a machine-readable reason for a verdict. There are few, because metrics use them as a
// label.
type Reason string

// The reasons for a verdict.
const (
	AbsoluteLimit      Reason = "AbsoluteLimit"
	RelativeRegression Reason = "RelativeRegression"
	// Outage: most of the canary's requests fail for minutes on end, and hardly any of the baseline's.
	Outage              Reason = "Outage"
	Restarts            Reason = "Restarts"
	UnaccountedRequests Reason = "UnaccountedRequests"
	HangingRequests     Reason = "HangingRequests"
	WindowTooShort      Reason = "WindowTooShort"
	NonInferior         Reason = "NonInferior"
	Negligible          Reason = "Negligible"
	PossiblyWorse       Reason = "PossiblyWorse"
	ColdStart           Reason = "ColdStart"
	// AnswersDiffer: the canary answers far more, or far fewer, requests with a redirect.
	AnswersDiffer Reason = "AnswersDiffer"
	// NotApplicable: nothing that the metric counts exists for this Service, so the run leaves it out.
	NotApplicable        Reason = "NotApplicable"
	InsufficientSample   Reason = "InsufficientSample"
	InsufficientShards   Reason = "InsufficientShards"
	NoData               Reason = "NoData"
	BaselineMissing      Reason = "BaselineMissing"
	BaselineUnhealthy    Reason = "BaselineUnhealthy"
	BaselineWorsened     Reason = "BaselineWorsened"
	PastUnknown          Reason = "PastUnknown"
	CanaryHandledNothing Reason = "CanaryHandledNothing"
	ExposureMismatch     Reason = "ExposureMismatch"
	Rebalancing          Reason = "Rebalancing"
	LowScore             Reason = "LowScore"
	LowCoverage          Reason = "LowCoverage"
	Undecided            Reason = "Undecided"
	Timeout              Reason = "Timeout"
	DryRun               Reason = "DryRun"
	InvalidPlan          Reason = "InvalidPlan"
)
