// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// repeat plays the same window until there is a verdict, and returns it.
func repeat(p Plan, canary, baseline Arm, change func(i int, w *Window)) verdict.Judgement {
	run := Start(epoch, nil)
	for i := 0; run.Last.Verdict == verdict.Running; i++ {
		w := at(i, canary, baseline)
		if change != nil {
			change(i, &w)
		}
		run.Analyze(p, w)
	}
	return run.Last
}

// Each row is a row of the table of situations in docs/lab/judging.md.
func TestSituations(t *testing.T) {
	t.Parallel()
	half := errorsOnly().withLimit(0.02)
	warned := errorsOnly()
	warned.Exposure.Warn = true
	sticky := errorsOnly()
	sticky.Exposure.WarnLow = true
	unlimited := errorsOnly()
	unlimited.Limits = Limits{Restarts: -1, Unaccounted: -1}
	required := func(share float64) func(int, *Window) {
		return func(_ int, w *Window) { w.Required = share }
	}
	for _, tc := range []struct {
		name             string
		plan             Plan
		canary, baseline Arm
		change           func(int, *Window)
		want             verdict.Verdict
		reasons          []verdict.Reason
	}{
		{"a healthy canary", half, arm(100, 0), arm(900, 0), nil, verdict.Pass, []verdict.Reason{verdict.Negligible}},
		{"a canary like its baseline", errorsOnly(), arm(1000, 20), arm(9000, 180), nil, verdict.Pass, []verdict.Reason{verdict.NonInferior}},
		{"a canary worse than its baseline", errorsOnly(), arm(100, 5), arm(900, 9), nil, verdict.Fail, []verdict.Reason{verdict.RelativeRegression}},
		{"baseline below its minimum: absolute Fail", half, arm(1000, 80), arm(1, 0), nil, verdict.Fail, []verdict.Reason{verdict.AbsoluteLimit}},
		{"baseline below its minimum: else Inconclusive", half, arm(1000, 1), arm(1, 0), nil, verdict.Inconclusive, []verdict.Reason{verdict.BaselineMissing, verdict.Timeout}},
		{"baseline below its minimum, with one stray error", half, arm(1000, 80), Arm{}, func(i int, w *Window) {
			if i == 0 {
				w.Baseline = arm(2, 1)
			}
		}, verdict.Fail, []verdict.Reason{verdict.AbsoluteLimit}},
		{"both above the limit", half, arm(100, 5), arm(900, 45), nil, verdict.Inconclusive, []verdict.Reason{verdict.BaselineUnhealthy, verdict.Timeout}},
		{"canary handles nothing", errorsOnly(), Arm{}, arm(900, 0), required(0.05), verdict.Inconclusive, []verdict.Reason{verdict.CanaryHandledNothing, verdict.Timeout, verdict.ExposureMismatch}},
		{"a pod of the canary does not answer", errorsOnly(), arm(100, 0), arm(900, 0), func(_ int, w *Window) { w.Unanswering = 1 }, verdict.Inconclusive, []verdict.Reason{verdict.NoData, verdict.Timeout}},
		{"it does not answer: Fail possible", errorsOnly(), arm(100, 5), arm(900, 9), func(_ int, w *Window) { w.Unanswering = 1 }, verdict.Fail, []verdict.Reason{verdict.RelativeRegression}},
		{"it answers again", errorsOnly(), arm(100, 0), arm(900, 0), func(i int, w *Window) { w.Unanswering = max(0, 9-i) }, verdict.Pass, []verdict.Reason{verdict.Negligible}},
		{"nobody handles anything", errorsOnly(), Arm{}, Arm{}, nil, verdict.Inconclusive, []verdict.Reason{verdict.InsufficientSample, verdict.Timeout}},
		{"canary below its minimum", errorsOnly(), arm(2, 0), arm(900, 0), nil, verdict.Inconclusive, []verdict.Reason{verdict.InsufficientSample, verdict.Timeout}},
		{"share too high: Fail possible", errorsOnly(), arm(500, 50), arm(500, 5), required(0.05), verdict.Fail, []verdict.Reason{verdict.RelativeRegression}},
		{"share too high: else Inconclusive", errorsOnly(), arm(500, 0), arm(500, 0), required(0.05), verdict.Inconclusive, []verdict.Reason{verdict.ExposureMismatch, verdict.Timeout}},
		{"share too high: Warn if the gate says so", warned, arm(500, 0), arm(500, 0), required(0.05), verdict.Warn, []verdict.Reason{verdict.ExposureMismatch, verdict.Negligible}},
		{"share too low, minimums met", errorsOnly(), arm(100, 0), arm(900, 0), required(0.5), verdict.Inconclusive, []verdict.Reason{verdict.ExposureMismatch, verdict.Timeout}},
		{"share too low: Fail possible", errorsOnly(), arm(100, 5), arm(900, 9), required(0.5), verdict.Fail, []verdict.Reason{verdict.RelativeRegression}},
		{"share too low: Warn if the gate says so", sticky, arm(100, 0), arm(900, 0), required(0.15), verdict.Warn, []verdict.Reason{verdict.ExposureMismatch, verdict.Negligible}},
		{"shards still moving", shardedPlan(), arm(100, 0), arm(900, 0), func(_ int, w *Window) { w.Unsettled = true }, verdict.Inconclusive, []verdict.Reason{verdict.Rebalancing, verdict.Timeout}},
		{"shards settled in the end", shardedPlan(), arm(100, 0), arm(900, 0), func(i int, w *Window) { w.Unsettled = i < 20 }, verdict.Pass, []verdict.Reason{verdict.Negligible}},
		{"shards moved when that was last known", shardedPlan(), arm(100, 0), arm(900, 0), func(i int, w *Window) { w.Unsettled, w.UnsettledUnknown = i == 0, i > 0 }, verdict.Inconclusive, []verdict.Reason{verdict.Rebalancing, verdict.Timeout}},
		{"it was never known whether shards move", shardedPlan(), arm(100, 0), arm(900, 0), func(_ int, w *Window) { w.UnsettledUnknown = true }, verdict.Pass, []verdict.Reason{verdict.Negligible}},
		{"pods restarted", errorsOnly(), arm(100, 0), arm(900, 0), func(i int, w *Window) {
			if i == 2 {
				w.Canary.Restarts = 1
			}
		}, verdict.Fail, []verdict.Reason{verdict.Restarts}},
		{"requests unaccounted for", errorsOnly(), Arm{Finished: 90, Started: 100, Unaccounted: 10}, arm(900, 0), nil, verdict.Fail, []verdict.Reason{verdict.UnaccountedRequests}},
		{"no limits", unlimited, Arm{Finished: 100, Started: 100, Unaccounted: 5, Restarts: 1}, arm(900, 0), nil, verdict.Pass, []verdict.Reason{verdict.Negligible}},
		{"outcomes unknown", errorsOnly(), Arm{Finished: 100, Started: 100, OutcomesUnknown: "HTTP/2"}, arm(900, 0), nil, verdict.Inconclusive, []verdict.Reason{verdict.NoData, verdict.Timeout}},
		{"a sharded Service whose shards are not counted", shardedPlan(), arm(100, 5), arm(900, 9), nil, verdict.Inconclusive, []verdict.Reason{verdict.InsufficientShards, verdict.Timeout}},
		{"the same above its limit", shardedPlan().withLimit(0.02), arm(100, 5), arm(900, 9), nil, verdict.Fail, []verdict.Reason{verdict.AbsoluteLimit}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := repeat(tc.plan, tc.canary, tc.baseline, tc.change)
			if got.Verdict != tc.want || !slices.Equal(got.Reasons, tc.reasons) {
				t.Errorf("got %s %v, want %s %v: %s", got.Verdict, got.Reasons, tc.want, tc.reasons, got.Message)
			}
		})
	}
}

