// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// interval is the length of a window in tests.
const interval = 30 * time.Second

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// errorsOnly is the plan of a gate that sets only its Service.
func errorsOnly() Plan {
	return Plan{
		Alpha: 0.05, Beta: 0.05,
		Warmup: 0, MinDuration: 2 * time.Minute, Deadline: 30 * time.Minute,
		MinCanary: 300, MinBaseline: 300, MinShards: 3,
		Metrics: []Metric{{
			Name: "errors", Kind: Errors, MaxOddsRatio: 1.5, Negligible: 0.005, Weight: 1, Critical: true,
		}},
		Exposure: Exposure{Min: 0.85, Max: 2},
		Limits:   Limits{Restarts: 0, Unaccounted: 0.01},
		Score:    Score{Pass: 90, Warn: 75, MinCoverage: 0.5},
	}
}

func shardedPlan() Plan {
	p := errorsOnly()
	p.Sharded = true
	return p
}

func (p Plan) withLimit(limit float64) Plan {
	p.Metrics = append([]Metric{}, p.Metrics...)
	for i := range p.Metrics {
		p.Metrics[i].Limit = limit
	}
	return p
}

// at returns window number i, from 0.
func at(i int, canary, baseline Arm) Window {
	w := Window{
		From: epoch.Add(time.Duration(i) * interval), To: epoch.Add(time.Duration(i+1) * interval),
		Canary: canary, Baseline: baseline, Required: -1,
	}
	if all := canary.Finished + baseline.Finished; all > 0 {
		w.Handled = canary.Finished / all
		w.Required = w.Handled
	}
	return w
}

// arm has these finished requests and errors; all finished requests were started.
func arm(finished, errors float64) Arm {
	return Arm{Finished: finished, Errors: errors, Started: finished}
}

// binomial draws how many of n happen with probability p, by the gaps between them.
func binomial(rng *rand.Rand, n, p float64) float64 {
	if p <= 0 {
		return 0
	}
	if p >= 1 {
		return n
	}
	if p > 0.5 {
		return n - binomial(rng, n, 1-p)
	}
	k, log := 0.0, math.Log1p(-p)
	for at := math.Floor(math.Log(rng.Float64()) / log); at < n; k++ {
		at += 1 + math.Floor(math.Log(rng.Float64())/log)
	}
	return k
}

func lognormal(rng *rand.Rand, sigma float64) float64 {
	return math.Exp(sigma*rng.NormFloat64() - sigma*sigma/2)
}

// odd returns the ratio with the odds of p, times a factor.
func odd(p, times float64) float64 { return times * p / (1 - p + times*p) }

// source returns window number i of a run.
type source func(i int) Window

// scenario makes a source, and the shards' counts from before.
type scenario func(rng *rand.Rand) (source, map[string]Counts)

// steady rates: 1,000 requests in a window, 5 % of them the canary's.
func steady(baseline, canary float64) scenario {
	return func(rng *rand.Rand) (source, map[string]Counts) {
		return func(i int) Window {
			return at(i, arm(50, binomial(rng, 50, canary)), arm(950, binomial(rng, 950, baseline)))
		}, nil
	}
}

// outcome of many runs, as shares.
type outcome struct {
	runs     int
	verdicts map[verdict.Verdict]float64
	requests map[verdict.Verdict][]float64
}

// play plays many runs of a scenario to their end, each with its own seed.
func play(t testing.TB, p Plan, runs int, s scenario) outcome {
	t.Helper()
	ends := make([]verdict.Judgement, runs)
	var next atomic.Uint64
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for {
				n := next.Add(1) - 1
				if n >= uint64(len(ends)) {
					return
				}
				window, before := s(rand.New(rand.NewPCG(n, 7)))
				next := window(0)
				run := started(next, before, rand.New(rand.NewPCG(n, 8)))
				for i := 1; ; i++ {
					if run.Analyze(p, next); run.Last.Verdict != verdict.Running {
						break
					}
					next = window(i)
				}
				ends[n] = run.Last
			}
		})
	}
	group.Wait()
	o := outcome{runs: runs, verdicts: map[verdict.Verdict]float64{}, requests: map[verdict.Verdict][]float64{}}
	for _, j := range ends {
		o.verdicts[j.Verdict]++
		o.requests[j.Verdict] = append(o.requests[j.Verdict], float64(j.Canary.Requests))
	}
	for v := range o.verdicts {
		o.verdicts[v] /= float64(runs)
	}
	return o
}

// tolerance is the chance error of a share of that many runs: three standard deviations.
func (o outcome) tolerance(share float64) float64 {
	return 3 * math.Sqrt(share*(1-share)/float64(o.runs))
}

// analysesAt are the ends of windows in sharded scenarios. Only the analyses count there, and fewer
// windows are faster.
var analysesAt = []time.Duration{112500 * time.Millisecond, 225 * time.Second, 450 * time.Second, 900 * time.Second, 1800 * time.Second}

// fleet is a sharded Service with 2,000 requests a minute on its shards, some of them the canary's.
type fleet struct {
	shards, canary int
	// rate is the mean error rate; sigma is that of the shards' lognormal spread.
	rate, sigma float64
	// broken is the part of the entities, five per shard, that fail half of their requests.
	broken float64
	// drift of each shard between analyses.
	drift float64
	// ratio of the canary's odds to the baseline's.
	ratio float64
	// forgetful means that the past before the split is unknown.
	forgetful bool
	// outage that hits all shards at the third analysis.
	outage float64
	// begins is the analysis after which ratio applies.
	begins int
}

func (f fleet) scenario(rng *rand.Rand) (source, map[string]Counts) {
	rates, names := make([]float64, f.shards), make([]string, f.shards)
	before := map[string]Counts{}
	for s := range rates {
		rates[s] = min(0.5, f.rate*lognormal(rng, f.sigma))
		for range 5 {
			if rng.Float64() < f.broken {
				rates[s] += 0.5 / 5
			}
		}
		names[s] = string(rune('a'+s/26)) + string(rune('a'+s%26))
		n := math.Round(60000 / float64(f.shards))
		if !f.forgetful {
			before[names[s]] = Counts{Finished: n, Errors: binomial(rng, n, rates[s])}
		}
	}
	return func(i int) Window {
		w := Window{From: epoch, To: epoch.Add(analysesAt[i]), Shards: map[string]ShardWindow{}, Required: -1}
		length := analysesAt[i]
		if i > 0 {
			w.From = epoch.Add(analysesAt[i-1])
			length -= analysesAt[i-1]
		}
		n := math.Round(2000 * length.Minutes() / float64(f.shards))
		for s := range rates {
			rates[s] = min(0.5, rates[s]*lognormal(rng, f.drift))
			rate := rates[s]
			if i == 2 {
				rate = max(rate, f.outage)
			}
			one, side := ShardWindow{}, &w.Baseline
			c := Counts{Finished: n, Errors: binomial(rng, n, rate)}
			if s < f.canary {
				if i >= f.begins {
					rate = odd(rate, max(f.ratio, 0))
				}
				c.Errors, side = binomial(rng, n, rate), &w.Canary
				one.Canary = c
			} else {
				one.Baseline = c
			}
			side.Finished += n
			side.Started += n
			side.Errors += c.Errors
			w.Shards[names[s]] = one
		}
		w.Handled = w.Canary.Finished / (w.Canary.Finished + w.Baseline.Finished)
		return w
	}, before
}
