// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// bounds of the histogram of an application that implements the neutral contract.
var bounds = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}

// everything is a plan with metrics of all kinds.
func everything(sharded bool) Plan {
	p := errorsOnly().withLimit(0.1)
	p.Sharded, p.Warmup = sharded, time.Minute
	p.Metrics = append(p.Metrics,
		Metric{Name: "entry", Kind: EntryErrors, MaxOddsRatio: 1.5, Negligible: 0.005, Limit: 0.2, Weight: 1},
		Metric{Name: "slow", Kind: Slow, Threshold: 0.5, MaxOddsRatio: 2, Negligible: 0.01, Weight: 2},
		Metric{Name: "anywhere", Kind: SlowerAnywhere, MaxOddsRatio: 1.5, Negligible: 0.005, Weight: 1, DryRun: true})
	return p
}

// wild is a window with arbitrary content.
func wild(rng *rand.Rand, i int, shards int) Window {
	busy := func(n float64) Arm {
		a := arm(n, binomial(rng, n, 0.03))
		a.Entered, a.EntryErrors = n, binomial(rng, n, 0.03)
		a.Above = map[float64]float64{}
		left := n
		for _, b := range bounds {
			left = binomial(rng, left, 0.8)
			a.Above[b] = left
		}
		if rng.IntN(50) == 0 {
			a.DurationsUnknown = "other buckets"
		}
		if rng.IntN(50) == 0 {
			a.OutcomesUnknown = "HTTP/2"
		}
		return a
	}
	w := at(i, busy(float64(rng.IntN(60))), busy(float64(rng.IntN(900))))
	w.Pods = map[string]Arm{}
	for i := range rng.IntN(9) {
		w.Pods[fmt.Sprint(i)] = busy(float64(rng.IntN(90)))
	}
	w.Unsettled = rng.IntN(5) == 0
	w.Shards = map[string]ShardWindow{}
	for s := range shards {
		c := Counts{Finished: float64(rng.IntN(50)), Errors: float64(rng.IntN(3)), Slow: float64(rng.IntN(9))}
		one := ShardWindow{Baseline: c}
		if s%7 == 0 {
			one = ShardWindow{Canary: c}
		}
		if rng.IntN(500) == 0 {
			one.Canary.Finished++
		}
		w.Shards[fmt.Sprintf("Cart/%d", s)] = one
	}
	return w
}

// A run that is stored and read between two analyses gives the same judgements as one that is not.
func TestRunIsResumed(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 3))
		p := everything(seed%2 == 0)
		before := map[string]Counts{}
		for s := range 40 {
			if seed%3 > 0 {
				before[fmt.Sprintf("Cart/%d", s)] = Counts{Finished: 500, Errors: float64(rng.IntN(9)), Slow: float64(rng.IntN(50))}
			}
		}
		start := time.Now() // With a monotonic clock and a zone, as real ones have.
		whole, written := Start(start, before), Start(start, before)
		if seed%4 < 2 {
			past := make([]PodPast, 6)
			for i := range past {
				past[i] = PodPast{Watched: time.Hour, Errors: Expected{float64(i), 2.5}}
			}
			whole.Remember(past)
			written.Remember(past)
		}
		for i := range 70 {
			w := wild(rng, i, 40)
			w.From, w.To = start.Add(w.From.Sub(epoch)), start.Add(w.To.Sub(epoch))
			text, err := json.Marshal(written)
			if err != nil {
				t.Fatalf("seed %d, analysis %d: %v", seed, i, err)
			}
			written = &Run{}
			if err := json.Unmarshal(text, written); err != nil {
				t.Fatalf("seed %d, analysis %d: %v", seed, i, err)
			}
			// Evidence is stored only until there is a verdict.
			if err := written.Check(p); err != nil && written.Last.Verdict == verdict.Running {
				t.Fatalf("seed %d, analysis %d: %v", seed, i, err)
			}
			a, b := whole.Analyze(p, w), written.Analyze(p, w)
			if !reflect.DeepEqual(a, b) {
				t.Fatalf("seed %d, analysis %d: without writing\n%+v\nwith\n%+v", seed, i, a, b)
			}
		}
		if whole.Last.Verdict == verdict.Running {
			t.Errorf("seed %d: no verdict after the deadline", seed)
		}
	}
}

