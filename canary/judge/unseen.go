// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"math"
	"time"
)

// Where requests take long, many are open anyway, and a few that hang do not stand out. So a Pass must
// hold even if they all fail: the canary's open requests beyond those that the baseline's level explains,
// and two standard deviations more, count as bad. That ends when the requests of the first MinDuration
// have been cut off, because those that hung are errors then.

// unseen returns how many of the canary's open requests may hang: their mean over the readings of the last
// minute, beyond what is explained, plus two deviations. Those that hung at its beginning were open in all
// readings, which is less where requests are short.
func (o *openings) unseen() float64 {
	s := 0.0
	if len(o.Readings) > 0 {
		s = o.share()
	}
	if s <= 0 || s >= 1 {
		return 0 // Without one side; that is reported elsewhere.
	}
	var open sides
	fewest := math.Inf(1)
	for _, r := range o.Readings {
		fewest = min(fewest, r.Open.Canary)
		open.Canary += r.Open.Canary / float64(len(o.Readings))
		open.Baseline += r.Open.Baseline / float64(len(o.Readings))
	}
	r := s / (1 - s)
	excess := open.Canary - max(r*open.Baseline, o.explained())
	deviation := math.Sqrt((open.Canary + r*r*open.Baseline) / o.independent(open))
	first, last := o.Readings[0].Begun.Canary, o.Readings[len(o.Readings)-1].Begun.Canary
	throughout := fewest * last / max(1, first) // Since then, as many more hang as before.
	return math.Round(max(0, min(excess+holdDeviations*deviation, throughout)))
}

// independent returns how many of the readings are worth one that knows nothing of the others. Two within
// the time that a request takes see the same requests.
func (o *openings) independent(open sides) float64 {
	first, last := o.Readings[0], o.Readings[len(o.Readings)-1]
	span := (last.At - first.At).Seconds()
	begun := last.Begun.Canary + last.Begun.Baseline - first.Begun.Canary - first.Begun.Baseline
	if span <= 0 || begun <= 0 {
		return 1
	}
	takes := (open.Canary + open.Baseline) * span / begun // Little's law
	return min(float64(len(o.Readings)), 1+span/max(2*takes, 1e-3))
}

// unproven reports whether a Pass would not hold if the canary's unseen requests failed.
func (e *evidence) unproven(p Plan, elapsed time.Duration) bool {
	if p.Limits.Unaccounted < 0 || e.Open.Uncounted || e.Open.Unknown != "" || elapsed >= e.Open.cutOff(p) {
		return false
	}
	unseen := e.Open.unseen()
	for _, m := range p.Metrics {
		d := e.Metrics[m.Name]
		if m.Kind == Errors && m.Critical && !m.DryRun && unseen > 0 && d != nil && len(d.Tests) > 0 &&
			!d.Tests[0].holds(p.levels(m), m, tally{N: unseen, K: unseen}) {
			return true
		}
	}
	return false
}

// holds reports whether the canary is good enough with so many more requests and bad ones. In a sharded Service
// the shards have been compared already, and nobody knows of which shards the open requests are; so it
// must not be worse than tolerated over all of them.
func (t *test) holds(l levels, m Metric, more tally) bool {
	with := *t
	with.Canary = whole(t.Canary.N+more.N, t.Canary.K+more.K)
	with.Odds = t.Odds.plus(table{canary: t.Canary, baseline: t.Baseline},
		table{canary: with.Canary, baseline: t.Baseline})
	negligible, compared := with.passes(m, l.relative)
	if logSum([]float64{negligible, compared}) >= math.Log(l.pass) {
		return true
	}
	odds := func(of tally) float64 { return (of.K + 0.5) / (of.N - of.K + 0.5) }
	return !l.relative && odds(with.Canary) <= m.MaxOddsRatio*odds(t.Baseline) &&
		(!m.limited() || with.Canary.rate() <= m.Limit)
}

// plus returns the evidence as if all windows together had one table instead of another.
func (o *odds) plus(less, more table) *odds {
	out, without := &odds{Ratios: o.Ratios, Logs: append([]float64(nil), o.Logs...)},
		&odds{Ratios: o.Ratios, Logs: make([]float64, len(o.Logs))}
	out.add(more)
	without.add(less)
	for i := range out.Logs {
		out.Logs[i] -= without.Logs[i]
	}
	return out
}
