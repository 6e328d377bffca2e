// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/plural"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// explain describes the verdict and its basis for a person.
func (j *judgement) explain(p Plan, e *evidence, c census, elapsed time.Duration) string {
	var say []string
	if e.Canary+e.Baseline == 0 {
		say = append(say, "no requests have been judged yet")
	} else {
		say = append(say, fmt.Sprintf("%s of the canary, %.0f of the baseline",
			plural.Of(e.Canary, "request", "requests"), e.Baseline)+e.stretch())
	}
	if j.Canary.Missing > 0 || j.Baseline.Missing > 0 {
		say = append(say, fmt.Sprintf("at least %d and %d more are needed", j.Canary.Missing, j.Baseline.Missing))
	}
	for i, m := range p.Metrics {
		say = append(say, explainMetric(p, j.Metrics[i], m, e.Metrics[m.Name]))
	}
	say = append(say, e.explainYoung(p)...)
	if p.Sharded {
		say = append(say, explainShards(j, e, c))
	}
	say = append(say, j.explainExposure(p, e)...)
	say = append(say, e.Restarted.explain(p)...)
	if e.Restarts > 0 && p.Limits.Restarts >= 0 {
		say = append(say, fmt.Sprintf("%s of the canary's containers, and at most %s tolerated",
			plural.Of(e.Restarts, "restart", "restarts"), plural.Of(p.Limits.Restarts, "is", "are")))
	}
	if e.Unaccounted > 0 {
		say = append(say, fmt.Sprintf("the canary never finished %.0f of the %.0f requests that it started", e.Unaccounted,
			e.Started))
	}
	say = append(say, e.Open.explain(p, elapsed)...)
	say = append(say, e.explainPast(p)...)
	if e.unproven(p, elapsed) {
		say = append(say,
			fmt.Sprintf("up to %.0f of the canary's open requests may hang, and a Pass would not hold if they failed",
				e.Open.unseen()))
	}
	if e.Unanswering > 0 {
		say = append(say,
			plural.Of(e.Unanswering, "pod of the canary serves but does not tell what it handles: "+
				"it cannot be scraped, or its counters are missing or fall",
				"pods of the canary serve but do not tell what they handle: "+
					"they cannot be scraped, or their counters are missing or fall"))
	}
	if e.Unsettled {
		say = append(say, "shards are moving between pods")
	}
	return strings.Join(say, "; ")
}

// stretch says which time is judged.
func (e *evidence) stretch() string {
	const clock = "15:04:05"
	from, to := e.From, e.To
	if from.Format(time.DateOnly) == to.Format(time.DateOnly) {
		return fmt.Sprintf(" from %s to %s (UTC)", from.Format(clock), to.Format(clock))
	}
	return fmt.Sprintf(" from %s to %s (UTC)", from.Format(time.DateTime), to.Format(time.DateTime))
}

func explainMetric(p Plan, r verdict.MetricResult, m Metric, d *metricData) string {
	text := r.Name
	if r.DryRun {
		text += " (dry run)"
	}
	if r.Reason == verdict.NotApplicable {
		return text + ": left out, because no status codes are known of the requests that entered, as with gRPC"
	}
	text += ": " + percent(r.Canary) + " to " + percent(r.Baseline)
	if m.Kind.Source() == Queries && d != nil && len(d.Tests) > 0 {
		text += fmt.Sprintf(" of %.0f and %.0f requests by the query", d.Tests[0].Canary.N, d.Tests[0].Baseline.N)
	}
	switch r.Reason {
	case verdict.Negligible:
		text += fmt.Sprintf(", below %.3g %%", 100*m.negligible())
	case verdict.NonInferior:
		text += fmt.Sprintf(", odds not above %.3g times the baseline's", m.MaxOddsRatio)
	case verdict.RelativeRegression:
		text += fmt.Sprintf(", odds above %.3g times the baseline's", m.MaxOddsRatio)
	case verdict.Outage:
		text += ", " + d.Outage.String()
	case verdict.AbsoluteLimit:
		text += fmt.Sprintf(", above the limit of %.3g %%", 100*m.Limit)
	case verdict.BaselineUnhealthy:
		text += fmt.Sprintf(", both above the limit of %.3g %%", 100*m.Limit)
	case verdict.PossiblyWorse:
		text += ", possibly worse, but within what is tolerated"
	case verdict.AnswersDiffer:
		text += ", redirects with far other odds than the baseline"
	case verdict.NoData:
		text += ", no data: " + cmp.Or(d.lacks(), d.Concealed)
	case verdict.InsufficientShards:
		if text += ", too few shards that can be compared"; d.Same {
			text += " for what the canary handled elsewhere"
		}
	case verdict.Undecided, verdict.InsufficientSample:
		text += ", undecided"
	}
	if r.Detail != "" {
		text += ", " + r.Detail
	}
	text += d.explainFading(p, m)
	if d != nil && r.Reason == verdict.Undecided {
		text += d.holds(m)
	}
	if r.Missing > 0 {
		text += ", about " + plural.Of(r.Missing, "more request", "more requests") + " of the canary needed"
	}
	return text
}

func percent(of *float64) string {
	if of == nil {
		return "unknown"
	}
	return verdict.Percent(*of)
}

func explainShards(j *judgement, e *evidence, c census) string {
	if len(e.Shards.Counts) == 0 {
		return "requests are not counted by shard, so only limits can fail the canary"
	}
	text := c.String()
	if j.Canary.ShardsMissing > 0 || j.Baseline.ShardsMissing > 0 {
		text += fmt.Sprintf("; at least %d and %d more are needed", j.Canary.ShardsMissing, j.Baseline.ShardsMissing)
	}
	if e.Shards.Ignored > 0 {
		text += fmt.Sprintf("; %d left out, because at most %d are kept", e.Shards.Ignored, MaxShards)
	}
	return text
}

// holds says what holds a verdict on a metric back.
func (d *metricData) holds(m Metric) string {
	switch {
	case d.Differing > m.MaxOddsRatio && d.Differing == fewPodsOdds:
		return fmt.Sprintf(
			", odds above %.3g times the baseline's, but too few pods of the baseline (%d) are known to tell how much pods differ, so a Fail needs %.2g times",
			m.MaxOddsRatio,
			d.Tests[0].Clusters.Most,
			d.Differing,
		)
	case d.Differing > m.MaxOddsRatio:
		return fmt.Sprintf(
			", odds above %.3g times the baseline's, but pods of the baseline differ as much, so a Fail needs about %.2g times",
			m.MaxOddsRatio,
			d.Differing,
		)
	case d.Worse:
		return fmt.Sprintf(", odds above %.3g times the baseline's lately, so it does not pass", m.MaxOddsRatio)
	}
	return ""
}
