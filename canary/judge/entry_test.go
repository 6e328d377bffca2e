// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// stateful is the plan of a gate of a stateful Service that sets only its Service.
func stateful() Plan {
	p := shardedPlan()
	for _, m := range []Metric{{Name: "entry", Kind: EntryErrors}, {Name: "slow", Kind: Slow, Threshold: 0.5}} {
		m.MaxOddsRatio, m.Negligible, m.Weight, m.Critical = 1.5, 0.005, 1, true
		p.Metrics = append(p.Metrics, m)
	}
	return p
}

// entering is a sharded Service of 40 shards, six of them the canary's, where a tenth of the requests
// enters at the canary. All shards fail at the same rate. The canary's entry layer fails another part
// before it reaches a shard.
func entering(behind, entry float64) scenario {
	return func(rng *rand.Rand) (source, map[string]Counts) {
		return func(i int) Window {
			w := at(i, arm(150, binomial(rng, 150, behind)), arm(850, binomial(rng, 850, behind)))
			for _, a := range []*Arm{&w.Canary, &w.Baseline} {
				a.Above = map[float64]float64{0.5: 0}
			}
			w.Shards = map[string]ShardWindow{}
			for s := range 40 {
				c := Counts{Finished: 25, Errors: binomial(rng, 25, behind)}
				name := string(rune('a'+s/26)) + string(rune('a'+s%26))
				if s < 6 {
					w.Shards[name] = ShardWindow{Canary: c}
				} else {
					w.Shards[name] = ShardWindow{Baseline: c}
				}
			}
			w.Canary.Entered, w.Baseline.Entered = 100, 900
			w.Required, w.Entered = 0.1, 0.1
			w.Canary.EntryErrors = binomial(rng, 100, entry+(1-entry)*behind)
			w.Baseline.EntryErrors = binomial(rng, 900, behind)
			return w
		}, nil
	}
}

// When only handled requests were judged, a canary with good pods and a failing entry layer passed in
// 500 of 500 runs.
func TestEntryLayerThatFails(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name          string
		behind, entry float64
		want          verdict.Verdict
		runs          int
	}{
		{"answers 500 to all", 0, 1, verdict.Fail, 500},
		{"answers 500 to all, and 1 % fail behind it", 0.01, 1, verdict.Fail, 500},
		{"answers 500 to a twentieth", 0, 0.05, verdict.Fail, 100},
		{"is well", 0, 0, verdict.Pass, 40},
		{"is well, and 0.1 % fail behind it", 0.001, 0, verdict.Pass, 100},
	} {
		o := play(t, stateful(), manyRuns(c.runs), entering(c.behind, c.entry))
		t.Logf("%-45s %s", c.name, o)
		if share := o.verdicts[c.want]; c.want == verdict.Fail && share < 1 || share < 0.9 {
			t.Errorf("%s: %s in %.3f of the runs", c.name, c.want, share)
		}
	}
}

// Both sides have the same mixture behind the entry, so a canary that handles worse counts only once.
func TestEntryIgnoresWhatIsBehindIt(t *testing.T) {
	t.Parallel()
	p := stateful()
	p.Metrics = p.Metrics[1:2]
	o := play(t, p, manyRuns(250), entering(0.05, 0))
	if f := o.verdicts[verdict.Fail]; f > p.Alpha+o.tolerance(p.Alpha) {
		t.Errorf("failed in %.3f of the runs", f)
	}
}

// A Service that does not count entry never passes.
func TestEntryThatIsNotCountedNeverPasses(t *testing.T) {
	t.Parallel()
	for why, c := range map[verdict.Reason]func(a *Arm){
		verdict.NoData:             func(a *Arm) { a.EntryUnknown = "EntryMetricsUnavailable" },
		verdict.InsufficientSample: func(a *Arm) { a.Entered, a.EntryErrors = 1, 0 },
	} {
		windows, _ := entering(0, 0)(rand.New(rand.NewPCG(1, 1)))
		run := Start(epoch, nil)
		for i := 0; run.Last.Verdict == verdict.Running; i++ {
			w := windows(i)
			c(&w.Canary)
			run.Analyze(stateful(), w)
		}
		if run.Last.Verdict != verdict.Inconclusive || !slices.Contains(run.Last.Reasons, why) {
			t.Errorf("%s %v: %s", run.Last.Verdict, run.Last.Reasons, run.Last.Message)
		}
	}
}
