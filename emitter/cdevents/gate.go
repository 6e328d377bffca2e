// SPDX-License-Identifier: Apache-2.0

package cdevents

import (
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// testCaseType is the closest word in the vocabulary to a canary analysis (CDEvents
// testing-events.md, testCaseRun).
const testCaseType = "other"

// The outcomes of CDEvents (testing-events.md, testCaseRun finished).
const (
	outcomeSuccess = "success"
	outcomeFailure = "failure"
	outcomeCancel  = "cancel"
	outcomeError   = "error"
)

// Gate holds the details of a verdict beyond the vocabulary.
type Gate struct {
	// Run is the id of the gate run. Name is the CanaryGate's; an inline gate has none.
	Run  string `json:"run"`
	Name string `json:"name,omitempty"`
	// Verdict is Pass, Warn, Fail, Inconclusive, Superseded or Error.
	Verdict verdict.Verdict `json:"verdict"`
	Reasons []string        `json:"reasons,omitempty"`
	Message string          `json:"message,omitempty"`
	DryRun  bool            `json:"dryRun,omitempty"`
	// Score is 0 to 100, Coverage 0 to 1.
	Score    float64 `json:"score"`
	Coverage float64 `json:"coverage"`
	// CanaryRequests and BaselineRequests count the judged requests.
	CanaryRequests   float64 `json:"canaryRequests"`
	BaselineRequests float64 `json:"baselineRequests"`
	// RequiredShare is the canary's traffic share in the Route, HandledShare its actual share.
	RequiredShare *float64     `json:"requiredShare,omitempty"`
	HandledShare  *float64     `json:"handledShare,omitempty"`
	Metrics       []GateMetric `json:"metrics,omitempty"`
	// Started and Completed delimit the run, in UTC.
	Started   string `json:"started"`
	Completed string `json:"completed"`
}

// GateMetric is the verdict on one metric, with ratios of bad requests.
type GateMetric struct {
	Name     string          `json:"name"`
	Verdict  verdict.Verdict `json:"verdict"`
	Reason   string          `json:"reason,omitempty"`
	Canary   *float64        `json:"canary,omitempty"`
	Baseline *float64        `json:"baseline,omitempty"`
}

// judged fills in the fields that only a verdict has.
func (f *facts) judged(subject v1alpha1.CDEventSubjectSpec, v lifecycle.Verdict) {
	f.subject = TestCaseRunID(subject, v.Run)
	f.outcome, f.reason = outcome(v), v.Message
	f.testCaseName = v.Gate
	if f.testCaseName == "" {
		f.testCaseName = "canary of " + subject.Name
	}
	f.testCase = testCaseID(subject, v.Gate)
}

func outcome(v lifecycle.Verdict) string {
	switch {
	case v.Cancelled, v.Verdict == verdict.Superseded:
		return outcomeCancel
	case v.Verdict.Passes():
		return outcomeSuccess
	case v.Verdict == verdict.Fail:
		return outcomeFailure
	}
	// Inconclusive too: there is no result.
	return outcomeError
}

// outcome04 maps an outcome of 0.5 to 0.4 (its testing-events.md).
func outcome04(outcome string) string {
	switch outcome {
	case outcomeSuccess:
		return "pass"
	case outcomeFailure:
		return "fail"
	}
	return outcome
}

func gate(t lifecycle.Transition) *Gate {
	if t.Verdict == nil {
		return nil
	}
	v := t.Verdict
	g := &Gate{
		Run: v.Run, Name: v.Gate, Verdict: v.Verdict, Reasons: v.Reasons, Message: v.Message, DryRun: v.DryRun,
		Score: v.Score, Coverage: v.Coverage, CanaryRequests: v.CanaryRequests, BaselineRequests: v.BaselineRequests,
		RequiredShare: v.RequiredShare, HandledShare: v.HandledShare,
		Started: eventTime(v.Started).Format(time.RFC3339Nano), Completed: eventTime(v.Completed).Format(time.RFC3339Nano),
	}
	for _, m := range v.Metrics {
		g.Metrics = append(g.Metrics, GateMetric(m))
	}
	return g
}
