// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"math"
	"slices"

	"github.com/knative-cdevents/knative-cdevents/api/plural"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// negligibleShare is the part of Beta for the proof of being negligible; the rest is for the
// comparison. Either gives a Pass, so they share Beta.
const negligibleShare = 0.75

// levels are the thresholds of a metric's e-values and p-values. relative means that it is compared by
// requests, comparable by requests or by shards.
//
// Alpha is divided among the metrics that count and the restarts, by the part of each (Bonferroni), and again by two
// for a metric that may fail by comparison and by its own limit. The interim analyses of the shards share theirs. Beta
// is not divided by metrics, because all must pass.
type levels struct {
	fail, warn, pass     float64
	shardFail, shardPass float64
	relative, comparable bool
}

func (p Plan) levels(m Metric) levels {
	own := m.Kind.part()
	share := p.Alpha * own / max(own, p.parts())
	relative := !p.Sharded || m.Kind.kind().traits().byRequests
	l := levels{warn: 1 / share, pass: 1 / p.Beta, relative: relative, comparable: relative || m.byShard()}
	if m.limited() && l.comparable {
		share /= 2
	}
	l.fail = 1 / share
	l.shardFail = share
	l.shardPass = p.Beta * (1 - negligibleShare)
	return l
}

// parts returns into how many parts Alpha is divided; a usual metric takes one.
func (p Plan) parts() float64 {
	all := 0.0
	for _, m := range p.Metrics {
		if !m.DryRun {
			all += m.Kind.part()
		}
	}
	if p.Limits.CompareRestarts {
		all += restartPart
	}
	return all
}

func (m Metric) limited() bool { return m.Limit > 0 && m.Kind.Limited() }

// analysis is what a metric needs to know about the rest of the run.
type analysis struct {
	plan Plan
	// enough means enough requests on both sides; final means that the deadline has passed.
	enough, final bool
	// spending is the part of Alpha and Beta for comparing the shards now; 0 if they are not compared.
	// spentSoFar is what was spent up to now. counted are the comparable shards.
	spending, spentSoFar float64
	shards               *shards
	strata               []stratum
	counted              census
	start                int64
	number               int
	past                 past
	worst                worst
	// negligible means that too few of the canary's requests are bad for a comparison.
	negligible bool
}

// evaluate judges one metric.
//
// In a sharded Service no comparison by requests may fail or pass it. Requests of one shard share its
// fate, and counting each as independent gave a false Fail every third time. The limit may fail it,
// because it is about the requests themselves, whatever their shard; for the same reason being
// negligible may pass it.
func (d *metricData) evaluate(v analysis, m Metric) verdict.MetricResult {
	l := v.plan.levels(m)
	v.enough = d.enough(v, m)
	res := verdict.MetricResult{Name: m.Name, DryRun: m.DryRun, EFailLimit: l.fail, EPassLimit: l.pass}
	worst, fail, limit, warn := d.evidenceOfFail(v, m, l)
	pass, negligible := d.evidenceOfPass(m, l)
	v.negligible = negligible >= math.Log(l.pass)
	if worst != nil {
		worst.show(&res)
	}
	res.EFail, res.EPass = value(max(fail, limit)), value(pass)
	unhealthy := d.absolute(v, m, limit, l)
	d.relative(v, m, fail, warn, l)
	differs := d.Answers.differs(v, m, l)
	res.P = d.P
	same := d.Same && len(d.Tests) > 0 && v.represents(m, d.Tests[0].Canary)
	d.Worse = d.worse(m)
	d.Concealed = ""
	if v.negligible || pass >= math.Log(l.pass) || same {
		d.Concealed = d.conceals(m, l)
	}

	switch {
	case d.Failed != "":
		res.Verdict, res.Reason = verdict.Fail, d.Failed
	case d.inapplicable():
		res.Verdict, res.Reason = v.open(), verdict.NotApplicable
	case unhealthy:
		res.Verdict, res.Reason = v.open(), verdict.BaselineUnhealthy
	case d.lacks() != "":
		res.Verdict, res.Reason = v.open(), verdict.NoData
	case !v.enough:
		res.Verdict, res.Reason = v.open(), verdict.InsufficientSample
	case d.Concealed != "":
		res.Verdict, res.Reason = v.open(), verdict.NoData
	case d.Worse && (v.negligible || l.relative):
		res.Verdict, res.Reason = v.open(), verdict.Undecided
	case v.negligible:
		res.Verdict, res.Reason = verdict.Pass, verdict.Negligible
	case d.Warned && (pass >= math.Log(l.pass) || same):
		res.Verdict, res.Reason = verdict.Warn, verdict.PossiblyWorse
	case pass >= math.Log(l.pass) || same:
		res.Verdict, res.Reason = verdict.Pass, verdict.NonInferior
	case !l.relative && (!v.provable(l) || d.Same):
		res.Verdict, res.Reason = v.open(), verdict.InsufficientShards
	default:
		res.Verdict, res.Reason = v.open(), verdict.Undecided
	}
	if differs && res.Verdict == verdict.Pass {
		res.Verdict, res.Reason = verdict.Warn, verdict.AnswersDiffer
	}
	if res.Verdict != verdict.Pass {
		res.Detail = d.detail(m, res.Reason != verdict.AnswersDiffer)
	}
	if (res.Reason == verdict.Undecided || res.Reason == verdict.InsufficientSample) && worst != nil {
		res.Missing = count(missing(v, m, worst, l))
	}
	return res
}

