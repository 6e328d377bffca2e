// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// The number of runs of each scenario of shards, and the first seed. A table for docs/lab/judging.md takes
// a thousand of each, and half an hour of two cores.
var (
	shardRuns = flag.Int("shard-runs", 0, "how many runs of each scenario with uneven shards; 0 for a few of the most important ones")
	shardSeed = flag.Uint64("shard-seed", 1, "where the seeds of these runs begin")
)

// uneven is a sharded Service whose shards have different numbers of requests.
type uneven struct {
	shards, canary int
	// each is the requests per minute of a baseline shard; 0 means 200.
	each float64
	// traffic of the canary's shards since the split, as a multiple; 0 means 1. If always, they had as
	// much before. spread is the sigma of a lognormal, by shard.
	traffic, spread float64
	always          bool
	// rate is the mean error rate; sigma is that of the shards' lognormal spread.
	rate, sigma float64
	// broken entities, five per shard, fail half of their requests. drift is that of each shard between
	// analyses, outage hits all at the third analysis. hot gives one shard of twenty ten times the
	// requests.
	broken, drift, outage float64
	hot                   bool
	// ratio of the canary's odds to the baseline's; 0 means 1. only is how many of its shards are
	// affected; 0 means all.
	ratio float64
	only  int
	// forgetful means an unknown past. newCanary and newBaseline shards have none, and newRatio times
	// the odds of others.
	forgetful              bool
	newCanary, newBaseline int
	newRatio               float64
}

func (f uneven) scenario(rng *rand.Rand) (source, map[string]Counts) {
	or := func(v, otherwise float64) float64 {
		if v == 0 {
			return otherwise
		}
		return v
	}
	rates, busy := make([]float64, f.shards), make([]float64, f.shards)
	before := map[string]Counts{}
	name := func(s int) string { return fmt.Sprintf("shard/%d", s) }
	fresh := func(s int) bool { return s < f.newCanary || s >= f.shards-f.newBaseline }
	for s := range rates {
		rates[s] = min(0.5, f.rate*lognormal(rng, f.sigma))
		for range 5 {
			if rng.Float64() < f.broken {
				rates[s] += 0.5 / 5
			}
		}
		busy[s] = or(f.each, 200) * lognormal(rng, f.spread)
		if f.hot && rng.Float64() < 0.05 {
			busy[s] *= 10
		}
		past := math.Round(30 * busy[s])
		if s < f.canary {
			busy[s] *= or(f.traffic, 1)
			if f.always {
				past = math.Round(30 * busy[s])
			}
		}
		if fresh(s) {
			rates[s] = odd(rates[s], or(f.newRatio, 1))
		} else if !f.forgetful {
			before[name(s)] = Counts{Finished: past, Errors: binomial(rng, past, rates[s])}
		}
	}
	return func(i int) Window {
		w := Window{From: epoch, To: epoch.Add(analysesAt[i]), Shards: map[string]ShardWindow{}, Required: -1}
		length := analysesAt[i]
		if i > 0 {
			w.From = epoch.Add(analysesAt[i-1])
			length -= analysesAt[i-1]
		}
		for s := range rates {
			rates[s] = min(0.5, rates[s]*lognormal(rng, f.drift))
			rate, n := rates[s], math.Round(busy[s]*length.Minutes())
			if i == 2 {
				rate = max(rate, f.outage)
			}
			one, side := ShardWindow{}, &w.Baseline
			if s < f.canary {
				side = &w.Canary
				if f.only == 0 || s < f.only {
					rate = odd(rate, or(f.ratio, 1))
				}
			}
			c := Counts{Finished: n, Errors: binomial(rng, n, rate)}
			if s < f.canary {
				one.Canary = c
			} else {
				one.Baseline = c
			}
			side.Finished += n
			side.Started += n
			side.Errors += c.Errors
			w.Shards[name(s)] = one
		}
		w.Handled = w.Canary.Finished / (w.Canary.Finished + w.Baseline.Finished)
		return w
	}, before
}

// unevenPlan is the plan of one of two metrics, judged only by comparison.
func unevenPlan() Plan {
	p := shardedPlan()
	p.Alpha /= 2
	p.Metrics[0].Negligible = 0
	p.MinCanary, p.MinBaseline = 1, 1
	return p
}

