// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// profiled is a sharded Service in which all shards may fail at the same time, and the canary's shards
// may have their traffic at other times than the baseline's.
type profiled struct {
	// traffic of one shard in a minute.
	traffic func(canary bool, minute int) float64
	// outage is the minute in which 30 % of all requests fail on both sides.
	outage int
	// odds of a bad request at the canary, as a multiple.
	odds float64
	// fresh of the canary's 20 shards have no past, and their odds are worse times as high.
	fresh int
	worse float64
}

func (f profiled) play(n uint64) *Run {
	rng := rand.New(rand.NewPCG(n, 0x9f0f))
	const shards, canary, rate = 100, 20, 0.01
	before := map[string]Counts{}
	for s := f.fresh; s < shards; s++ {
		before[fmt.Sprint("s/", s)] = Counts{Finished: 3000, Errors: binomial(rng, 3000, rate)}
	}
	p := unevenPlan()
	p.Metrics[0].Negligible = 0
	p.MinCanary, p.MinBaseline = 300, 300
	run := Start(epoch, before)
	for i := 0; run.Last.Verdict == verdict.Running && i < 31; i++ {
		w := Window{From: epoch.Add(time.Duration(i) * time.Minute), To: epoch.Add(time.Duration(i+1) * time.Minute), Shards: map[string]ShardWindow{}, Required: -1}
		for s := range shards {
			own := s < canary
			r := rate
			if own {
				r = odd(r, f.odds)
			}
			if s < f.fresh {
				r = odd(r, f.worse)
			}
			if i == f.outage {
				r = max(r, 0.3)
			}
			n := poisson(rng, f.traffic(own, i))
			c := Counts{Finished: n, Errors: binomial(rng, n, r)}
			side, one := &w.Baseline, ShardWindow{Baseline: c}
			if own {
				side, one = &w.Canary, ShardWindow{Canary: c}
			}
			side.Finished, side.Started, side.Errors = side.Finished+n, side.Started+n, side.Errors+c.Errors
			if n > 0 {
				w.Shards[fmt.Sprint("s/", s)] = one
			}
		}
		run.Analyze(p, w)
	}
	return run
}

func evenly(bool, int) float64 { return 60 }

// later returns traffic in which the canary's shards idle, or have part of it, until a minute.
func later(minute int, part float64) func(bool, int) float64 {
	return func(canary bool, i int) float64 {
		if canary && i < minute {
			return 60 * part
		}
		return 60
	}
}

// An outage of all shards says nothing about the canary, whenever its shards
// have their traffic.
func TestOutageOfAllShards(t *testing.T) {
	t.Parallel()
	runs := 8
	if *shardRuns > 0 {
		runs = *shardRuns
	}
	for _, tc := range []struct {
		name             string
		of               profiled
		mostFail, mostOK float64
	}{
		{"healthy, all the time", profiled{traffic: evenly, outage: 10, odds: 1}, .05, 1},
		{"healthy, the canary's shards begin a minute before the outage", profiled{traffic: later(9, 0), outage: 10, odds: 1}, .05, 1},
		{"healthy, a quarter of the traffic until then", profiled{traffic: later(9, .25), outage: 10, odds: 1}, .05, 1},
		{"3 times the odds, the canary's shards begin after the outage", profiled{traffic: later(4, 0), outage: 3, odds: 3}, 1, .05},
		{"3 times the odds, all the time", profiled{traffic: evenly, outage: 3, odds: 3}, 1, .05},
	} {
		got := map[verdict.Verdict]int{}
		for n := range uint64(runs) {
			got[tc.of.play(n).Last.Verdict]++
		}
		t.Logf("%-65s Fail %5.1f %%  Pass %5.1f %%", tc.name, 100*float64(got[verdict.Fail])/float64(runs), 100*float64(got[verdict.Pass])/float64(runs))
		slack := 1.0 // for so few runs
		if float64(got[verdict.Fail]) > tc.mostFail*float64(runs)+slack || float64(got[verdict.Pass]) > tc.mostOK*float64(runs)+slack {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}

// The comparable shards are fine, but most of what the canary
// handles is not.
func TestFewComparableShardsDoNotPass(t *testing.T) {
	t.Parallel()
	for n := range uint64(3) {
		run := profiled{traffic: evenly, outage: -1, odds: 1, fresh: 15, worse: 100}.play(n)
		if got := run.Last; got.Verdict == verdict.Pass || !strings.Contains(got.Message, "too few shards that can be compared for what the canary handled elsewhere") {
			t.Errorf("%s %v: %s", got.Verdict, got.Reasons, got.Message)
		}
	}
	// A few unknown shards that are no worse do not prevent a Pass.
	passed := 0
	for n := range uint64(3) {
		if (profiled{traffic: evenly, outage: -1, odds: 1, fresh: 3, worse: 1}).play(n).Last.Verdict == verdict.Pass {
			passed++
		}
	}
	if passed == 0 {
		t.Error("no canary passed of which three shards cannot be compared")
	}
}
