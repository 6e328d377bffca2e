// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// otherTimes is a sharded Service whose canary has its traffic at other times than the baseline. No
// window is a bad time.
type otherTimes struct {
	canary int
	// ratio of the canary's odds to the baseline's.
	ratio float64
	// traffic of a shard in one of 120 windows of 15 s.
	traffic func(shard, window int, canary bool) float64
	// sigma of the shards' rates, around 1 %.
	sigma float64
}

func (o otherTimes) play(n uint64) verdict.Verdict {
	const shards, windows, length = 100, 120, 15 * time.Second
	rng := rand.New(rand.NewPCG(n, 0xbad))
	before := map[string]Counts{}
	rates := make([]float64, shards)
	for s := range rates {
		rates[s] = min(0.5, 0.01*lognormal(rng, o.sigma))
		before[fmt.Sprint(s)] = Counts{Finished: 3000, Errors: binomial(rng, 3000, rates[s])}
	}
	run := Start(epoch.Add(-time.Duration(n)), before) //nolint:gosec // n counts runs
	for i := 0; run.Last.Verdict == verdict.Running && i < windows; i++ {
		w := Window{From: epoch.Add(time.Duration(i) * length), To: epoch.Add(time.Duration(i+1) * length), Shards: map[string]ShardWindow{}, Required: -1}
		for s, rate := range rates {
			own := s < o.canary
			c := Counts{Finished: math.Floor(o.traffic(s, i, own))}
			side, one := &w.Baseline, ShardWindow{}
			if own {
				side, rate = &w.Canary, odd(rate, o.ratio)
			}
			c.Errors = binomial(rng, c.Finished, rate)
			if own {
				one.Canary = c
			} else {
				one.Baseline = c
			}
			side.Finished, side.Started, side.Errors = side.Finished+c.Finished, side.Started+c.Finished, side.Errors+c.Errors
			w.Shards[fmt.Sprint(s)] = one
		}
		run.Analyze(unevenPlan(), w)
	}
	return run.Last.Verdict
}

// fromHalf starts the canary's shards at half time; the baseline's keep this part of theirs.
func fromHalf(keeps float64) func(int, int, bool) float64 {
	return func(_, i int, canary bool) float64 {
		switch {
		case canary && i < 60:
			return 0
		case !canary && i >= 60:
			return 50 * keeps
		}
		return 50
	}
}

// ramp raises the canary's traffic while the baseline's falls.
func ramp(_, i int, canary bool) float64 {
	if canary {
		return 100 * float64(i) / 120
	}
	return 100 * (1 - float64(i)/120)
}

// peaks puts the two sides' traffic in different halves.
func peaks(_, i int, canary bool) float64 {
	if canary == (i < 60) {
		return 32
	}
	return 8
}

// bursts gives the canary's shards 20 times the traffic, all of it in one window of 20.
func bursts(s, i int, canary bool) float64 {
	switch {
	case !canary:
		return 5
	case (i+s*7)%20 == 0:
		return 2000
	}
	return 0
}

// allBurst puts every shard's traffic in one window of eight.
func allBurst(s, i int, _ bool) float64 {
	if (i*7+s*13)%8 == 0 {
		return 160
	}
	return 0
}

// The parts of a window's bad requests add up, and have the odds ratio under test.
func TestRatesOfAWindow(t *testing.T) {
	t.Parallel()
	for _, w := range []table{
		{canary: tally{4000, 80}, baseline: tally{300, 3}},
		{canary: tally{2000, 900}, baseline: tally{475, 2}},
		{baseline: tally{50, 7}},
		{canary: tally{50, 49}},
		{canary: tally{1e8, 1}, baseline: tally{3, 3}},
		{canary: tally{1, 1}, baseline: tally{1e9, 1e9 - 1}},
		{canary: tally{1e14, 3e13}, baseline: tally{1e15, 1e12}},
	} {
		for _, ratio := range []float64{1, 1.5, 100, 1e6} {
			got := w.rates(ratio)
			odds := got.Canary / (1 - got.Canary) * (1 - got.Baseline) / got.Baseline
			if bad := w.canary.K + w.baseline.K; math.Abs(w.expects(got)/bad-1) > 1e-6 || got.Canary < 0.99 && math.Abs(odds/ratio-1) > 1e-6 {
				t.Errorf("%v, ratio %v: %v gives %v of %v bad, and a ratio of %v", w, ratio, got, w.expects(got), bad, odds)
			}
		}
	}
	for _, w := range []table{{}, {canary: tally{5, 0}, baseline: tally{9, 0}}} {
		if got := w.rates(2); got != (sides{}) {
			t.Errorf("%v: %v", w, got)
		}
	}
	if got := (table{canary: tally{5, 5}, baseline: tally{9, 9}}).rates(2); got != (sides{1, 1}) {
		t.Errorf("all bad: %v", got)
	}
}

