// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"slices"
	"strings"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// two returns a plan with two metrics: errors, and requests slower than 0.5 s.
func two(change func(errors, slow *Metric)) Plan {
	p := errorsOnly()
	p.Metrics = append(p.Metrics, Metric{Name: "slow", Kind: Slow, Threshold: 0.5, MaxOddsRatio: 1.5, Negligible: 0.005, Weight: 1, Critical: true})
	change(&p.Metrics[0], &p.Metrics[1])
	return p
}

// slowly returns an arm with that many slow requests.
func slowly(finished, slow float64) Arm {
	a := arm(finished, 0)
	a.Above = map[float64]float64{0.5: slow}
	return a
}

func TestScoreAndCoverage(t *testing.T) {
	t.Parallel()
	unknown := slowly(100, 0)
	unknown.DurationsUnknown = "no buckets"
	for _, tc := range []struct {
		name            string
		plan            Plan
		canary          Arm
		want            verdict.Verdict
		reasons         []verdict.Reason
		score, coverage float64
	}{
		{"all pass", two(func(_, _ *Metric) {}), slowly(100, 0), verdict.Pass, []verdict.Reason{verdict.Negligible}, 100, 1},
		{"one critical metric fails", two(func(_, _ *Metric) {}), slowly(100, 30), verdict.Fail, []verdict.Reason{verdict.RelativeRegression}, -1, -1},
		{
			"one that is not critical fails, and weighs little", two(func(e, s *Metric) { e.Weight, s.Critical = 4, false }), slowly(100, 30),
			verdict.Warn,
			[]verdict.Reason{verdict.LowScore, verdict.RelativeRegression, verdict.Negligible},
			80, 1,
		},
		{
			"the same, and weighs much", two(func(_, s *Metric) { s.Critical, s.Weight = false, 4 }), slowly(100, 30),
			verdict.Fail,
			[]verdict.Reason{verdict.LowScore, verdict.RelativeRegression, verdict.Negligible},
			20, 1,
		},
		{"a dry run fails", two(func(_, s *Metric) { s.DryRun = true }), slowly(100, 30), verdict.Pass, []verdict.Reason{verdict.Negligible}, 100, 1},
		{"all are dry runs", two(func(e, s *Metric) { e.DryRun, s.DryRun = true, true }), slowly(100, 30), verdict.Inconclusive, []verdict.Reason{verdict.LowCoverage, verdict.Timeout}, 0, 0},
		{"a critical one is not known", two(func(_, _ *Metric) {}), unknown, verdict.Inconclusive, []verdict.Reason{verdict.NoData, verdict.Timeout}, 100, 0.5},
		{"one that is not critical is not known", two(func(_, s *Metric) { s.Critical = false }), unknown, verdict.Warn, []verdict.Reason{verdict.Negligible, verdict.NoData}, 100, 0.5},
		{"and weighs most", two(func(_, s *Metric) { s.Critical, s.Weight = false, 3 }), unknown, verdict.Inconclusive, []verdict.Reason{verdict.NoData, verdict.LowCoverage, verdict.Timeout}, 100, 0.25},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := repeat(tc.plan, tc.canary, slowly(900, 9), nil)
			if got.Verdict != tc.want || !slices.Equal(got.Reasons, tc.reasons) {
				t.Errorf("got %s %v, want %s %v: %s", got.Verdict, got.Reasons, tc.want, tc.reasons, got.Message)
			}
			if tc.score >= 0 && (got.Score != tc.score || got.Coverage != tc.coverage) {
				t.Errorf("score %v and coverage %v, want %v and %v", got.Score, got.Coverage, tc.score, tc.coverage)
			}
		})
	}
}

// A canary that is slightly worse, but within the tolerance, is a Warn.
func TestPossiblyWorseWarns(t *testing.T) {
	t.Parallel()
	got := repeat(errorsOnly(), arm(50000, 575), arm(50000, 500), nil)
	if got.Verdict != verdict.Warn || !slices.Contains(got.Reasons, verdict.PossiblyWorse) {
		t.Errorf("got %s %v: %s", got.Verdict, got.Reasons, got.Message)
	}
}

// More metrics, and a limit besides a comparison, make every single proof harder.
func TestAlphaIsDivided(t *testing.T) {
	t.Parallel()
	one, both := errorsOnly(), two(func(_, s *Metric) { s.Limit = 0.1 })
	near(t, "one metric", one.levels(one.Metrics[0]).fail, 20, 1e-9)
	near(t, "one of two", both.levels(both.Metrics[0]).fail, 40, 1e-9)
	near(t, "one of two, with a limit", both.levels(both.Metrics[1]).fail, 80, 1e-9)
	both.Metrics[0].DryRun = true
	near(t, "a dry run beside it", both.levels(both.Metrics[1]).fail, 40, 1e-9)
	near(t, "all analyses of the shards", one.levels(one.Metrics[0]).shardFail, 0.05, 1e-12)
}

func TestMissingRequestsAreReported(t *testing.T) {
	t.Parallel()
	run := Start(epoch, nil)
	got := run.Analyze(errorsOnly(), at(0, arm(100, 0), arm(200, 0)))
	if got.Canary.Missing != 200 || got.Baseline.Missing != 100 || !strings.Contains(got.Message, "at least 200 and 100 more are needed") {
		t.Errorf("got %+v, %+v: %s", got.Canary, got.Baseline, got.Message)
	}
	// Without errors, some 750 requests disprove 0.5 %.
	needed := 100 + float64(got.Metrics[0].Missing)
	if needed < 700 || needed > 800 {
		t.Errorf("%v requests needed in all", needed)
	}
	p := errorsOnly()
	p.MinDuration = 0
	if got = run.Analyze(p, at(1, arm(needed-100, 0), arm(900, 0))); got.Verdict != verdict.Pass {
		t.Errorf("with them: %s, %v still missing", got.Verdict, got.Metrics[0].Missing)
	}
}

// Only the plan decides when shards are analyzed: five times, the last at the deadline.
func TestAnalysesAtShards(t *testing.T) {
	t.Parallel()
	p := shardedPlan()
	p.Warmup = p.Deadline / 10
	seen := []int{}
	for i := range 31 {
		if n := p.due(int64(p.Deadline) * int64(i) / 30); len(seen) == 0 || n != seen[len(seen)-1] {
			seen = append(seen, n)
		}
	}
	if !slices.Equal(seen, []int{0, 1, 2, 3, 4, 5}) || p.due(int64(p.Deadline)-1) != 4 {
		t.Errorf("due %v, and %d just before the deadline", seen, p.due(int64(p.Deadline)-1))
	}
	for _, tc := range []struct {
		c                census
		canary, baseline int
	}{
		{census{canary: 3, baseline: 7}, 0, 0},
		{census{canary: 1, baseline: 99}, 2, 0},
		{census{canary: 3, baseline: 5}, 1, 0},
	} {
		canary, baseline := tc.c.missing(3, 0.01)
		if canary != tc.canary || baseline != tc.baseline {
			t.Errorf("%+v: %d and %d missing, want %d and %d", tc.c, canary, baseline, tc.canary, tc.baseline)
		}
	}
}