// Nothing at the same time masks a Fail.
func TestFailIsNotMasked(t *testing.T) {
	t.Parallel()
	p := errorsOnly()
	p.Metrics = append(p.Metrics, Metric{Name: "slow", Kind: Slow, Threshold: 0.5, MaxOddsRatio: 1.5, Negligible: 0.005, Weight: 1, Critical: true})
	got := repeat(p, arm(100, 50), arm(900, 0), func(_ int, w *Window) {
		w.Canary.DurationsUnknown, w.Required, w.Unsettled = "no buckets", 0.01, true
	})
	if got.Verdict != verdict.Fail || got.Metrics[1].Reason != verdict.NoData {
		t.Errorf("got %s %v, slow %s", got.Verdict, got.Reasons, got.Metrics[1].Reason)
	}

	// Proven before the minimum was reached, when it had ended: a canary that is no longer worse neither fails by
	// comparison nor passes.
	late := errorsOnly()
	late.MinCanary = 3000
	got = repeat(late, arm(50, 0), arm(950, 0), func(i int, w *Window) {
		if i < 4 {
			w.Canary.Errors = 25
		}
	})
	if got.Verdict != verdict.Inconclusive {
		t.Errorf("proven early: got %s %v", got.Verdict, got.Reasons)
	}
}

