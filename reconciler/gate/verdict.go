// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"encoding/json"
	"slices"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/canary/judge"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// VerdictOf converts a run to a verdict, with the numbers behind it.
func VerdictOf(run *v1alpha1.GateRun) lifecycle.Verdict {
	v := lifecycle.Verdict{
		Run: run.ID, Gate: run.Gate, Verdict: run.Verdict, Reasons: run.Reasons, Message: run.Message, Canary: run.Canary.Name,
		DryRun: slices.Contains(run.Reasons, string(verdict.DryRun)), Cancelled: slices.Contains(run.Reasons, Cancelled),
		Started: run.StartTime.Time,
	}
	if run.Baseline != nil {
		v.Baseline = run.Baseline.Name
	}
	if run.CompletionTime != nil {
		v.Completed = run.CompletionTime.Time
	}
	var j judge.Judgement
	if run.Report == nil || json.Unmarshal(run.Report.Raw, &j) != nil {
		return v // it ended before anything was judged
	}
	v.Score, v.Coverage = j.Score, j.Coverage
	v.CanaryRequests, v.BaselineRequests = j.Canary.Requests, j.Baseline.Requests
	v.RequiredShare, v.HandledShare = j.RequiredShare, j.HandledShare
	for _, m := range j.Metrics {
		v.Metrics = append(v.Metrics, lifecycle.VerdictMetric{
			Name: m.Name, Verdict: m.Verdict, Reason: string(m.Reason), Canary: m.Canary, Baseline: m.Baseline,
		})
	}
	return v
}
