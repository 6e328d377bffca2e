// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// The Route gives the canary a fifth, and its pods see fewer requests: the others ended in front of them.
// Such a canary never passes, and a healthy one does, also where clients send their requests in bursts.
func TestRequestsThatEndBeforeThePods(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lost  float64
		burst float64
		entry bool
		want  verdict.Verdict
	}{
		"none":                        {0, 1, false, verdict.Pass},
		"none, bursts":                {0, 8, false, verdict.Pass},
		"30 %":                        {0.3, 1, false, verdict.Inconclusive},
		"30 %, bursts":                {0.3, 8, false, verdict.Inconclusive},
		"60 %":                        {0.6, 1, false, verdict.Inconclusive},
		"90 %":                        {0.9, 1, false, verdict.Inconclusive},
		"none, by entry":              {0, 1, true, verdict.Pass},
		"60 %, by entry of a sharded": {0.6, 1, true, verdict.Inconclusive},
	} {
		wrong, runs := 0, manyRuns(60)
		for n := range runs {
			rng := rand.New(rand.NewPCG(2226, uint64(n)))
			p := errorsOnly()
			p.Sharded = c.entry
			run := Start(epoch, nil)
			for i := 0; run.Last.Verdict == verdict.Running; i++ {
				got := c.burst * poisson(rng, 100*(1-c.lost)/c.burst)
				others := c.burst * poisson(rng, 400/c.burst)
				w := at(i, arm(got, 0), arm(others, 0))
				w.Required, w.Handled = 0.2, got/max(1, got+others)
				if c.entry {
					w.Canary, w.Baseline, w.Handled = arm(100, 0), arm(400, 0), 0.2
					w.Canary.Entered, w.Baseline.Entered, w.Entered = got, others, got/max(1, got+others)
				}
				run.Analyze(p, w)
			}
			if run.Last.Verdict != c.want {
				wrong++
			}
		}
		if wrong*100 > runs {
			t.Errorf("%s: %d of %d are not %s", name, wrong, runs, c.want)
		}
	}
}

// sharded is a window of a sharded Service where so many requests entered at both sides and were handled by both, of
// which the plan gives the canary's shards some.
func sharded(i int, entered, handled sides, due float64) Window {
	w := at(i, arm(handled.Canary, 0), arm(handled.Baseline, 0))
	w.Canary.Entered, w.Baseline.Entered = entered.Canary, entered.Baseline
	w.Required, w.Entered = 0.1, entered.Canary/(entered.Canary+entered.Baseline)
	w.Handled = handled.Canary / (handled.Canary + handled.Baseline)
	if due > 0 {
		w.Planned = Planned{Got: handled.Canary, Due: due, All: handled.Canary + handled.Baseline}
	}
	return w
}

// In a sharded Service, what enters follows the Route, and what is handled follows the plan, if there is one.
func TestShardedExposure(t *testing.T) {
	t.Parallel()
	strict, mild := errorsOnly(), errorsOnly()
	strict.Sharded, mild.Sharded = true, true
	mild.Exposure.Warn, mild.Exposure.WarnLow = true, true
	usual := sides{Canary: 100, Baseline: 900}
	for name, c := range map[string]struct {
		entered, handled  sides
		due               float64
		want, wantMild    verdict.Verdict
		expected, message string
	}{
		"as planned":                          {usual, usual, 100, verdict.Pass, verdict.Pass, "0.10", ""},
		"heavy shards, as planned":            {usual, sides{Canary: 400, Baseline: 600}, 400, verdict.Pass, verdict.Pass, "0.40", ""},
		"light shards, as planned":            {usual, sides{Canary: 30, Baseline: 970}, 30, verdict.Pass, verdict.Pass, "0.03", ""},
		"no plan, more":                       {usual, sides{Canary: 400, Baseline: 600}, 0, verdict.Pass, verdict.Pass, "none", "the cluster decides where its shards are"},
		"no plan, less":                       {usual, sides{Canary: 20, Baseline: 980}, 0, verdict.Pass, verdict.Pass, "none", "the cluster decides where its shards are"},
		"no plan, more enters":                {sides{Canary: 300, Baseline: 700}, usual, 0, verdict.Inconclusive, verdict.Warn, "none", "30 % of the requests entered at the canary"},
		"no plan, less enters":                {sides{Canary: 60, Baseline: 900}, usual, 0, verdict.Inconclusive, verdict.Warn, "none", "the canary got 0.62 of the requests"},
		"less than planned":                   {usual, sides{Canary: 50, Baseline: 950}, 100, verdict.Inconclusive, verdict.Warn, "0.10", "the shards that the placement plan gives it had"},
		"more than planned":                   {usual, sides{Canary: 300, Baseline: 700}, 100, verdict.Inconclusive, verdict.Warn, "0.10", "the shards that the placement plan gives it had"},
		"planned, handled, and little enters": {sides{Canary: 60, Baseline: 900}, usual, 100, verdict.Inconclusive, verdict.Warn, "0.10", "the canary got 0.62 of the requests"},
	} {
		for _, p := range []Plan{strict, mild} {
			run := Start(epoch, nil)
			for i := 0; run.Last.Verdict == verdict.Running; i++ {
				run.Analyze(p, sharded(i, c.entered, c.handled, c.due))
			}
			want := c.want
			if p.Exposure.Warn {
				want = c.wantMild
			}
			if run.Last.Verdict != want || !strings.Contains(run.Last.Message, c.message) {
				t.Errorf("%s: %s %v, want %s: %s", name, run.Last.Verdict, run.Last.Reasons, want, run.Last.Message)
			}
			if mismatch := slices.Contains(run.Last.Reasons, verdict.ExposureMismatch); mismatch != (want != verdict.Pass) {
				t.Errorf("%s: %v", name, run.Last.Reasons)
			}
			expected := "none"
			if s := run.Last.ExpectedShare; s != nil {
				expected = fmt.Sprintf("%.2f", *s)
			}
			if expected != c.expected {
				t.Errorf("%s: a share of %s is expected, want %s", name, expected, c.expected)
			}
		}
	}
}