// The time of a canary's traffic says nothing about it: where it has most of a window's requests, it
// does not set its own expectation.
func TestTrafficAtOtherTimes(t *testing.T) {
	t.Parallel()
	const all = 1
	for _, tc := range []struct {
		name                          string
		of                            otherTimes
		mostFail, mostPass, leastFail float64
		// often runs the row in every test run.
		often bool
	}{
		{"2 times, 80 of 100 begin at half, the baseline falls to 0.3", otherTimes{canary: 80, ratio: 2, traffic: fromHalf(.3)}, all, .05, .8, true},
		{"3 times, the same", otherTimes{canary: 80, ratio: 3, traffic: fromHalf(.3)}, all, .05, .8, false},
		{"2 times, the same, the baseline keeps its traffic", otherTimes{canary: 80, ratio: 2, traffic: fromHalf(1)}, all, .05, .8, false},
		{"1.51 times, the same, the baseline falls to 0.3", otherTimes{canary: 80, ratio: 1.51, traffic: fromHalf(.3)}, all, .05, 0, false},
		{"healthy, the same", otherTimes{canary: 80, ratio: 1, traffic: fromHalf(.3)}, .05, all, 0, false},
		{"1.51 times, 50 of 100, ramps", otherTimes{canary: 50, ratio: 1.51, traffic: ramp}, all, .05, 0, true},
		{"2 times, the same", otherTimes{canary: 50, ratio: 2, traffic: ramp}, all, .05, .8, false},
		{"healthy, the same", otherTimes{canary: 50, ratio: 1, traffic: ramp}, .05, all, 0, false},
		{"1.51 times, 50 of 100, peaks in different halves", otherTimes{canary: 50, ratio: 1.51, traffic: peaks}, all, .05, 0, false},
		{"2 times, the same", otherTimes{canary: 50, ratio: 2, traffic: peaks}, all, .05, .8, false},
		{"1.51 times, 5 of 100 with 20 times the traffic in bursts", otherTimes{canary: 5, ratio: 1.51, traffic: bursts}, all, .05, 0, true},
		{"2 times, the same", otherTimes{canary: 5, ratio: 2, traffic: bursts}, all, .05, 0, false},
		{"3 times, the same", otherTimes{canary: 5, ratio: 3, traffic: bursts}, all, .05, 0, false},
		{"healthy, the same", otherTimes{canary: 5, ratio: 1, traffic: bursts}, .05, all, 0, true},
		{"1.51 times, 20 of 100, all in bursts", otherTimes{canary: 20, ratio: 1.51, traffic: allBurst}, all, .05, 0, false},
		{"healthy, the same, sigma 1", otherTimes{canary: 20, ratio: 1, traffic: allBurst, sigma: 1}, .05, all, 0, false},
		{"1.51 times, the same, sigma 1", otherTimes{canary: 20, ratio: 1.51, traffic: allBurst, sigma: 1}, all, .05, 0, false},
		// A limit that docs/lab/judging.md states: the shards with most of a window's requests differ.
		{"healthy, 5 of 100 with 20 times the traffic in bursts, sigma 1", otherTimes{canary: 5, ratio: 1, traffic: bursts, sigma: 1}, .2, all, 0, false},
		{"1.51 times, the same, sigma 1", otherTimes{canary: 5, ratio: 1.51, traffic: bursts, sigma: 1}, all, .1, 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			runs := *shardRuns
			if runs == 0 {
				if runs = 12; !tc.often || testing.Short() {
					t.Skip("only with -shard-runs")
				}
			}
			ends := make([]verdict.Verdict, runs)
			var group sync.WaitGroup
			cores := runtime.GOMAXPROCS(0)
			for core := range cores {
				group.Go(func() {
					for n := core; n < runs; n += cores {
						ends[n] = tc.of.play(*shardSeed + uint64(n)) //nolint:gosec // n counts runs
					}
				})
			}
			group.Wait()
			fail, pass := 0.0, 0.0
			for _, v := range ends {
				switch v {
				case verdict.Fail:
					fail++
				case verdict.Pass, verdict.Warn:
					pass++
				}
			}
			fail, pass = fail/float64(runs), pass/float64(runs)
			t.Logf("| %5.1f | %5.1f |", 100*fail, 100*pass)
			o := outcome{runs: runs}
			if fail > tc.mostFail+o.tolerance(tc.mostFail) || pass > tc.mostPass+o.tolerance(tc.mostPass) || fail < tc.leastFail-o.tolerance(tc.leastFail) {
				t.Errorf("failed in %.3f of the runs, and passed in %.3f", fail, pass)
			}
		})
	}
}