// ends returns the shares of runs that failed and passed.
func (f uneven) ends(p Plan, runs int, seed uint64) (fail, pass float64) {
	var group sync.WaitGroup
	ends := make([]verdict.Verdict, runs)
	cores := runtime.GOMAXPROCS(0)
	for core := range cores {
		group.Go(func() {
			for n := core; n < runs; n += cores {
				window, before := f.scenario(rand.New(rand.NewPCG(seed+uint64(n), 0x5eed))) //nolint:gosec // n counts runs
				// The start time seeds the draws of a run.
				run := Start(epoch.Add(-time.Duration(n)), before)
				for i := 0; run.Last.Verdict == verdict.Running && i < len(analysesAt); i++ {
					run.Analyze(p, window(i))
				}
				ends[n] = run.Last.Verdict
			}
		})
	}
	group.Wait()
	for _, v := range ends {
		switch v {
		case verdict.Fail:
			fail++
		case verdict.Pass, verdict.Warn:
			pass++
		}
	}
	return fail / float64(runs), pass / float64(runs)
}

// The guarantees for shards, on seeds that were not used for any choice. The rows are those of
// docs/lab/judging.md; each gives how often a run may fail or pass at most, or must at least.
func TestUnevenShards(t *testing.T) {
	t.Parallel()
	type bounds struct{ fail, power, pass float64 }
	healthy, worse := bounds{fail: 0.05}, bounds{pass: 0.05}
	for _, tc := range []struct {
		name string
		of   uneven
		want bounds
		// often runs the row in every test run.
		often bool
	}{
		{"healthy: 5 of 100 shards, 1 %", uneven{shards: 100, canary: 5, rate: 0.01, each: 20}, healthy, false},
		{"healthy: a twentieth of the traffic, 5 of 100, 1 %", uneven{shards: 100, canary: 5, rate: 0.01, traffic: 0.05}, healthy, true},
		{"healthy: a twentieth, few requests", uneven{shards: 100, canary: 5, rate: 0.01, each: 20, traffic: 0.05}, healthy, false},
		{"healthy: a twentieth, before the split too", uneven{shards: 100, canary: 5, rate: 0.01, traffic: 0.05, always: true}, healthy, false},
		{"healthy: a twentieth, no history", uneven{shards: 100, canary: 5, rate: 0.01, traffic: 0.05, forgetful: true}, healthy, true},
		{"healthy: a twentieth, no history, sigma 1", uneven{shards: 100, canary: 5, rate: 0.01, traffic: 0.05, forgetful: true, sigma: 1}, healthy, false},
		{"healthy: a tenth, 10 of 100, 0.5 %", uneven{shards: 100, canary: 10, rate: 0.005, traffic: 0.1, each: 20}, healthy, false},
		{"healthy: a twentieth, 20 of 100, 1 %", uneven{shards: 100, canary: 20, rate: 0.01, traffic: 0.05, each: 20}, healthy, false},
		{"healthy: a twentieth, 20 of 100, 0.2 %", uneven{shards: 100, canary: 20, rate: 0.002, traffic: 0.05}, healthy, false},
		{"healthy: 20 times, 5 of 100, 0.1 %", uneven{shards: 100, canary: 5, rate: 0.001, traffic: 20, each: 20}, healthy, true},
		{"healthy: 20 times, no history, sigma 1", uneven{shards: 100, canary: 5, rate: 0.01, traffic: 20, each: 20, forgetful: true, sigma: 1}, healthy, false},
		{"healthy: 20 times, sigma 1.5", uneven{shards: 100, canary: 5, rate: 0.01, traffic: 20, each: 20, sigma: 1.5}, healthy, false},
		{"healthy: 20 times, drift 0.3", uneven{shards: 100, canary: 5, rate: 0.01, traffic: 20, each: 20, sigma: 1, drift: 0.3}, healthy, false},
		{"healthy: a twentieth, drift 0.3", uneven{shards: 100, canary: 5, rate: 0.01, traffic: 0.05, sigma: 1, drift: 0.3}, healthy, false},
		{"healthy: a twentieth, broken entities", uneven{shards: 100, canary: 5, rate: 0.01, traffic: 0.05, broken: 0.02}, healthy, false},
		{"healthy: 20 times, broken entities", uneven{shards: 100, canary: 5, rate: 0.01, traffic: 20, each: 20, broken: 0.02}, healthy, false},
		{"healthy: a twentieth, an outage of all", uneven{shards: 100, canary: 5, rate: 0.01, traffic: 0.05, outage: 0.3}, healthy, false},
		{"healthy: hot shards", uneven{shards: 100, canary: 5, rate: 0.01, each: 20, sigma: 1, hot: true}, healthy, false},
		{"healthy: traffic of sigma 1.5", uneven{shards: 100, canary: 5, rate: 0.01, each: 20, sigma: 1, spread: 1.5}, healthy, false},
		{"healthy: a twentieth, 20 % errors", uneven{shards: 100, canary: 5, rate: 0.2, traffic: 0.05, each: 20}, healthy, false},
		{"healthy: 95 of 100, 20 times", uneven{shards: 100, canary: 95, rate: 0.01, traffic: 20, each: 20, sigma: 1}, healthy, false},
		{"healthy: 4 of 14, a twentieth", uneven{shards: 14, canary: 4, rate: 0.01, traffic: 0.05, sigma: 1}, healthy, false},

		{"worse: 3 times the odds, 5 of 100, sigma 0", uneven{shards: 100, canary: 5, rate: 0.01, each: 20, ratio: 3}, bounds{power: 0.9}, true},
		{"worse: 3 times the odds, sigma 1", uneven{shards: 100, canary: 5, rate: 0.01, each: 20, ratio: 3, sigma: 1}, bounds{power: 0.828}, true},
		{"worse: 3 times the odds, sigma 1.5", uneven{shards: 100, canary: 5, rate: 0.01, each: 20, ratio: 3, sigma: 1.5}, bounds{power: 0.639}, false},
		{"worse: 3 times the odds, no history, sigma 1", uneven{shards: 100, canary: 5, rate: 0.01, each: 20, ratio: 3, sigma: 1, forgetful: true}, bounds{power: 0.324}, false},
		{"worse: 3 times the odds, traffic of sigma 1.5", uneven{shards: 100, canary: 5, rate: 0.01, each: 20, ratio: 3, sigma: 1, spread: 1.5}, bounds{}, false},
		{"worse: 0.01 -> 5 %", uneven{shards: 100, canary: 5, rate: 0.0001, each: 20, ratio: 526}, bounds{power: 0.9}, true},
		{"worse: none -> 5 %", uneven{shards: 100, canary: 5, rate: 1e-9, each: 20, ratio: 0.0526e9}, bounds{power: 0.9}, false},
		{"worse: one of 5 shards fails all", uneven{shards: 100, canary: 5, rate: 0.01, each: 20, ratio: 1e6, only: 1}, bounds{}, false},

		{"1.51 times: 5 of 100, a twentieth", uneven{shards: 100, canary: 5, rate: 0.01, traffic: 0.05, ratio: 1.51}, worse, true},
		{"1.51 times: a twentieth, 20 of 100", uneven{shards: 100, canary: 20, rate: 0.01, traffic: 0.05, ratio: 1.51}, worse, false},
		{"1.51 times: a twentieth, 20 of 100, few requests", uneven{shards: 100, canary: 20, rate: 0.01, traffic: 0.05, ratio: 1.51, each: 20}, worse, false},
		{"1.51 times: a twentieth, no history", uneven{shards: 100, canary: 20, rate: 0.01, traffic: 0.05, ratio: 1.51, forgetful: true}, worse, false},
		{"1.51 times: 20 times", uneven{shards: 100, canary: 5, rate: 0.01, traffic: 20, ratio: 1.51, each: 20}, worse, true},
		{"1.51 times: 20 times, sigma 1.5", uneven{shards: 100, canary: 5, rate: 0.01, traffic: 20, ratio: 1.51, each: 20, sigma: 1.5}, worse, false},
		{"1.51 times: as much, sigma 1", uneven{shards: 100, canary: 20, rate: 0.01, ratio: 1.51, sigma: 1}, worse, false},
		{"1.51 times: as much, 30 % errors", uneven{shards: 100, canary: 20, rate: 0.3, ratio: 1.51, each: 20}, worse, false},
		{"1.51 times: a twentieth, drift 0.3", uneven{shards: 100, canary: 20, rate: 0.01, traffic: 0.05, ratio: 1.51, sigma: 1, drift: 0.3}, worse, false},
		{"1.51 times: a twentieth, broken entities", uneven{shards: 100, canary: 20, rate: 0.01, traffic: 0.05, ratio: 1.51, broken: 0.02}, worse, false},
		{"1.51 times: traffic of sigma 1.5", uneven{shards: 100, canary: 20, rate: 0.01, ratio: 1.51, sigma: 1, spread: 1.5}, worse, false},
		{"healthy: 5 of 100, as much", uneven{shards: 100, canary: 5, rate: 0.01}, bounds{fail: 0.05}, false},
		{"healthy: 5 of 100, a twentieth", uneven{shards: 100, canary: 5, rate: 0.01, traffic: 0.05}, bounds{fail: 0.05}, false},
		{"healthy: 20 of 100, a twentieth", uneven{shards: 100, canary: 20, rate: 0.01, traffic: 0.05}, bounds{fail: 0.05}, false},

		{"new: all of the canary's, 1.3 times the odds", uneven{shards: 100, canary: 20, rate: 0.01, newCanary: 20, newRatio: 1.3}, healthy, false},
		{"new: all of the canary's, 1.6 times", uneven{shards: 100, canary: 20, rate: 0.01, newCanary: 20, newRatio: 1.6}, healthy, false},
		{"new: all of the canary's, twice", uneven{shards: 100, canary: 20, rate: 0.01, newCanary: 20, newRatio: 2}, healthy, true},
		{"new: half of the canary's, twice", uneven{shards: 100, canary: 20, rate: 0.01, newCanary: 10, newRatio: 2}, healthy, true},
		{"new: all of the canary's and ten of the baseline's, twice", uneven{shards: 100, canary: 20, rate: 0.01, newCanary: 20, newBaseline: 10, newRatio: 2}, healthy, false},
		{"new: the same, and the canary 3 times the odds", uneven{shards: 100, canary: 20, rate: 0.01, newCanary: 20, newBaseline: 10, newRatio: 2, ratio: 3}, bounds{power: 0.9}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			runs := *shardRuns
			if runs == 0 {
				if runs = 50; !tc.often || testing.Short() {
					t.Skip("only with -shard-runs")
				}
			}
			fail, pass := tc.of.ends(unevenPlan(), runs, *shardSeed)
			t.Logf("| %5.1f | %5.1f |", 100*fail, 100*pass)
			o := outcome{runs: runs}
			switch w := tc.want; {
			case w.fail > 0 && fail > w.fail+o.tolerance(w.fail):
				t.Errorf("failed in %.3f of the runs, %v is promised", fail, w.fail)
			case w.pass > 0 && pass > w.pass+o.tolerance(w.pass):
				t.Errorf("passed in %.3f of the runs, %v is promised", pass, w.pass)
			case w.power > 0 && fail < w.power-o.tolerance(w.power):
				t.Errorf("failed in %.3f of the runs only, %v is promised", fail, w.power)
			}
		})
	}
}

// The fewest shards with which a much worse canary fails: with the three metrics of a sharded Service 3
// of 8 and 3 of 9 never fail, and 3 of 12 do.
func TestFewShards(t *testing.T) {
	t.Parallel()
	p := unevenPlan()
	p.Alpha = 0.05 / 3
	runs := manyRuns(40)
	for _, tc := range []struct {
		shards    int
		low, high float64
	}{{8, 0, 0}, {9, 0, 0}, {12, 0.95, 1}, {14, 0.95, 1}} {
		of := uneven{shards: tc.shards, canary: 3, rate: 0.01, each: 100, ratio: 40}
		if fail, _ := of.ends(p, runs, 1); fail < tc.low || fail > tc.high {
			t.Errorf("3 of %d shards, much worse: failed in %.2f of the runs", tc.shards, fail)
		}
	}
}
