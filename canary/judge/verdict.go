// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"slices"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// decide combines everything into one verdict, in this order: proof of a Fail, obstacles to a Pass, the
// metrics and the score, the deadline.
func (j *judgement) decide(p Plan, e *evidence, elapsed time.Duration) {
	if why := j.failures(p, e); len(why) > 0 {
		j.Verdict, j.Reasons = verdict.Fail, why
		return
	}
	lacking := unique(j.lacking(p, e, elapsed))
	complete, critical := j.conclusive(p)
	ripe := elapsed >= p.MinDuration
	final := elapsed >= p.Deadline
	switch {
	case len(lacking) == 0 && complete && ripe:
		j.score(p, e)
	case len(lacking) == 0 && critical && final && j.Coverage > 0 && j.Coverage >= p.Score.MinCoverage:
		// An undecided metric that is not critical prevents a Pass, but does not end the run.
		j.score(p, e)
		if j.Verdict == verdict.Pass {
			j.Verdict = verdict.Warn
		}
		j.Reasons = append(j.Reasons, j.open(p)...)
	default:
		j.Reasons = append(lacking, j.open(p)...)
		if final {
			j.Verdict = verdict.Inconclusive
			if len(lacking) == 0 && critical && j.Coverage < p.Score.MinCoverage {
				j.Reasons = append(j.Reasons, verdict.LowCoverage)
			}
			j.Reasons = append(j.Reasons, verdict.Timeout)
		}
	}
	j.coldStart(p, e)
	j.restarted(e)
	if j.Verdict == verdict.Pass && p.Exposure.WarnLow && e.low(p) {
		j.Verdict, j.Reasons = verdict.Warn, append([]verdict.Reason{verdict.ExposureMismatch}, j.Reasons...)
	}
	if e.tooLow(p) {
		j.Reasons = append(j.Reasons, verdict.ExposureMismatch)
	}
	j.Reasons = unique(j.Reasons)
}

// failures returns the proven reasons for a Fail.
func (j *judgement) failures(p Plan, e *evidence) []verdict.Reason {
	var why []verdict.Reason
	for i, m := range p.Metrics {
		if r := j.Metrics[i]; r.Verdict == verdict.Fail && m.Critical && j.counts(i) {
			why = append(why, r.Reason)
		}
	}
	if p.Limits.Restarts >= 0 && e.Restarts > p.Limits.Restarts || e.Restarted.Looped || e.Restarted.Failed {
		why = append(why, verdict.Restarts)
	}
	// Lost requests are facts, not samples, so their ratio is exact. It is taken of at least MinCanary,
	// so the first lost request is not half of all.
	if p.Limits.Unaccounted >= 0 && e.Unaccounted > p.Limits.Unaccounted*max(e.Started, p.MinCanary) {
		why = append(why, verdict.UnaccountedRequests)
	}
	if e.Open.Failed {
		why = append(why, verdict.HangingRequests)
	}
	return unique(why)
}

// lacking returns what prevents a Pass, whatever the metrics say.
func (j *judgement) lacking(p Plan, e *evidence, elapsed time.Duration) []verdict.Reason {
	var why []verdict.Reason
	switch {
	case e.Canary == 0 && e.Baseline > 0:
		why = append(why, verdict.CanaryHandledNothing)
	case j.Canary.Missing > 0 || e.Canary == 0:
		why = append(why, verdict.InsufficientSample)
	}
	if j.Baseline.Missing > 0 && e.Canary+e.Baseline > 0 {
		why = append(why, verdict.BaselineMissing)
	}
	if e.tooHigh(p) && !p.Exposure.Warn {
		why = append(why, verdict.ExposureMismatch)
	}
	if len(e.worsening(p)) > 0 {
		why = append(why, verdict.BaselineWorsened)
	}
	if e.mostlyYoung() {
		why = append(why, verdict.ColdStart)
	}
	if e.low(p) && !p.Exposure.WarnLow && j.Canary.Missing == 0 {
		why = append(why, verdict.ExposureMismatch)
	}
	if e.Unsettled {
		why = append(why, verdict.Rebalancing)
	}
	if e.Unanswering > 0 {
		why = append(why, verdict.NoData)
	}
	if e.unproven(p, elapsed) {
		why = append(why, verdict.HangingRequests)
	}
	return append(why, e.Open.lacks(p, elapsed))
}

// conclusive reports whether all metrics that count are decided, and whether the critical ones are. If
// none counts, all is false.
func (j *judgement) conclusive(p Plan) (all, critical bool) {
	all, critical = true, true
	counting := false
	for i, m := range p.Metrics {
		if !j.counts(i) {
			continue
		}
		counting = true
		if v := j.Metrics[i].Verdict; v == verdict.Running || v == verdict.Inconclusive {
			all = false
			critical = critical && !m.Critical
		}
	}
	return all && counting, critical
}

// open returns why metrics are undecided, those that a user can fix first.
func (j *judgement) open(p Plan) []verdict.Reason {
	var why []verdict.Reason
	for _, r := range []verdict.Reason{
		verdict.BaselineUnhealthy, verdict.NoData, verdict.InsufficientSample, verdict.InsufficientShards, verdict.Undecided,
	} {
		for i, m := range p.Metrics {
			// Reasons that all metrics share are in lacking.
			if j.counts(i) && j.Metrics[i].Reason == r && (r != verdict.InsufficientSample || m.countsApart()) {
				why = append(why, r)
			}
		}
	}
	return unique(why)
}

// score gives the verdict on decided metrics. Only a Fail can lower the score far enough to fail the
// canary; a possibly worse canary is a Warn.
func (j *judgement) score(p Plan, e *evidence) {
	failed := false
	for i := range p.Metrics {
		if !j.counts(i) {
			continue
		}
		failed = failed || j.Metrics[i].Verdict == verdict.Fail
		j.Reasons = append(j.Reasons, j.Metrics[i].Reason)
	}
	slices.SortStableFunc(j.Reasons, func(a, b verdict.Reason) int { return weight(b) - weight(a) })
	switch {
	case j.Score >= p.Score.Pass:
		j.Verdict = verdict.Pass
	case j.Score >= p.Score.Warn || !failed:
		j.Verdict, j.Reasons = verdict.Warn, append([]verdict.Reason{verdict.LowScore}, j.Reasons...)
	default:
		j.Verdict, j.Reasons = verdict.Fail, append([]verdict.Reason{verdict.LowScore}, j.Reasons...)
	}
	if j.Verdict == verdict.Pass && e.tooHigh(p) {
		j.Verdict, j.Reasons = verdict.Warn, append([]verdict.Reason{verdict.ExposureMismatch}, j.Reasons...)
	}
	j.withoutPast(p, e)
}

// weight orders the reasons of decided metrics.
func weight(r verdict.Reason) int {
	return slices.Index([]verdict.Reason{
		verdict.Negligible, verdict.NonInferior, verdict.AnswersDiffer,
		verdict.PossiblyWorse, verdict.RelativeRegression, verdict.AbsoluteLimit, verdict.Outage,
	}, r)
}

// counts reports whether a metric counts in the verdict.
func (j *judgement) counts(metric int) bool {
	r := j.Metrics[metric]
	return !r.DryRun && r.Reason != verdict.NotApplicable
}

func unique(of []verdict.Reason) []verdict.Reason {
	var out []verdict.Reason
	for _, r := range of {
		if r != "" && !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	return out
}
