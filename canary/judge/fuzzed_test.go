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

// strange has values of a measurement.
var strange = []float64{0, 1, -1, 0.5, 1e-300, 1e9, 1e15, 1e300, math.MaxFloat64, math.NaN(), math.Inf(1), math.Inf(-1)}

// strangeArm has some strange values among usual ones.
func strangeArm(rng *rand.Rand) Arm {
	number := func(usual int) float64 {
		if rng.IntN(12) == 0 {
			return strange[rng.IntN(len(strange))]
		}
		return float64(rng.IntN(usual))
	}
	reason := func() string {
		if rng.IntN(30) == 0 {
			return "unknown"
		}
		return ""
	}
	a := Arm{
		Finished: number(500), Errors: number(5), OutcomesUnknown: reason(), Entered: number(500), EntryErrors: number(5), EntryUnknown: reason(), Untold: number(5), EntryUntold: number(5), Untimed: number(5),
		EntryTook: number(100), NoCodes: rng.IntN(30) == 0, DurationsUnknown: reason(), Started: number(500), Unaccounted: number(2) / 100,
		StartedUnknown: rng.IntN(30) == 0, OverdueUnknown: reason(), Open: number(20), OpenUnknown: reason(), Took: number(100), Restarts: number(2),
	}
	a.Codes = map[string]float64{"200": number(500), "302": number(50), "404": number(9), "500": number(5), "": number(2), "unknown": number(2)}
	a.Above = map[float64]float64{}
	for _, b := range bounds {
		if rng.IntN(200) > 0 {
			a.Above[b] = number(50)
		}
	}
	a.Query("asked", Queried{Total: number(500), Bad: number(5), Unknown: reason()})
	return a
}

func strangeWindow(rng *rand.Rand, i, shards int) Window {
	w := at(i, strangeArm(rng), strangeArm(rng))
	number := func() float64 {
		if rng.IntN(9) == 0 {
			return strange[rng.IntN(len(strange))]
		}
		return rng.Float64()
	}
	switch rng.IntN(20) {
	case 0:
		w.To = w.From
	case 1:
		w.From = w.To.Add(-time.Nanosecond)
	case 2:
		w.From = w.To.Add(-365 * 24 * time.Hour)
	}
	w.Required, w.Handled, w.Entered = number(), number(), number()
	w.Planned = Planned{Got: 100 * number(), Due: 100 * number(), All: 500 * number()}
	w.Young = Young{Canary: strangeArm(rng), Baseline: strangeArm(rng)}
	w.Unsettled, w.Unanswering, w.RequestTimeout = rng.IntN(9) == 0, rng.IntN(20)/19, time.Duration(rng.IntN(3)-1)*time.Minute
	w.Pods, w.Shards = map[string]Arm{}, map[string]ShardWindow{}
	for p := range rng.IntN(9) {
		w.Pods[fmt.Sprint(p)] = strangeArm(rng)
	}
	for p := range rng.IntN(9) {
		w.Lives = append(w.Lives, Life{
			Pod: fmt.Sprint(p), Canary: p%2 == 0, Young: rng.IntN(3) == 0, Ran: time.Duration(rng.IntN(30)-1) * time.Second,
			Restarts: float64(rng.IntN(50)) / 49, CrashLoop: rng.IntN(500) == 0,
		})
	}
	for s := range shards {
		w.Shards[fmt.Sprint("Cart/", s)] = ShardWindow{
			Canary:   Counts{float64(rng.IntN(100) * (s % 2)), number(), number()},
			Baseline: Counts{float64(rng.IntN(100) * (1 - s%2)), number(), number()},
		}
	}
	return w
}

