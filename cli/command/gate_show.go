// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/knative-cdevents/knative-cdevents/api/plural"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/cli/advice"
	"github.com/knative-cdevents/knative-cdevents/cli/report"
	"github.com/knative-cdevents/knative-cdevents/cli/screen"
	"github.com/knative-cdevents/knative-cdevents/cli/words"
)

// label is how wide the labels are before the bars.
const label = 22

// columns is how wide a bar is, from 8 to 30: what the label and most texts leave of the terminal.
func (e *env) columns() int {
	const text = 28
	if e.Screen.Width == 0 {
		return 30
	}
	return max(8, min(30, e.Screen.Width-label-len("    ")-text))
}

func (e *env) showGates(reports []*report.GateReport) {
	for i, g := range reports {
		if i > 0 {
			e.Screen.Printf("\n")
		}
		e.showGate(g)
	}
}

func (e *env) showGate(g *report.GateReport) {
	s := e.Screen
	title, service := fmt.Sprintf("Gate %s", g.Name), g.Service
	if run := g.Run; run != nil {
		service = cmp.Or(run.Service.Name, service)
		title += fmt.Sprintf(" judges %s", run.Canary.Name)
		if run.Baseline != nil {
			title += fmt.Sprintf(" against %s", run.Baseline.Name)
		}
	}
	s.WrappedCells(screen.Text(""), screen.Cell{Text: title + fmt.Sprintf(" (Service %s)", service), Style: screen.Bold})
	if g.Run == nil {
		e.showFinding(g.Finding, "  ")
		e.showPast(g)
		return
	}
	e.showRun(g)
	e.showEffective(g.Run.Effective)
	e.showPast(g)
	if g.Run.Report != nil {
		e.showSamples(g.Run)
		e.showShares(g)
		for _, m := range g.Run.Report.Metrics {
			e.showMetric(m)
		}
	}
	if g.Run.Report != nil && len(g.Remarks)+len(g.Notes)+len(g.Finding.Do) > 0 {
		s.Printf("\n")
	}
	for _, n := range slices.Concat(g.Remarks, g.Notes) {
		s.Wrapped(screen.Text("  note       "), n)
	}
	if g.Finding.Do != "" {
		s.Wrapped(screen.Text("  do         "), g.Finding.Do)
	}
}

// showRun says when the run began, how it ended, and why.
func (e *env) showRun(g *report.GateReport) {
	s, run := e.Screen, g.Run
	v := string(run.Verdict)
	if len(run.Reasons) > 0 {
		v += ": " + strings.Join(run.Reasons, ", ")
	}
	if g.Spec.DryRun {
		v += " (dry run: it stops nothing)"
	}
	s.WrappedCells(screen.Text("  verdict    "), screen.Cell{Text: v, Style: verdictStyle(string(run.Verdict))})
	when := "began " + e.ago(run.StartTime.Time)
	switch {
	case run.CompletionTime != nil:
		when += fmt.Sprintf(", ended %s after %s", e.ago(run.CompletionTime.Time),
			words.Span(run.CompletionTime.Sub(run.StartTime.Time)))
	case !run.Deadline.IsZero():
		when += fmt.Sprintf(", ends in %s at the latest", words.Span(run.Deadline.Sub(e.Now())))
	}
	if g.CustomRun != "" {
		when += ", for CustomRun " + g.CustomRun
	}
	s.Wrapped(screen.Text("  run        "), when)
	if g.Summary != "" {
		s.Wrapped(screen.Text("  why        "), g.Summary)
	}
}

// showEffective shows what the run takes from its template, or by its own choice.
func (e *env) showEffective(of *v1alpha1.GateEffective) {
	if of == nil || of.Schedule == nil || of.Schedule.Warmup == nil || of.Schedule.Timeout == nil {
		return
	}
	metrics := make([]string, 0, len(of.Metrics))
	for _, m := range of.Metrics {
		name := m.Name
		if m.Threshold != nil {
			name += fmt.Sprintf(" (over %s)", m.Threshold)
		}
		metrics = append(metrics, name)
	}
	if text := advice.Template("", of.Template); text != "" {
		e.Screen.Wrapped(screen.Text("  template   "), text)
	}
	e.Screen.Wrapped(screen.Text("  takes      "), fmt.Sprintf("warmup %s, timeout %s; metrics: %s", of.Schedule.Warmup,
		of.Schedule.Timeout, strings.Join(metrics, ", ")))
}

