// SPDX-License-Identifier: Apache-2.0

package page

import (
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/cli/advice"
	"github.com/knative-cdevents/knative-cdevents/cli/report"
)

// run is the running or last run of a gate.
type run struct {
	*report.GateReport
	DryRun bool `json:"dryRun,omitempty"`
	// Judgement is the report of the run, which GateReport leaves out here.
	Judgement *verdict.Judgement `json:"judgement,omitempty"`
	// CanaryNeeds and BaselineNeeds are how many requests each side must have finished.
	CanaryNeeds   int64 `json:"canaryNeeds,omitempty"`
	BaselineNeeds int64 `json:"baselineNeeds,omitempty"`
	// Least and Most bound the share that the canary may handle; absent without bounds.
	Least *float64 `json:"least,omitempty"`
	Most  *float64 `json:"most,omitempty"`
	// Missing is how many more requests of the canary a verdict needs, and More how long they take, in seconds; 0 if that
	// is unknown.
	Missing int64   `json:"missing,omitempty"`
	More    float64 `json:"more,omitempty"`
	// Series is what was seen since the page is open, oldest first.
	Series []sample `json:"series,omitempty"`
}

// run is at the time at which its advice is given, so that both say the same.
func (s *Server) run(g *report.GateReport, now time.Time) run {
	out := run{GateReport: g, DryRun: g.Spec.DryRun}
	if g.Run == nil || g.Run.Report == nil {
		return out
	}
	j := g.Run.Report
	out.Judgement = j
	out.CanaryNeeds, out.BaselineNeeds = j.Canary.Requests+j.Canary.Missing, j.Baseline.Requests+j.Baseline.Missing
	canary, baseline := g.Run.Effective.Needs()
	out.CanaryNeeds, out.BaselineNeeds = least(canary, out.CanaryNeeds), least(baseline, out.BaselineNeeds)
	if x := g.Exposure(); x != nil && j.ExpectedShare != nil {
		out.Least, out.Most = times(*j.ExpectedShare, x.MinRatio), times(*j.ExpectedShare, x.MaxRatio)
	}
	if g.Run.Verdict == verdict.Running {
		out.Missing, out.More = j.MissingRequests(), advice.Forecast(j, now.Sub(g.Run.StartTime.Time)).Seconds()
	}
	out.Series = s.seen.series(now, g.Run)
	public := *g
	public.Run = withoutReport(g.Run)
	out.GateReport = &public
	return out
}

// withoutReport leaves out the report, which is there as Judgement.
func withoutReport(r *v1alpha1.GateRun) *v1alpha1.GateRun {
	out := *r
	out.Report = nil
	return &out
}

func least(n *int64, otherwise int64) int64 {
	if n == nil {
		return otherwise
	}
	return *n
}

func times(share float64, ratio *float64) *float64 {
	if ratio == nil {
		return nil
	}
	out := min(1, share**ratio)
	return &out
}