func TestVerdictStays(t *testing.T) {
	t.Parallel()
	run := Start(epoch, nil)
	for i := range 10 {
		run.Analyze(errorsOnly(), at(i, arm(100, 0), arm(900, 0)))
	}
	first := run.Last
	if first.Verdict != verdict.Pass {
		t.Fatalf("got %s: %s", first.Verdict, first.Message)
	}
	if again := run.Analyze(errorsOnly(), at(10, arm(100, 100), arm(900, 0))); again.Verdict != verdict.Pass || again.Canary != first.Canary {
		t.Errorf("a verdict became %s", again.Verdict)
	}
}

func TestWarmUpAndTimesAreKept(t *testing.T) {
	t.Parallel()
	p := errorsOnly()
	p.Warmup, p.MinDuration = 2*time.Minute, 10*time.Minute
	run := Start(epoch, nil)
	ended := 0
	for i := range 60 {
		w := at(i, arm(1000, 0), arm(9000, 0))
		if w.To.Sub(epoch) < p.Warmup {
			w.Canary.Errors, w.Young.Canary = 20, Arm{Finished: 1000, Errors: 20}
		}
		if got := run.Analyze(p, w); got.Verdict != verdict.Running {
			ended = i + 1
			break
		}
	}
	if run.Last.Verdict != verdict.Warn || ended != 20 {
		t.Errorf("got %s after %d windows: %s", run.Last.Verdict, ended, run.Last.Message)
	}
	// The same window twice counts once.
	run = Start(epoch, nil)
	run.Analyze(errorsOnly(), at(0, arm(10, 1), arm(90, 0)))
	if got := run.Analyze(errorsOnly(), at(0, arm(10, 1), arm(90, 0))); got.Canary.Requests != 10 {
		t.Errorf("counted %v requests", got.Canary.Requests)
	}
}

// Shards that both sides handled are excluded, counted and reported.
func TestMovedShardsAreLeftOut(t *testing.T) {
	t.Parallel()
	run := Start(epoch, nil)
	window, _ := fleet{shards: 20, canary: 5, rate: 0.01, ratio: 1}.scenario(rand.New(rand.NewPCG(1, 1)))
	w := window(0)
	one := w.Shards["aa"]
	one.Baseline = one.Canary
	w.Shards["aa"] = one
	got := run.Analyze(shardedPlan(), w)
	if got.Canary.Shards != 4 || got.Baseline.Shards != 15 || !strings.Contains(got.Message, "1 left out that both have handled") {
		t.Errorf("got %d and %d shards: %s", got.Canary.Shards, got.Baseline.Shards, got.Message)
	}
	if !strings.Contains(got.Message, "by their rates alone") {
		t.Errorf("nothing said of what was before: %s", got.Message)
	}
}

// The result of an analysis of the shards may have to wait for something else. A canary that broke
// meanwhile does not pass by that analysis.
func TestShardsThatBrokeAfterALookDoNotPass(t *testing.T) {
	t.Parallel()
	for _, breaks := range []bool{false, true} {
		before := map[string]Counts{}
		for s := range 100 {
			before[fmt.Sprint(s)] = Counts{Finished: 10000, Errors: 100}
		}
		run := Start(epoch, before)
		for i := 0; i < 21 && run.Last.Verdict == verdict.Running; i++ {
			canary, baseline := Arm{}, Arm{}
			shards := map[string]ShardWindow{}
			for s := range 100 {
				if s >= 20 {
					c := Counts{Finished: 100, Errors: float64((s + i) % 3)}
					shards[fmt.Sprint(s)] = ShardWindow{Baseline: c}
					baseline.Finished, baseline.Errors = baseline.Finished+c.Finished, baseline.Errors+c.Errors
					continue
				}
				c := Counts{Finished: 100, Errors: float64((s + i) % 2)}
				if breaks && i >= 17 {
					c.Errors = c.Finished
				}
				shards[fmt.Sprint(s)] = ShardWindow{Canary: c}
				canary.Finished, canary.Errors = canary.Finished+c.Finished, canary.Errors+c.Errors
			}
			w := at(i, canary, baseline)
			w.Shards, w.Unsettled = shards, i < 20
			run.Analyze(shardedPlan(), w)
		}
		if want := map[bool]verdict.Verdict{false: verdict.Pass, true: verdict.Running}[breaks]; run.Last.Verdict != want {
			t.Errorf("breaks: %v, got %s %v: %s", breaks, run.Last.Verdict, run.Last.Reasons, run.Last.Message)
		}
	}
}
