// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// bothAt gives both sides the same rate of errors, which depends on the minute of the run; 5,000 requests a minute, 5 %
// of them the canary's.
func bothAt(rate func(minute float64) float64) scenario {
	return func(rng *rand.Rand) (source, map[string]Counts) {
		return func(i int) Window {
			r := rate(float64(i) * interval.Minutes())
			n := 5000 * interval.Minutes()
			return at(i, arm(n/20, binomial(rng, n/20, r)), arm(n*19/20, binomial(rng, n*19/20, r)))
		}, nil
	}
}

// always is a constant rate.
func always(rate float64) func(float64) float64 { return func(float64) float64 { return rate } }

// recalled plays one run with a past of that worst rate, over two hours in stretches of 25,000 requests; NaN is without
// a past.
func recalled(p Plan, s scenario, seed uint64, worst float64) *Run {
	window, before := s(rand.New(rand.NewPCG(seed, 7)))
	run := Start(epoch, before)
	if !math.IsNaN(worst) {
		run.Recall(Level{Watched: 2 * time.Hour, Errors: Ratio{math.Round(25000 * worst), 25000}})
	}
	for i := 0; run.Last.Verdict == verdict.Running; i++ {
		run.Analyze(p, window(i))
	}
	return run
}

// A canary that harms both sides does not pass, and the message says what the baseline was and is.
func TestHarmToBothSides(t *testing.T) {
	t.Parallel()
	for name, now := range map[string]float64{"5 %": .05, "30 %": .3} {
		for seed := range uint64(20) {
			run := recalled(errorsOnly(), bothAt(always(now)), seed, .001)
			if run.Last.Verdict != verdict.Inconclusive || run.Last.Reasons[0] != verdict.BaselineWorsened {
				t.Fatalf("%s: %s %v: %s", name, run.Last.Verdict, run.Last.Reasons, run.Last.Message)
			}
			if want := "was 0.1 % at its worst in the 2h0m0s before the canary's first pod"; !strings.Contains(run.Last.Message, want) {
				t.Fatalf("%q does not say %q", run.Last.Message, want)
			}
		}
	}
	// Without a past it passes, as it looks no worse than the baseline; the message says what is not known.
	unknown := recalled(errorsOnly(), bothAt(always(.05)), 1, math.NaN())
	if unknown.Last.Verdict != verdict.Pass || !strings.Contains(unknown.Last.Message, "before the canary's first pod is not known") {
		t.Errorf("%s: %s", unknown.Last.Verdict, unknown.Last.Message)
	}
}

// A healthy Service loses hardly any Pass: its rate of errors follows the load of the day, or a shared dependency fails
// for a while.
func TestHealthyBaselineMayVary(t *testing.T) {
	t.Parallel()
	for name, rate := range map[string]func(minute float64) float64{
		"as before":            always(.01),
		"twice as bad":         always(.02),
		"a rise by the hour":   func(m float64) float64 { return .01 * (1 + m/30) },
		"0.1 % and an outage":  outageAt(.001, 3, 1),
		"1 % and an outage":    outageAt(.01, 3, 1),
		"an outage, and later": func(m float64) float64 { return max(outageAt(.001, 3, .5)(m), outageAt(.001, 13, .5)(m)) },
	} {
		passed := map[bool]int{}
		const runs = 100
		for seed := range uint64(runs) {
			for _, known := range []bool{true, false} {
				worst := math.NaN()
				if known {
					worst = .012
				}
				if run := recalled(errorsOnly(), bothAt(rate), 100+seed, worst); run.Last.Verdict == verdict.Pass {
					passed[known]++
				}
			}
		}
		t.Logf("%-22s passed %d of %d, and %d without a past", name, passed[true], runs, passed[false])
		if passed[true] < passed[false]-3 {
			t.Errorf("%s: %d of %d passed, and %d without a past", name, passed[true], runs, passed[false])
		}
	}
}

// outageAt adds an outage of 30 % at a minute, for so many minutes.
func outageAt(rate, from, long float64) func(minute float64) float64 {
	return func(m float64) float64 {
		if m >= from && m < from+long {
			return .3
		}
		return rate
	}
}

