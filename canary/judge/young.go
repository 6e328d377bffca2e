// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/plural"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// A young pod is slow or fails for a while, until its code is compiled, its caches are filled and its pools
// are connected. So does a pod that has just got a shard. The canary's pods are usually younger than the
// baseline's, and a comparison would take their age for the fault of the Revision. So no metric judges the
// requests of pods and shards that were young when a window began, on either side. What they do is a
// finding of its own: ColdStart.

// Young is what young pods did in a window.
type Young struct{ Canary, Baseline Arm }

// Add adds the requests of another pod.
func (a *Arm) Add(o Arm) {
	a.Finished, a.Errors = a.Finished+o.Finished, a.Errors+o.Errors
	a.Entered, a.EntryErrors = a.Entered+o.Entered, a.EntryErrors+o.EntryErrors
	a.Untold, a.EntryUntold, a.Untimed = a.Untold+o.Untold, a.EntryUntold+o.EntryUntold, a.Untimed+o.Untimed
	above := maps.Clone(a.Above)
	if above == nil {
		above = map[float64]float64{}
	}
	for bound, n := range o.Above {
		above[bound] += n
	}
	a.Above = above
	codes := maps.Clone(a.Codes)
	if codes == nil {
		codes = map[string]float64{}
	}
	for code, n := range o.Codes {
		codes[code] += n
	}
	a.Codes = codes
}

// grownCodes returns the codes without those of young pods.
func grownCodes(all, young Arm) map[string]float64 {
	out := maps.Clone(all.Codes)
	for code, n := range young.Codes {
		if was, counted := out[code]; counted {
			out[code] = max(0, was-n)
		}
	}
	return out
}

// alwaysActive is for shards that were active before the run.
const alwaysActive = -1

// takeFresh removes the requests of young shards from a window, and returns them. The age of a shard
// counts from the first window in which a side handled it. The baseline's shards are not new if they have
// a past.
func (s *shards) takeFresh(p Plan, w *Window, began time.Duration) ShardWindow {
	var fresh ShardWindow
	if !p.Sharded || p.Warmup <= 0 {
		return fresh
	}
	grown := make(map[string]ShardWindow, len(w.Shards))
	for _, name := range slices.Sorted(maps.Keys(w.Shards)) {
		one := w.Shards[name]
		kept := s.of(name)
		if kept == nil {
			grown[name] = one
			continue
		}
		if kept[beforeSide] > 0 {
			kept[activeAt+1] = alwaysActive
		}
		if kept.young(0, one.Canary, p.Warmup, began) {
			fresh.Canary.add(one.Canary)
			one.Canary = Counts{}
		}
		if kept.young(1, one.Baseline, p.Warmup, began) {
			fresh.Baseline.add(one.Baseline)
			one.Baseline = Counts{}
		}
		if one != (ShardWindow{}) {
			grown[name] = one
		}
	}
	w.Shards = grown
	return fresh
}

// young reports whether a shard is young on a side, and remembers when it began there. It keeps the
// beginning in seconds plus one, because 0 means not yet.
func (s *shard) young(side int, did Counts, warmup, began time.Duration) bool {
	if did.Finished <= 0 {
		return false
	}
	active := &s[activeAt+side]
	if *active == 0 {
		*active = 1 + math.Round(began.Seconds())
	}
	return *active != alwaysActive && began.Seconds()-(*active-1) < warmup.Seconds()
}

func (c *Counts) add(o Counts) {
	c.Finished, c.Errors, c.Slow = c.Finished+o.Finished, c.Errors+o.Errors, c.Slow+o.Slow
}

// add counts the requests of young pods, and of young shards on other pods.
func (s *sides) add(w Window, fresh ShardWindow) {
	s.Canary += whole(w.Young.Canary.Finished+fresh.Canary.Finished, 0).N
	s.Baseline += whole(w.Young.Baseline.Finished+fresh.Baseline.Finished, 0).N
}

// mostlyYoung reports whether more than half of the canary's requests are of young pods and shards.
func (e *evidence) mostlyYoung() bool { return 2*e.Young.Canary > e.Canary }

