// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"math"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// Run is the evidence of one judgement. JSON keeps all of it, so another process can read it and
// continue. It contains only sums, of at most MaxShards shards, so it stays below 100 KiB.
type Run struct {
	// Start of the run.
	Start time.Time `json:"start"`
	// Last is the latest judgement.
	Last verdict.Judgement `json:"last"`
	// Evidence is private to this package.
	Evidence evidence `json:"evidence"`
}

// Start starts a run. before is what each shard did before the split, in all Revisions
// except the canary; nil if unknown, or if the Service is not sharded.
func Start(at time.Time, before map[string]Counts) *Run {
	r := &Run{Start: at.UTC().Round(0), Last: verdict.Judgement{Verdict: verdict.Running}}
	r.Evidence.Shards.begin(before)
	return r
}

// Analyze adds one window to the evidence and evaluates all of it. Windows must come in order, and none
// counts twice. A verdict is final. A plan that Check refuses gives an Error.
func (r *Run) Analyze(p Plan, w Window) verdict.Judgement {
	if r.Last.Verdict != verdict.Running || !w.To.After(r.Evidence.Until) {
		return r.Last
	}
	if err := p.Check(); err != nil {
		r.Last.Verdict, r.Last.Reasons, r.Last.Message = verdict.Error, []verdict.Reason{
			verdict.InvalidSpec,
		}, "judging by this plan: "+err.Error()
		return r.Last
	}
	r.Evidence.Until = w.To.UTC().Round(0)
	elapsed := w.To.Sub(r.Start)
	r.Evidence.begin(p, w.From.Sub(r.Start))
	r.Evidence.add(p, w, w.From.Sub(r.Start))
	r.Evidence.Open.add(w, elapsed)
	r.Evidence.Restarted.add(p, w, elapsed)
	if p.Limits.Unaccounted >= 0 {
		r.Evidence.Open.analyze(p.Alpha, elapsed)
	}
	r.Last = r.evaluate(p, elapsed)
	return r.Last
}

// judgement is a judgement that is being made.
type judgement verdict.Judgement

// evaluate judges all evidence.
func (r *Run) evaluate(p Plan, elapsed time.Duration) verdict.Judgement {
	e := &r.Evidence
	v := analysis{
		plan: p, shards: &e.Shards, past: e.Past, worst: e.Worst, start: r.Start.UnixNano(),
		enough: e.enough(p),
		final:  elapsed >= p.Deadline,
	}
	if p.Sharded {
		v.strata, v.counted = e.Shards.strata(max(1, p.MinShards))
		// An analysis that is due waits for the minimums.
		if due := p.due(int64(elapsed)); due > e.Analyses && v.enough && v.counted.enough(max(1, p.MinShards)) {
			v.spending, e.Analyses = spent(due)-spent(e.Analyses), due
		}
		v.spentSoFar = spent(e.Analyses)
	}
	j := judgement{
		Verdict: verdict.Running, From: verdict.TimeOf(e.From), To: verdict.TimeOf(e.To),
		Canary:        verdict.Samples{Requests: count(e.Canary), Missing: count(p.MinCanary - e.Canary)},
		Baseline:      verdict.Samples{Requests: count(e.Baseline), Missing: count(p.MinBaseline - e.Baseline)},
		HandledShare:  e.Handled.mean(),
		RequiredShare: e.Required.mean(),
		ExpectedShare: e.expected(p),
	}
	for i, m := range p.Metrics {
		d := e.Metrics[m.Name]
		if d == nil {
			d = &metricData{}
		}
		v.number = i
		j.Metrics = append(j.Metrics, d.evaluate(v, m))
	}
	if p.Sharded {
		j.countShards(p, v.counted)
	}
	j.weigh(p)
	j.decide(p, e, elapsed)
	j.Message = j.explain(p, e, v.counted, elapsed)
	return verdict.Judgement(j)
}

// count returns a number of requests, from 0 to countless, as a whole number; a part of a request counts as one.
func count(n float64) int64 {
	if !(n > 0) {
		return 0
	}
	return int64(math.Ceil(min(n, countless)))
}

func (e *evidence) enough(p Plan) bool {
	return e.Canary > 0 && e.Canary >= p.MinCanary && e.Baseline >= p.MinBaseline
}

// countShards sets how many shards there are, and how many more a comparison needs.
func (j *judgement) countShards(p Plan, c census) {
	j.Canary.Shards, j.Baseline.Shards = int64(c.canary), int64(c.baseline)
	strictest := 1.0
	for _, m := range p.Metrics {
		if l := p.levels(m); l.comparable && !l.relative {
			strictest = min(strictest, l.shardFail*lastAnalysis)
		}
	}
	canary, baseline := c.missing(max(1, p.MinShards), strictest)
	j.Canary.ShardsMissing, j.Baseline.ShardsMissing = int64(canary), int64(baseline)
}

// weigh computes the score: of the conclusive weight, a pass counts fully and a warning half.
func (j *judgement) weigh(p Plan) {
	var points, conclusive, all float64
	for i, m := range p.Metrics {
		if !j.counts(i) {
			continue
		}
		all += m.Weight
		switch j.Metrics[i].Verdict {
		case verdict.Pass:
			points += m.Weight
			conclusive += m.Weight
		case verdict.Warn:
			points += m.Weight / 2
			conclusive += m.Weight
		case verdict.Fail:
			conclusive += m.Weight
		}
	}
	if conclusive > 0 {
		j.Score = 100 * points / conclusive
	}
	if all > 0 {
		j.Coverage = conclusive / all
	}
}