// strangePlan is any plan that Check accepts, with the ends of what a gate may ask for.
func strangePlan(rng *rand.Rand) Plan {
	one := func(of ...float64) float64 { return of[rng.IntN(len(of))] }
	p := Plan{
		Alpha: one(1e-6, .05, .5, .999), Beta: one(1e-6, .05, .5, .999),
		Warmup: time.Duration(one(0, 60, 200)) * time.Second, MinDuration: time.Duration(one(0, 2, 60)) * time.Minute, Deadline: time.Duration(one(4, 30, 1e5)) * time.Minute,
		MinCanary: one(0, 1, 300), MinBaseline: one(0, 1, 300), Sharded: rng.IntN(2) == 0, MinShards: int(one(0, 1, 3)),
		PastRequired: rng.IntN(2) == 0, Exposure: Exposure{Min: one(0, .5, .85), Max: one(0, 1, 2), Warn: rng.IntN(2) == 0, WarnLow: rng.IntN(2) == 0},
		Limits: Limits{Restarts: one(-1, 0, 5), CompareRestarts: rng.IntN(2) == 0, Unaccounted: one(-1, 0, .01, 1)},
		Score:  Score{Pass: one(0, 90, 100), Warn: one(0, 75), MinCoverage: one(0, .5, 1)},
	}
	for i, kind := range Kinds() {
		m := Metric{
			Name: string(kind), Kind: kind, Threshold: one(bounds...), MaxOddsRatio: one(1+1e-9, 1.5, 3, 100, 1e6), Limit: one(0, 0, 1e-9, .01, .999),
			Negligible: one(0, .005, .999), Weight: one(1e-9, 1, 1e6), Critical: rng.IntN(2) == 0, DryRun: rng.IntN(5) == 0,
		}
		if kind == Query {
			m.Name = "asked"
		}
		if i == 0 || rng.IntN(3) > 0 {
			p.Metrics = append(p.Metrics, m)
		}
	}
	return p
}

// Whatever is measured and whatever a gate asks for, nothing panics, all can be stored, a run that is stored continues
// as one that is not, and the order of pods does not matter.
func TestAnythingIsSurvived(t *testing.T) {
	t.Parallel()
	passed := 0
	for seed := range uint64(manyRuns(200)) { //nolint:gosec // not negative
		rng := rand.New(rand.NewPCG(seed, 11))
		p := strangePlan(rng)
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		before := map[string]Counts{}
		for s := range rng.IntN(20) {
			before[fmt.Sprint("Cart/", s)] = Counts{Finished: 500, Errors: float64(rng.IntN(9)), Slow: strange[rng.IntN(len(strange))]}
		}
		whole, stored, shuffled := Start(epoch, before), Start(epoch, before), Start(epoch, before)
		for _, r := range []*Run{whole, stored, shuffled} {
			of := rand.New(rand.NewPCG(seed, 12))
			past := make([]PodPast, of.IntN(8))
			for i := range past {
				past[i] = PodPast{Watched: time.Hour, Errors: Expected{float64(i), 2.5}, Above: map[float64]Expected{.5: {1, 1}}}
			}
			r.Remember(past)
			r.Recall(Level{Watched: time.Hour, Errors: Ratio{strange[of.IntN(len(strange))], 1000}, Above: map[float64]Ratio{.5: {5, 1000}}})
			r.RecallRestarts(of.IntN(3), time.Hour)
		}
		for i := range 70 {
			w := strangeWindow(rng, i, rng.IntN(20))
			text, err := json.Marshal(stored)
			if err != nil {
				t.Fatalf("seed %d, window %d: %v", seed, i, err)
			}
			stored = &Run{}
			if err := json.Unmarshal(text, stored); err != nil {
				t.Fatalf("seed %d, window %d: %v", seed, i, err)
			}
			if err := stored.Check(p); err != nil && stored.Last.Verdict == verdict.Running {
				t.Fatalf("seed %d, window %d: %v", seed, i, err)
			}
			other := w
			other.Lives = append([]Life{}, w.Lives...)
			rng.Shuffle(len(other.Lives), func(i, j int) { other.Lives[i], other.Lives[j] = other.Lives[j], other.Lives[i] })
			a, b, c := whole.Analyze(p, w), stored.Analyze(p, w), shuffled.Analyze(p, other)
			if !reflect.DeepEqual(a, b) {
				t.Fatalf("seed %d, window %d: without storing\n%+v\nwith\n%+v", seed, i, a, b)
			}
			if !a.Finite() {
				t.Fatalf("seed %d, window %d: %+v", seed, i, a)
			}
			if a.Verdict != c.Verdict || !reflect.DeepEqual(a.Reasons, c.Reasons) {
				t.Fatalf("seed %d, window %d: in one order\n%+v\nin another\n%+v", seed, i, a, c)
			}
			if a.Verdict != verdict.Running {
				break
			}
		}
		if whole.Last.Verdict == verdict.Pass {
			passed++
		}
	}
	t.Logf("%d passed", passed)
}