// grown returns what a side did without and with young pods and shards, per test, or why it is unknown.
func (d *metricData) grown(p Plan, m Metric, all, young Arm, fresh Counts) (grown, cold []tally, lack string) {
	cold = make([]tally, len(d.Tests))
	kind := m.Kind.kind()
	grown, lack = kind.read(m, all, d.Tests)
	if lack != "" || m.Kind.Source() == Queries {
		return grown, cold, lack
	}
	if kind.requests(m, young) > 0 {
		if did, unknown := kind.read(m, young, d.Tests); unknown == "" {
			cold = did
		}
	}
	if at, byShard := kind.column(m); p.Sharded && byShard && len(cold) > 0 {
		cold[0].add(fresh.tally(at))
	}
	for i := range grown {
		grown[i] = whole(grown[i].N-cold[i].N, grown[i].K-cold[i].K)
	}
	return grown, cold, ""
}

// cold is what young pods and shards did, of both sides, and the evidence that the canary's were worse
// than the baseline.
type cold struct {
	Canary   tally `json:"canary"`
	Baseline tally `json:"baseline"`
	Odds     *odds `json:"odds"`
}

// addYoung adds what young pods and shards did in a window. The histogram's bounds have no finding.
func (d *metricData) addYoung(m Metric, canary, baseline, grown []tally) {
	if m.Kind.kind().traits().everywhere || len(d.Tests) == 0 || canary[0].N+baseline[0].N == 0 {
		return
	}
	if d.Young == nil {
		d.Young = &cold{Odds: newOdds(m.MaxOddsRatio)}
	}
	d.Young.Canary.add(canary[0])
	d.Young.Baseline.add(baseline[0])
	all := grown[0]
	all.add(baseline[0])
	d.Young.Odds.add(table{canary: canary[0], baseline: all})
}

// worse reports whether the canary's young pods and shards are proven worse than the baseline by more than
// is tolerated. It is no finding if the baseline's young ones are as bad.
func (c *cold) worse(p Plan, m Metric) bool {
	if c == nil || c.Canary.rate() <= m.negligible() ||
		c.Odds.against(m.MaxOddsRatio, failGrid(m.MaxOddsRatio)) < math.Log(p.levels(m).fail) {
		return false
	}
	return c.Baseline.N < p.MinBaseline || c.Canary.odds() > m.MaxOddsRatio*c.Baseline.odds()
}

// odds of a bad request, above 0.
func (t tally) odds() float64 { return (t.K + 0.5) / (t.N - t.K + 0.5) }

// coldStart makes a Pass a Warn if the canary's young pods are worse.
func (j *judgement) coldStart(p Plan, e *evidence) {
	if !j.Verdict.Passes() {
		return
	}
	for _, m := range p.Metrics {
		if d := e.Metrics[m.Name]; d != nil && !m.DryRun && d.Young.worse(p, m) {
			j.Verdict, j.Reasons = verdict.Warn, append([]verdict.Reason{verdict.ColdStart}, j.Reasons...)
			return
		}
	}
}

// explainYoung says what young pods and shards did, and how much is left out.
func (e *evidence) explainYoung(p Plan) []string {
	if e.Young.Canary+e.Young.Baseline == 0 {
		return nil
	}
	say := []string{
		fmt.Sprintf("not compared: %s of the canary and %.0f of the baseline, of pods or shards younger than %s",
			plural.Of(e.Young.Canary, "request", "requests"), e.Young.Baseline, p.Warmup),
	}
	for _, m := range p.Metrics {
		d := e.Metrics[m.Name]
		if d == nil || d.Young == nil || !d.Young.worse(p, m) {
			continue
		}
		t := d.Tests[0]
		if t.Canary.N > 0 && !d.warming(p, m, t) {
			continue // It is not its age.
		}
		text := fmt.Sprintf("the canary starts cold: %s %.3g %% while young", m.Name, 100*d.Young.Canary.rate())
		if t.Canary.N > 0 {
			text += fmt.Sprintf(", %.3g %% after that", 100*t.Canary.rate())
		}
		say = append(say, text)
	}
	return say
}