// The gate says which part of its share a canary must prove to get.
func TestSmallestAcceptedShare(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		least, ratio float64
		want         verdict.Verdict
	}{
		{0.85, 0.8, verdict.Inconclusive},
		{0.7, 0.8, verdict.Pass},
		{0, 0.8, verdict.Pass},
		{0, 0.01, verdict.Pass},
		{0.85, 0.9, verdict.Pass},
		{0.95, 0.9, verdict.Inconclusive},
		{0.95, 1, verdict.Pass},
	} {
		strict, mild := errorsOnly(), errorsOnly()
		strict.Exposure.Min, mild.Exposure.Min, mild.Exposure.WarnLow = c.least, c.least, true
		for _, p := range []Plan{strict, mild} {
			want := c.want
			if want == verdict.Inconclusive && p.Exposure.WarnLow {
				want = verdict.Warn
			}
			got := repeat(p, arm(2000*c.ratio, 0), arm(10000-2000*c.ratio, 0), func(_ int, w *Window) { w.Required = 0.2 })
			mismatch := slices.Contains(got.Reasons, verdict.ExposureMismatch)
			said := strings.Contains(got.Message, fmt.Sprintf("the canary got %.2f of the requests", c.ratio)) &&
				strings.Contains(got.Message, fmt.Sprintf("the gate wants %v:", c.least))
			if got.Verdict != want || mismatch != (want != verdict.Pass) || said != mismatch {
				t.Errorf("at least %v, got %v: %s %v, want %s: %s", c.least, c.ratio, got.Verdict, got.Reasons, want, got.Message)
			}
		}
	}
}

// While requests are missing, a share that is too low is a reason only if it is proven.
func TestTooLittleIsProven(t *testing.T) {
	t.Parallel()
	for ratio, want := range map[float64]bool{0.1: true, 0.4: false, 0.9: false} {
		p := errorsOnly()
		p.MinCanary, p.Exposure.Min = 1e6, 0.5
		run := Start(epoch, nil)
		for i := range 3 {
			w := at(i, arm(20*ratio, 0), arm(100-20*ratio, 0))
			w.Required = 0.2
			run.Analyze(p, w)
		}
		if got := slices.Contains(run.Last.Reasons, verdict.ExposureMismatch); got != want {
			t.Errorf("%v: %v: %s", ratio, run.Last.Reasons, run.Last.Message)
		}
	}
}

// A canary whose requests take long has finished fewer of them, and started as many. One that also loses requests does
// not pass.
func TestRequestsThatTakeLongAreStarted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lost float64
		want verdict.Verdict
	}{{0, verdict.Pass}, {0.3, verdict.Inconclusive}} {
		p := errorsOnly()
		p.Deadline = 8 * time.Minute
		run := Start(epoch, nil)
		begun, took := 100*(1-c.lost), 60.0
		for i := 0; run.Last.Verdict == verdict.Running; i++ {
			// Durations are exponential. Those that have finished are shorter than the run.
			next := at(i, Arm{}, Arm{})
			from, to := next.From.Sub(epoch).Seconds(), next.To.Sub(epoch).Seconds()
			done := func(t float64) float64 { return t - took*(1-math.Exp(-t/took)) }
			seconds := func(t float64) float64 { return took*t + (took*t+2*took*took)*math.Exp(-t/took) - 2*took*took }
			part := 1 / (to - from) // of the requests that begin in a window
			got := math.Round(begun * part * (done(to) - done(from)))
			w := at(i, arm(got, 0), arm(400, 0))
			w.Canary.EntryTook, w.Baseline.EntryTook = begun*part*(seconds(to)-seconds(from)), 400*.1
			w.Required, w.Handled = 0.2, got/(got+400)
			run.Analyze(p, w)
		}
		if run.Last.Verdict != c.want {
			t.Errorf("lost %v: %s %v: %s", c.lost, run.Last.Verdict, run.Last.Reasons, run.Last.Message)
		}
	}
}

// Requests that were open when a shard moved finish where they began.
func TestOpenRequestsOfMovedShards(t *testing.T) {
	t.Parallel()
	for open, want := range map[float64]verdict.Verdict{0: verdict.Inconclusive, 3000: verdict.Pass} {
		p := errorsOnly()
		p.Sharded, p.Deadline = true, 6*time.Minute
		run := Start(epoch, nil)
		for i := 0; run.Last.Verdict == verdict.Running; i++ {
			late := max(0, 500-50*float64(i))
			w := sharded(i, sides{Canary: 500, Baseline: 4500}, sides{Canary: 550 - late, Baseline: 4450 + late}, 550)
			w.Baseline.Open = open
			run.Analyze(p, w)
		}
		if run.Last.Verdict != want {
			t.Errorf("%v open: %s %v: %s", open, run.Last.Verdict, run.Last.Reasons, run.Last.Message)
		}
	}
}
