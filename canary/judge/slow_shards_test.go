// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// clinic is a sharded Service whose requests start at random times and have a duration that depends on
// their shard.
type clinic struct {
	rng      *rand.Rand
	takes    []float64
	canary   int
	perShard float64
	hangs    float64
	second   int
	ends     map[int][]ending
	open     [2]float64
}

// ending is the end of one request.
type ending struct {
	side int
	took float64
}

func (c *clinic) begin(shard int, before float64) {
	side := 1
	if shard < c.canary {
		side = 0
	}
	c.open[side]++
	if side == 0 && c.rng.Float64() < c.hangs {
		return
	}
	left := c.rng.ExpFloat64() * c.takes[shard]
	at := c.second + 1 + int(left)
	c.ends[at] = append(c.ends[at], ending{side, before + left})
}

// window returns a window of 15 seconds.
func (c *clinic) window() Window {
	w := Window{From: epoch.Add(time.Duration(c.second) * time.Second), Required: -1, RequestTimeout: 5 * time.Minute}
	arms := [2]*Arm{&w.Canary, &w.Baseline}
	for range 15 {
		for shard := range c.takes {
			for range int(poisson(c.rng, c.perShard)) {
				side := 1
				if shard < c.canary {
					side = 0
				}
				arms[side].Started++
				c.begin(shard, 0)
			}
		}
		c.second++
		for _, e := range c.ends[c.second] {
			arms[e.side].Finished++
			arms[e.side].Took += e.took
			c.open[e.side]--
		}
		delete(c.ends, c.second)
	}
	w.To = epoch.Add(time.Duration(c.second) * time.Second)
	w.Canary.Open, w.Baseline.Open = c.open[0], c.open[1]
	return w
}

// failed reports whether the canary fails within half an hour for its open requests.
func (c *clinic) failed() bool {
	p := shardedPlan()
	p.Metrics[0].Negligible = 0 // no Pass ends the run
	run := Start(epoch, nil)
	for c.second < 1900 && run.Last.Verdict == verdict.Running {
		run.Analyze(p, c.window())
	}
	return run.Evidence.Open.Failed
}

// TestShardsWhoseRequestsTakeLonger: chance decides which shards a canary has, so the duration of their
// requests is not its fault.
func TestShardsWhoseRequestsTakeLonger(t *testing.T) {
	t.Parallel()
	runs := 4
	if *openRuns > 0 {
		runs = *openRuns
	}
	for _, tc := range []struct {
		name             string
		canary           int
		slow, slowTakes  float64
		takes, sigma     float64
		perShard, hangs  float64
		fewest, mostFail float64
	}{
		{"all alike, 1 s", 5, 0, 0, 1, 0, 1, 0, 0, .03},
		{"one shard in twenty takes 20 s, others 0.1 s", 5, .05, 20, .1, 0, 1, 0, 0, .03},
		{"the same, 10 shards of the canary's", 10, .05, 20, .1, 0, 1, 0, 0, .03},
		{"one in twenty takes 5 s, 5 requests a second each", 5, .05, 5, .1, 0, 5, 0, 0, .03},
		{"lognormal, sigma 1.5", 5, 0, 0, 1, 1.5, 2, 0, 0, .03},
		{"lognormal, sigma 2", 5, 0, 0, 1, 2, 2, 0, 0, .03},
		{"one in twenty takes 20 s, and 5 % of the canary's hang", 10, .05, 20, .1, 0, 1, .05, .9, 1},
		{"all alike, 1 s, and 5 % hang", 10, 0, 0, 1, 0, 1, .05, .9, 1},
	} {
		failed := 0.0
		for n := range runs {
			rng := rand.New(rand.NewPCG(uint64(n), 4711))
			c := &clinic{rng: rng, canary: tc.canary, perShard: tc.perShard, hangs: tc.hangs, ends: map[int][]ending{}}
			for range 100 {
				takes := tc.takes
				if rng.Float64() < tc.slow {
					takes = tc.slowTakes
				}
				if tc.sigma > 0 {
					takes *= lognormal(rng, tc.sigma)
				}
				c.takes = append(c.takes, takes)
			}
			hangs := c.hangs
			c.hangs = 0
			for shard, takes := range c.takes { // requests that were open when the run began
				for range int(poisson(rng, tc.perShard*takes)) {
					c.begin(shard, rng.ExpFloat64()*takes)
				}
			}
			c.hangs = hangs
			if c.failed() {
				failed++
			}
		}
		t.Logf("%-60s %5.1f %%", tc.name, 100*failed/float64(runs))
		if share := failed / float64(runs); share < tc.fewest || share > max(tc.mostFail, 1/float64(runs)) {
			t.Errorf("%s: %.0f of %d failed", tc.name, failed, runs)
		}
	}
}

// TestStreamsThatBeginWithTheCanary measures a limit that docs/lab/judging.md states: a stream that has not
// ended looks like a hanging request. The baseline's streams are in a steady state, and the canary's
// start with it.
func TestStreamsThatBeginWithTheCanary(t *testing.T) {
	t.Parallel()
	if *openRuns == 0 {
		t.Skip("only with -open-runs")
	}
	for _, tc := range []struct {
		canary, slow int
		takes        float64
		mostFail     float64
	}{
		{5, 2, 300, .1},
		{20, 2, 600, .1},
		{10, 5, 600, .05},
		{10, 5, 120, .03},
	} {
		failed := 0.0
		for n := range *openRuns {
			rng := rand.New(rand.NewPCG(uint64(n)+99, 4711))
			c := &clinic{rng: rng, canary: tc.canary, perShard: 1, ends: map[int][]ending{}}
			for range 100 {
				c.takes = append(c.takes, .1)
			}
			for _, shard := range rng.Perm(100)[:tc.slow] {
				c.takes[shard] = tc.takes
			}
			for shard, takes := range c.takes[tc.canary:] {
				for range int(poisson(rng, takes)) {
					c.begin(tc.canary+shard, rng.ExpFloat64()*takes)
				}
			}
			if c.failed() {
				failed++
			}
		}
		share := failed / float64(*openRuns)
		t.Logf("%d of 100 shards have streams of %v s, the canary has %d shards: %5.1f %%", tc.slow, tc.takes, tc.canary, 100*share)
		if share > tc.mostFail+1/float64(*openRuns) {
			t.Errorf("%.0f of %d failed", failed, *openRuns)
		}
	}
}