// worse reports whether the latest part of the run is clearly worse than tolerated.
func (d *metricData) worse(m Metric) bool {
	return slices.ContainsFunc(d.Tests, func(t *test) bool { return t.worse(m) })
}

// open returns the verdict on what is undecided.
func (v analysis) open() verdict.Verdict {
	if v.final {
		return verdict.Inconclusive
	}
	return verdict.Running
}

// provable reports whether there are enough shards for a verdict at some analysis.
func (v analysis) provable(l levels) bool {
	c := v.counted
	return l.comparable && c.enough(max(1, v.plan.MinShards)) && c.ways*l.shardFail*max(v.spending, lastAnalysis) >= 1
}

// evidenceOfFail returns the log e-values for the canary being worse than tolerated, above its limit,
// and worse at all, with the test to show.
//
// Gross is set to the odds ratio that a Fail waits for, if there are too few pods for less.
func (d *metricData) evidenceOfFail(v analysis, m Metric, l levels) (worst *test, fail, limit, warn float64) {
	limit = math.Inf(-1)
	if len(d.Tests) == 0 {
		return nil, 0, limit, 0
	}
	var fails, plain, warns []float64
	most := math.Inf(-1)
	for i, t := range d.Tests {
		e, gross := t.fail(v.past, m)
		fails, plain, warns = append(fails, e), append(plain, gross), append(warns, t.warn(v.past, m))
		if worst == nil || warns[i] > most {
			worst, most = t, warns[i]
		}
	}
	if m.limited() {
		limit = worst.aboveLimit(v.past, m)
	}
	if !l.relative {
		return worst, math.Inf(-1), limit, 0
	}
	fail = logMean(fails)
	d.Differing = 0
	if fail < math.Log(l.fail) && logMean(plain) >= math.Log(l.fail) {
		d.Differing = worst.differing(v.past, m)
	}
	return worst, fail, limit, logMean(warns)
}

// evidenceOfPass returns the log e-value for the canary being good enough at every bound, and the part
// of it for being negligible.
func (d *metricData) evidenceOfPass(m Metric, l levels) (pass, negligible float64) {
	if len(d.Tests) == 0 {
		return 0, 0
	}
	pass, negligible = math.Inf(1), math.Inf(1)
	for _, t := range d.Tests {
		n, c := t.passes(m, l.relative)
		negligible = min(negligible, n)
		pass = min(pass, logSum([]float64{n, c}))
	}
	return pass, negligible
}