// The baseline worsens only beyond its worst stretch, and only where the past is known.
func TestWorsened(t *testing.T) {
	t.Parallel()
	slow := Plan{Metrics: []Metric{
		{Name: "slow", Kind: Slow, Threshold: .5, MaxOddsRatio: 1.5, Negligible: .005, Weight: 1},
		{Name: "entry", Kind: EntryErrors, MaxOddsRatio: 1.5, Negligible: .005, Weight: 1},
	}}
	for name, tc := range map[string]struct {
		past        Level
		slow, entry float64
		want        int
	}{
		"slow":                 {Level{Watched: time.Hour, Errors: Ratio{0, 500}, Above: map[float64]Ratio{.5: {10, 1000}}}, .05, 0, 1},
		"no slower than ever":  {Level{Watched: time.Hour, Errors: Ratio{0, 500}, Above: map[float64]Ratio{.5: {20, 1000}}}, .05, 0, 0},
		"negligible before":    {Level{Watched: time.Hour, Errors: Ratio{0, 500}, Above: map[float64]Ratio{.5: {0, 1000}}}, .012, 0, 0},
		"entry":                {Level{Watched: time.Hour, Errors: Ratio{0, 500}, EntryErrors: Ratio{0, 500}}, .5, .05, 1},
		"both":                 {Level{Watched: time.Hour, Errors: Ratio{0, 500}, EntryErrors: Ratio{0, 500}, Above: map[float64]Ratio{.5: {0, 1000}}}, .5, .05, 2},
		"another bound":        {Level{Watched: time.Hour, Errors: Ratio{0, 500}, Above: map[float64]Ratio{1: {0, 1000}}}, .05, 0, 0},
		"watched too short":    {Level{Watched: time.Minute, Errors: Ratio{0, 500}, Above: map[float64]Ratio{.5: {0, 1000}}}, .5, 0, 0},
		"nothing was finished": {Level{Watched: time.Hour, Above: map[float64]Ratio{.5: {0, 0}}}, .5, .5, 0},
	} {
		run := Start(epoch, nil)
		run.Recall(tc.past)
		p := slow
		p.Alpha, p.Beta, p.Deadline = .05, .05, time.Hour
		w := at(0, arm(100, 0), arm(10000, 0))
		w.Baseline.Above = map[float64]float64{.5: 10000 * tc.slow}
		w.Baseline.Entered, w.Baseline.EntryErrors = 10000, 10000*tc.entry
		w.Canary.Above, w.Canary.Entered = map[float64]float64{.5: 0}, 100
		run.Analyze(p, w)
		if got := run.Evidence.worsening(p); len(got) != tc.want || slices.Contains(run.Last.Reasons, verdict.BaselineWorsened) != (tc.want > 0) {
			t.Errorf("%s: %v, reasons %v", name, got, run.Last.Reasons)
		}
	}
}

// A gate may ask for a past.
func TestPassWithoutPast(t *testing.T) {
	t.Parallel()
	p := errorsOnly()
	if run := recalled(p, bothAt(always(0)), 1, 0); run.Last.Verdict != verdict.Pass {
		t.Errorf("%s %v", run.Last.Verdict, run.Last.Reasons)
	}
	p.PastRequired = true
	if run := recalled(p, bothAt(always(0)), 1, 0); run.Last.Verdict != verdict.Pass {
		t.Errorf("with a past: %s %v", run.Last.Verdict, run.Last.Reasons)
	}
	window, _ := bothAt(always(0))(rand.New(rand.NewPCG(1, 7)))
	run := Start(epoch, nil)
	for i := 0; run.Last.Verdict == verdict.Running; i++ {
		run.Analyze(p, window(i))
	}
	if run.Last.Verdict != verdict.Warn || run.Last.Reasons[0] != verdict.PastUnknown {
		t.Errorf("without: %s %v", run.Last.Verdict, run.Last.Reasons)
	}
}

// The past survives a change of the process, and a forged one is refused.
func TestPastIsStored(t *testing.T) {
	t.Parallel()
	run := Start(epoch, nil)
	run.Recall(Level{Watched: time.Hour, Errors: Ratio{5, 500}, EntryErrors: Ratio{6, 600}, Above: map[float64]Ratio{.5: {7, 500}, 1: {1, 500}}})
	raw, err := json.Marshal(run)
	if err != nil {
		t.Fatal(err)
	}
	var read Run
	if err := json.Unmarshal(raw, &read); err != nil {
		t.Fatal(err)
	}
	if got, known := read.Evidence.Worst.of(Metric{Kind: Slow, Threshold: .5}, .5); !known || got != (tally{500, 7}) || read.Check(errorsOnly()) != nil {
		t.Errorf("%+v", read.Evidence.Worst)
	}
	read.Evidence.Worst.Errors.K = 501
	if err := read.Check(errorsOnly()); err == nil || !strings.Contains(err.Error(), "the baseline's past") {
		t.Errorf("%v", err)
	}
}