// pastRuns is how many earlier runs are shown.
const pastRuns = 3

// showPast shows the last runs before the one that is shown.
func (e *env) showPast(g *report.GateReport) {
	label, shown := "  before     ", 0
	for _, p := range g.History {
		if shown == pastRuns || g.Run != nil && p.ID == g.Run.ID {
			continue
		}
		v := string(p.Verdict)
		if len(p.Reasons) > 0 {
			v += ": " + strings.Join(p.Reasons, ", ")
		}
		on := p.Canary
		if p.Service != "" && p.Service != g.Service {
			on += " (Service " + p.Service + ")"
		}
		e.Screen.WrappedCells(screen.Text(label), screen.Cell{Text: v, Style: verdictStyle(string(p.Verdict))},
			screen.Text(fmt.Sprintf("on %s, %s", on, e.ago(p.CompletionTime.Time))))
		label = "             "
		shown++
	}
}

// showSamples shows how many requests and shards each side has, and how many it needs.
func (e *env) showSamples(run *v1alpha1.GateRun) {
	j := run.Report
	e.Screen.Printf("\n")
	canary, baseline := run.Effective.Needs()
	for _, side := range []struct {
		name  string
		least *int64
		verdict.Samples
	}{{"canary", canary, j.Canary}, {"baseline", baseline, j.Baseline}} {
		has, needed := float64(side.Requests), float64(side.Requests+side.Missing)
		if side.least != nil {
			needed = float64(*side.least)
		}
		e.bar(side.name+" requests", part(has, needed), e.needed(has, needed))
		if side.Shards+side.ShardsMissing > 0 {
			needed := float64(side.Shards + side.ShardsMissing)
			text := e.needed(float64(side.Shards), needed)
			if side.ShardsMissing == 0 { // how many were needed is not known
				text = words.Count(float64(side.Shards)) + " are enough" + e.tick()
			}
			e.bar(side.name+" shards", part(float64(side.Shards), needed), text)
		}
	}
	if run.Verdict == verdict.Running {
		if wait := advice.Forecast(j, e.Now().Sub(run.StartTime.Time)); wait > 0 {
			e.figure("", "a verdict needs about %s more of the canary: %s at the present rate", words.Count(float64(j.MissingRequests())), words.Span(wait))
		}
	}
}

// needed says how much of something there is. What is more than needed is not "of" it.
func (e *env) needed(has, needs float64) string {
	if has < needs {
		return fmt.Sprintf("%s of at least %s", words.Count(has), words.Count(needs))
	}
	return fmt.Sprintf("%s; at least %s%s", words.Count(has), words.Count(needs), e.tick())
}

// tick ends a line about what is complete.
func (e *env) tick() string {
	if e.Screen.ASCII {
		return ""
	}
	return " ✓"
}

func part(of, whole float64) float64 {
	if whole <= 0 {
		return 1
	}
	return of / whole
}

// showShares shows which part of the requests entered at the canary, and which part it handled.
func (e *env) showShares(g *report.GateReport) {
	j := g.Run.Report
	if j.RequiredShare != nil {
		e.bar("share in the Route", *j.RequiredShare, verdict.Percent(*j.RequiredShare))
	}
	if j.HandledShare == nil {
		return
	}
	e.bar("share it handled", *j.HandledShare, verdict.Percent(*j.HandledShare)+beside(j, g.Exposure()))
}

