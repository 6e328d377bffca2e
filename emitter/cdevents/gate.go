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
	// Summary holds the figures.
	verdict.Summary
	// Started and Completed delimit the run, in UTC.
	Started   string `json:"started"`
	Completed string `json:"completed"`
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
	return &Gate{
		Run: v.Run, Name: v.Gate, Verdict: v.Verdict, Reasons: v.Reasons, Message: v.Message, DryRun: v.DryRun,
		Summary: v.Summary,
		Started: eventTime(v.Started).Format(time.RFC3339Nano), Completed: eventTime(v.Completed).Format(time.RFC3339Nano),
	}
}