// passes returns the logarithms of the two e-values for a Pass, each with its share.
func (t *test) passes(m Metric, compare bool) (negligible, compared float64) {
	negligible, compared = math.Inf(-1), math.Inf(-1)
	share := 1 - negligibleShare
	if r := m.negligible(); r > 0 {
		negligible = math.Log(negligibleShare) + logBelow(t.Canary, r)
		if m.Kind.kind().traits().everywhere {
			// If hardly a request of the baseline is faster than the bound, none of the canary's can be
			// slower.
			rest := tally{N: t.Baseline.N, K: t.Baseline.N - t.Baseline.K}
			negligible = math.Log(negligibleShare/2) + logSum([]float64{logBelow(t.Canary, r), logBelow(rest, r)})
		}
	}
	if !compare {
		return negligible, compared
	}
	compared = t.Odds.pass(m.MaxOddsRatio)
	if m.limited() {
		compared = min(compared, logBelow(t.Canary, m.Limit))
	}
	return negligible, math.Log(share) + compared
}

// negligible returns the ratio below which nothing is compared; it never exceeds the limit.
func (m Metric) negligible() float64 {
	if m.limited() {
		return min(m.Negligible, m.Limit)
	}
	return m.Negligible
}

// absolute fails the canary for its limit, unless the baseline exceeds it too.
func (d *metricData) absolute(v analysis, m Metric, limit float64, l levels) (unhealthy bool) {
	if !m.limited() || len(d.Tests) == 0 {
		return false
	}
	t := d.Tests[0]
	breaks := t.Shared.rate() > m.Limit && (t.Baseline.N >= v.plan.MinBaseline || t.Baseline.K >= excuse)
	if limit >= math.Log(l.fail) && !breaks {
		d.fail(verdict.AbsoluteLimit)
	}
	return breaks && t.Canary.rate() > m.Limit
}

// relative fails the canary by comparison.
func (d *metricData) relative(v analysis, m Metric, fail, warn float64, l levels) {
	d.Crossed = d.Crossed || l.relative && fail >= math.Log(l.fail)
	d.Warned = d.Warned || l.relative && warn >= math.Log(l.warn)
	if d.Crossed && v.enough && !v.negligible && !d.fading(v.plan, m) {
		d.fail(verdict.RelativeRegression)
	}
	if l.relative {
		if len(d.Tests) > 0 && v.enough && d.outage(v, m) {
			d.fail(verdict.Outage)
		}
		return
	}
	if len(d.Tests) == 0 {
		return // This metric counted nothing, whatever the shards say.
	}
	if v.spending > 0 && v.provable(l) && d.lacks() == "" {
		d.compareShards(v, m, l)
		return
	}
	// Other decisions may come long after the analysis, and a canary that broke meanwhile must not
	// pass. Asking again makes no Pass likelier.
	d.Same = d.Same && d.same(v, m, l, v.spentSoFar)
}

// fail keeps the first reason.
func (d *metricData) fail(why verdict.Reason) {
	if d.Failed == "" {
		d.Failed = why
	}
}

// mostUnknown is the share of a side's requests that may be unknown.
const mostUnknown = 0.1

// lacks returns why a metric cannot pass for lack of data.
func (d *metricData) lacks() string {
	if d.NoData != "" {
		return d.NoData
	}
	unknown, where := d.Unknown, "in windows that did not tell"
	if d.Answers != nil {
		unknown.plus(d.Answers.Unknown)
		where = "without a status code"
	}
	for _, t := range d.Tests {
		if unknown.Canary > mostUnknown*(t.Canary.N+unknown.Canary) ||
			unknown.Baseline > mostUnknown*(t.Baseline.N+unknown.Baseline) {
			return fmt.Sprintf(
				"%s of the canary and %.0f of the baseline %s",
				plural.Of(unknown.Canary, "request", "requests"),
				unknown.Baseline,
				where,
			)
		}
	}
	return ""
}

func (t *test) show(r *verdict.MetricResult) {
	c, b := t.Canary.rate(), t.Baseline.rate()
	if t.Canary.N > 0 {
		r.Canary = &c
	}
	if t.Baseline.N > 0 {
		r.Baseline = &b
	}
	if t.Canary.N > 0 && t.Baseline.N > 0 {
		low, high := newcombe(t.Canary, t.Baseline, z95)
		r.Low, r.High = &low, &high
	}
}