// beside says how far the handled share is from what it should be, if that is out of bounds. A cluster without a
// placement plan has no share that the gate could compare with: then the Route's says how far the split is from what
// users meet.
func beside(j *verdict.Judgement, x *v1alpha1.GateExposure) string {
	expected, compared := j.ExpectedShare, true
	if expected == nil {
		expected, compared = j.RequiredShare, false
	}
	if x == nil || expected == nil || *expected <= 0 {
		return ""
	}
	ratio := *j.HandledShare / *expected
	var text, bound string
	switch {
	case x.MaxRatio != nil && ratio > *x.MaxRatio:
		text, bound = fmt.Sprintf(", %.1f times its share", ratio), fmt.Sprintf("; at most %v is accepted", *x.MaxRatio)
	case x.MinRatio != nil && ratio < *x.MinRatio:
		text, bound = fmt.Sprintf(", %.2f times its share", ratio), fmt.Sprintf("; at least %v is expected", *x.MinRatio)
	default:
		return ""
	}
	if !compared {
		bound = " in the Route, which the gate does not compare"
	}
	return text + bound
}

// showMetric shows the ratios of bad requests, and the evidence for both answers against its threshold.
func (e *env) showMetric(m verdict.MetricResult) {
	s := e.Screen
	v := string(m.Verdict)
	if m.Reason != "" {
		v += ": " + string(m.Reason)
	}
	if m.DryRun {
		v += " (dry run)"
	}
	if m.Reason == verdict.NotApplicable {
		s.Printf("\n  %s  %s\n", s.Paint(screen.Bold, m.Name), m.Reason)
		return
	}
	scale := scaleOf(m)
	s.Printf("\n  %s  %s  (its bars end at %s)\n", s.Paint(screen.Bold, m.Name), s.Paint(verdictStyle(string(m.Verdict)), v),
		verdict.Percent(scale))
	e.ratio("canary bad", m.Canary, scale)
	e.ratio("baseline bad", m.Baseline, scale)
	if m.Detail != "" {
		e.figure("what rose most", "%s", m.Detail)
	}
	if m.Low != nil && m.High != nil {
		e.figure("difference", "%+.2f to %+.2f percentage points (95 %%)", 100**m.Low, 100**m.High)
	}
	e.evidence("proof: worse", m.EFail, m.EFailLimit)
	e.evidence("proof: good enough", m.EPass, m.EPassLimit)
	if m.P != nil {
		e.figure("compared by shard", "p = %.2g over the shards", *m.P)
	}
	if m.Missing > 0 {
		e.figure("still needed", "about %s of the canary", plural.Of(m.Missing, "more request", "more requests"))
	}
}

// scaleOf is where the bars of a metric end: the next step above both ratios. They begin at 0.
func scaleOf(m verdict.MetricResult) float64 {
	steps := []float64{.01, .02, .05, .1, .2, .5, 1}
	i := slices.IndexFunc(steps, func(end float64) bool {
		return end >= ptr.Deref(m.Canary, 0) && end >= ptr.Deref(m.Baseline, 0)
	})
	return steps[max(i, 0)]
}

// ratio shows a ratio of bad requests. Both sides of a metric have the same scale.
func (e *env) ratio(name string, ratio *float64, scale float64) {
	if ratio == nil {
		e.bar(name, 0, "no requests")
		return
	}
	e.bar(name, part(*ratio, scale), verdict.Percent(*ratio))
}

// evidence shows an e-value. Evidence multiplies, so the bar is logarithmic: an e-value of 1 says nothing.
func (e *env) evidence(name string, value, limit float64) {
	filled := 0.0
	if value > 1 && limit > 1 {
		filled = math.Log(value) / math.Log(limit)
	}
	text := fmt.Sprintf("e-value %s of %.4g", evalue(value), limit)
	if value >= limit && limit > 0 {
		text += ", proven"
	}
	e.bar(name, filled, text)
}

func evalue(v float64) string {
	if v >= 1e6 {
		return fmt.Sprintf("%.1e", v)
	}
	return fmt.Sprintf("%.3g", v)
}

func (e *env) bar(name string, part float64, text string) {
	e.Screen.Wrapped(screen.Text(fmt.Sprintf("  %-*s %s ", label, name, e.Screen.Bar(part, e.columns()))), text)
}

// figure shows what has no bar.
func (e *env) figure(name, format string, args ...any) {
	e.Screen.Wrapped(screen.Text(fmt.Sprintf("  %-*s ", label, name)), fmt.Sprintf(format, args...))
}