// What a run keeps is empty at first, and JSON leaves out what is empty. A run that was read then takes whatever comes
// next: requests with and without codes, pods, restarts and shards.
func TestRunIsResumedBeforeItsFirstRequest(t *testing.T) {
	t.Parallel()
	for _, sharded := range []bool{false, true} {
		p := everything(sharded)
		p.Limits.CompareRestarts = true
		p.Metrics = append(p.Metrics, Metric{Name: "client", Kind: ClientErrors, MaxOddsRatio: 3, Negligible: 0.005, Weight: 1})
		rng := rand.New(rand.NewPCG(1, 3))
		whole, written := Start(epoch, nil), Start(epoch, nil)
		for i := range 20 {
			w := at(i, arm(0, 0), arm(0, 0))
			if i >= 4 {
				w = wild(rng, i, 40)
				w.Canary.Codes, w.Baseline.Codes = map[string]float64{"200": 50, "404": 1, "": 1}, map[string]float64{"200": 90, "302": 9}
				w.Lives = []Life{{Pod: "new", Canary: true, Ran: time.Minute, Restarts: 1}, {Pod: "old", Ran: time.Minute, Restarts: 1}}
			}
			text, err := json.Marshal(written)
			if err != nil {
				t.Fatal(err)
			}
			written = &Run{}
			if err := json.Unmarshal(text, written); err != nil {
				t.Fatal(err)
			}
			a, b := whole.Analyze(p, w), written.Analyze(p, w)
			if !reflect.DeepEqual(a, b) {
				t.Fatalf("sharded %v, analysis %d: without writing\n%+v\nwith\n%+v", sharded, i, a, b)
			}
		}
	}
}

// mostBytes is the largest size of a run in a Kubernetes object.
const mostBytes = 100 << 10

func TestRunStaysSmall(t *testing.T) {
	t.Parallel()
	before := map[string]Counts{}
	name := func(s int) string { return fmt.Sprintf("a-rather-long-type-of-entity/%d", 100000+s) }
	for s := range MaxShards {
		before[name(s)] = Counts{Finished: 123456789, Errors: 12345678, Slow: 12345678}
	}
	p := everything(true)
	run := Start(epoch, before)
	for i := range 4 {
		w := wild(rand.New(rand.NewPCG(1, uint64(i))), i, 0)
		for s := range MaxShards + 300 {
			c := Counts{Finished: 123456789, Errors: 12345678, Slow: 12345678}
			w.Shards[name(s)] = ShardWindow{Canary: c, Baseline: c}
		}
		run.Analyze(p, w)
	}
	text, err := json.Marshal(run)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > mostBytes {
		t.Errorf("a run has %d bytes", len(text))
	}
	t.Logf("%d bytes", len(text))
	if run.Evidence.Shards.Ignored != 300 {
		t.Errorf("%d shards ignored, not 300", run.Evidence.Shards.Ignored)
	}
}

// An ordinary Service has no shards, but may have many pods, windows and bounds.
func TestRunOfManyPodsStaysSmall(t *testing.T) {
	t.Parallel()
	p := everything(false)
	p.Deadline, p.MinCanary = time.Hour*1000, 1e15
	run := Start(epoch, nil)
	rng := rand.New(rand.NewPCG(1, 1))
	big := func() Arm {
		a := arm(123456, 1234)
		a.Entered, a.EntryErrors, a.Above = 123456, 1234, map[float64]float64{}
		for _, b := range bounds {
			a.Above[b] = float64(rng.IntN(50000))
		}
		return a
	}
	for i := range 3 * mostWindows {
		w := at(i, big(), big())
		w.Pods = map[string]Arm{}
		for pod := range 3 * mostPods {
			w.Pods[fmt.Sprintf("01234567-%04d", pod)] = big()
		}
		run.Analyze(p, w)
	}
	text, err := json.Marshal(run)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > mostBytes {
		t.Errorf("a run has %d bytes", len(text))
	}
	t.Logf("%d bytes", len(text))
}

// Impossible counts cause no panic, no value that JSON cannot hold, and no Pass.
func TestNonsenseIsSurvived(t *testing.T) {
	t.Parallel()
	for _, a := range []Arm{
		{Finished: -5, Errors: 3},
		{Finished: math.NaN(), Errors: math.NaN(), Unaccounted: math.NaN(), Started: math.NaN()},
		{Finished: math.Inf(1), Errors: math.Inf(1), Started: math.Inf(1), Restarts: math.NaN()},
		{Finished: 10, Errors: 1e300, Started: 10},
	} {
		for _, sharded := range []bool{false, true} {
			run := Start(epoch, map[string]Counts{"a": {Finished: math.NaN()}})
			for i := range 61 {
				w := at(i, a, arm(900, 0))
				w.Handled, w.Required = math.NaN(), math.Inf(1)
				run.Analyze(everything(sharded), w)
			}
			if _, err := json.Marshal(run); err != nil {
				t.Errorf("%+v: %v", a, err)
			}
			if v := run.Last.Verdict; v == verdict.Pass || v == verdict.Running {
				t.Errorf("%+v: %s %v", a, v, run.Last.Reasons)
			}
		}
	}
}

// A window of millions of requests takes hardly longer than a small one.
func BenchmarkLook(b *testing.B) {
	for _, n := range []float64{1e3, 1e6} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := errorsOnly()
			p.Deadline = 1 << 62
			p.MinCanary = math.MaxFloat64
			run := Start(epoch, nil)
			for i := 0; b.Loop(); i++ {
				run.Analyze(p, at(i, arm(n, n/100), arm(9*n, 9*n/100)))
			}
		})
	}
}
