// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"slices"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// VerdictOf returns the verdict of a completed run as its Service's history has it, with the figures for an
// event. This is the only place where a run becomes a part of that history: package lifecycle knows no API
// object.
func VerdictOf(run *v1alpha1.GateRun) lifecycle.Verdict {
	v := lifecycle.Verdict{
		Run:       run.ID,
		Gate:      run.Gate,
		Verdict:   run.Verdict,
		Reasons:   run.Reasons,
		Message:   run.Message,
		Canary:    run.Canary.Name,
		DryRun:    slices.Contains(run.Reasons, string(verdict.DryRun)),
		Cancelled: slices.Contains(run.Reasons, Cancelled),
		Summary:   run.Report.Summary(),
		Started:   run.StartTime.Time,
	}
	if run.Baseline != nil {
		v.Baseline = run.Baseline.Name
	}
	if run.CompletionTime != nil {
		v.Completed = run.CompletionTime.Time
	}
	return v
}
