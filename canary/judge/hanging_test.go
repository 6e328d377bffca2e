// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"encoding/json"
	"flag"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// openRuns is the number of runs per world of open requests; the table of docs/lab/judging.md takes 300 of
// each.
var openRuns = flag.Int("open-runs", 0, "how many runs of each world of open requests; 0 for a few")

// openWorld is two sides that start requests with a duration.
type openWorld struct {
	// canary and baseline return the requests started per second, at a time since the split.
	canary, baseline func(at float64) float64
	// takes returns the duration in seconds of a request that starts at that time.
	takes func(rng *rand.Rand, at float64, canary bool) float64
	// hanging is the part of the canary's requests that hang until their timeout.
	hanging float64
	// streams are open on both sides at the split, in proportion to the requests they start.
	streams float64
}

const cutOffAfter = 300.0

// The seeds of docs/lab/judging.md.
const (
	hangingSeed = 28
	healthySeed = 82
)

// play plays one run in windows of 15 s and returns when it ended.
func (w openWorld) play(rng *rand.Rand, p Plan) (verdict.Judgement, time.Duration) {
	run := Start(epoch, nil)
	const horizon = 4000
	ended := [2][]float64{make([]float64, horizon), make([]float64, horizon)}
	errors := [2][]float64{make([]float64, horizon), make([]float64, horizon)}
	seconds := [2][]float64{make([]float64, horizon), make([]float64, horizon)}
	var begun, open [2]float64
	begin := func(side int, at, takes float64, hangs bool) {
		begun[side]++
		open[side]++
		if end := int(at + takes); end+1 < horizon {
			ended[side][end+1]++
			seconds[side][end+1] += takes
			if hangs {
				errors[side][end+1]++
			}
		}
	}
	rates := [2]func(float64) float64{w.canary, w.baseline}
	for side := range 2 {
		for range int(w.streams * rates[side](0)) {
			begin(side, 0, rng.ExpFloat64()*600, false)
		}
	}
	var was, done, bad, took [2]float64
	for second := 0; run.Last.Verdict == verdict.Running; second++ {
		for side := range 2 {
			done[side] += ended[side][second]
			open[side] -= ended[side][second]
			bad[side] += errors[side][second]
			took[side] += seconds[side][second]
		}
		if second%15 == 0 && second > 0 {
			arms := [2]Arm{}
			for side := range 2 {
				arms[side] = Arm{Finished: done[side], Errors: bad[side], Started: begun[side] - was[side], Open: open[side], Took: took[side]}
			}
			to := epoch.Add(time.Duration(second) * time.Second)
			run.Analyze(p, Window{From: to.Add(-15 * time.Second), To: to, Canary: arms[0], Baseline: arms[1], Required: -1, RequestTimeout: 5 * time.Minute})
			was, done, bad, took = begun, [2]float64{}, [2]float64{}, [2]float64{}
		}
		for side := range 2 {
			for range int(poisson(rng, rates[side](float64(second)))) {
				at := float64(second) + rng.Float64()
				if side == 0 && rng.Float64() < w.hanging {
					begin(side, at, cutOffAfter, true)
				} else {
					begin(side, at, w.takes(rng, at, side == 0), false)
				}
			}
		}
	}
	return run.Last, run.Evidence.Until.Sub(epoch)
}

func steadily(rps float64) func(float64) float64 { return func(float64) float64 { return rps } }

func exponential(mean float64) func(*rand.Rand, float64, bool) float64 {
	return func(rng *rand.Rand, _ float64, _ bool) float64 { return mean * rng.ExpFloat64() }
}

func openPlan() Plan {
	p := errorsOnly()
	p.Warmup = 30 * time.Second
	return p
}

// playMany plays many runs; early is how many fail within three minutes.
func (w openWorld) playMany(runs int, seed uint64) (verdicts map[verdict.Verdict]int, early int, ends []time.Duration) {
	verdicts = map[verdict.Verdict]int{}
	for n := range runs {
		j, end := w.play(rand.New(rand.NewPCG(seed, uint64(n))), openPlan())
		verdicts[j.Verdict]++
		ends = append(ends, end)
		if j.Verdict == verdict.Fail && end <= 3*time.Minute {
			early++
		}
	}
	slices.Sort(ends)
	return verdicts, early, ends
}

func manyOpen(few int) int {
	if *openRuns > 0 {
		return *openRuns
	}
	return manyRuns(few)
}

// A canary that starts ten requests a second and lets a twentieth hang fails within three minutes, and
// never passes.
func TestHangingCanaryFails(t *testing.T) {
	t.Parallel()
	t.Logf("seed %d", hangingSeed)
	for _, tc := range []struct {
		name  string
		of    openWorld
		early bool
	}{
		{"0.1 s, 10 of 100 a second", openWorld{canary: steadily(10), baseline: steadily(90), takes: exponential(0.1)}, true},
		{"0.1 s, 10 of 20", openWorld{canary: steadily(10), baseline: steadily(10), takes: exponential(0.1)}, true},
		{"0.1 s, 50 of 1,000", openWorld{canary: steadily(50), baseline: steadily(950), takes: exponential(0.1)}, true},
		{"0.1 s, 5 of 10", openWorld{canary: steadily(5), baseline: steadily(5), takes: exponential(0.1)}, false},
		{"0.1 s, 1 of 10", openWorld{canary: steadily(1), baseline: steadily(9), takes: exponential(0.1)}, false},
		{"5 s, 10 of 100", openWorld{canary: steadily(10), baseline: steadily(90), takes: exponential(5)}, false},
		{"1 % streams of 10 min, 10 of 100", openWorld{canary: steadily(10), baseline: steadily(90), takes: streams}, false},
		{"60 s, 10 of 20", openWorld{canary: steadily(10), baseline: steadily(10), takes: exponential(60)}, false},
	} {
		if !tc.early && *openRuns == 0 {
			continue
		}
		for _, hanging := range []float64{0.05, 0.2, 0.5} {
			tc.of.hanging = hanging
			runs := manyOpen(40)
			got, early, ends := tc.of.playMany(runs, hangingSeed)
			t.Logf("%-34s %2.0f %%: by 3 min %5.1f %%, %v; verdict after %s (median), %s (first) to %s (last)",
				tc.name, 100*hanging, 100*float64(early)/float64(runs), got, ends[runs/2], ends[0], ends[runs-1])
			if tc.early && (early < runs || got[verdict.Fail] < runs) {
				t.Errorf("%s, %v hanging: %d of %d failed within 3 min, %v in all", tc.name, hanging, early, runs, got)
			}
		}
	}
}

// Where many requests are open anyway, a canary that lets a twentieth hang does not pass before they time
// out, and then they count as errors.
func TestHangingCanaryAmongLongRequestsDoesNotPass(t *testing.T) {
	t.Parallel()
	for name, w := range map[string]openWorld{
		"60 s, 10 of 20":                     {canary: steadily(10), baseline: steadily(10), takes: exponential(60), hanging: 0.05},
		"60 s, 10 of 100":                    {canary: steadily(10), baseline: steadily(90), takes: exponential(60), hanging: 0.05},
		"1 % streams of 10 min, 10 of 20":    {canary: steadily(10), baseline: steadily(10), takes: streams, hanging: 0.05},
		"1 % streams of 10 min, 5 of 50":     {canary: steadily(5), baseline: steadily(45), takes: streams, hanging: 0.05},
		"20 s and streams that are reopened": {canary: steadily(10), baseline: steadily(90), takes: exponential(20), streams: 6, hanging: 0.05},
	} {
		runs := manyOpen(20)
		got, _, ends := w.playMany(runs, hangingSeed+1)
		t.Logf("%s: %v; verdict after %s (median)", name, got, ends[runs/2])
		if got[verdict.Pass]+got[verdict.Warn] > 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// streams are a hundredth of the requests.
func streams(rng *rand.Rand, _ float64, _ bool) float64 {
	if rng.Float64() < 0.01 {
		return 600 * rng.ExpFloat64()
	}
	return 0.1 * rng.ExpFloat64()
}

// A healthy canary does not fail for long open requests, whatever their cause.
func TestHealthyCanaryMayHaveOpenRequests(t *testing.T) {
	t.Parallel()
	t.Logf("seed %d", healthySeed)
	during := func(from, to float64, of func(rng *rand.Rand, at float64) float64, canaryOnly bool) func(*rand.Rand, float64, bool) float64 {
		return func(rng *rand.Rand, at float64, canary bool) float64 {
			if at >= from && at < to && (canary || !canaryOnly) {
				return of(rng, at)
			}
			return 0.1 * rng.ExpFloat64()
		}
	}
	until := func(end float64) func(*rand.Rand, float64) float64 {
		return func(_ *rand.Rand, at float64) float64 { return end - at }
	}
	ten, ninety := steadily(10), steadily(90)
	for _, tc := range []struct {
		name string
		of   openWorld
		// late means that a Pass may take longer than without open requests.
		late bool
	}{
		{"0.1 s, 10 of 100 a second", openWorld{canary: ten, baseline: ninety, takes: exponential(0.1)}, false},
		{"0.1 s, 1 of 10", openWorld{canary: steadily(1), baseline: steadily(9), takes: exponential(0.1)}, true},
		{"5 s, 10 of 100", openWorld{canary: ten, baseline: ninety, takes: exponential(5)}, true},
		{"60 s, 10 of 20", openWorld{canary: ten, baseline: ten, takes: exponential(60)}, true},
		{"60 s, 2 of 100", openWorld{canary: steadily(2), baseline: steadily(98), takes: exponential(60)}, true},
		{"1 % streams of 10 min", openWorld{canary: ten, baseline: ninety, takes: streams}, true},
		{"reconnects: streams that are open at the split", openWorld{canary: ten, baseline: ninety, takes: streams, streams: 6}, true},
		{"Pareto 1.2", openWorld{canary: ten, baseline: ninety, takes: func(rng *rand.Rand, _ float64, _ bool) float64 { return 0.05 * math.Pow(rng.Float64(), -1/1.2) }}, false},
		{"the canary stalls for 45 s", openWorld{canary: ten, baseline: ninety, takes: during(95, 140, until(140), true)}, true},
		{"the canary stalls for 30 s before a look", openWorld{canary: ten, baseline: ninety, takes: during(150, 180, until(180), true)}, true},
		{"an outage of both, 2 min", openWorld{canary: ten, baseline: ninety, takes: during(90, 210, until(210), false)}, true},
		{"traffic grows tenfold", openWorld{canary: func(at float64) float64 { return 2 + 18*min(1, at/600) }, baseline: func(at float64) float64 { return 18 + 162*min(1, at/600) }, takes: exponential(5)}, true},
		{"bursts", openWorld{canary: burst(10), baseline: burst(90), takes: exponential(5)}, false},
		{"cold canary: 5 s each for a minute", openWorld{canary: ten, baseline: ninety, takes: during(0, 60, func(rng *rand.Rand, _ float64) float64 { return 5 * rng.ExpFloat64() }, true)}, false},
		{"cold canary: no answer for a minute", openWorld{canary: ten, baseline: ninety, takes: during(0, 60, until(60), true)}, false},
		{"the share grows from 1 to 50 %", openWorld{canary: func(at float64) float64 { return 1 + 49*min(1, at/900) }, baseline: func(at float64) float64 { return 99 - 49*min(1, at/900) }, takes: exponential(20)}, true},
	} {
		runs := manyOpen(20)
		got, _, ends := tc.of.playMany(runs, healthySeed)
		t.Logf("%-50s %v; verdict after %s (median), %s (first) to %s (last)", tc.name, got, ends[runs/2], ends[0], ends[runs-1])
		if got[verdict.Fail] > 0 {
			t.Errorf("%s: %v", tc.name, got)
		}
		if got[verdict.Pass] < runs {
			t.Errorf("%s: %v, the last after %s", tc.name, got, ends[runs-1])
		}
		if !tc.late && !testing.Short() && ends[runs/2] > 150*time.Second { // one run has no middle
			t.Errorf("%s: the middle one passed after %s", tc.name, ends[runs/2])
		}
	}
}

func burst(rps float64) func(float64) float64 {
	return func(at float64) float64 {
		if math.Mod(at, 60) < 5 {
			return 8 * rps
		}
		return rps / 2
	}
}

// Unknown open requests never pass. If nothing counts them at all, the run waits for the request
// timeout.
func TestUnknownOpenRequestsDoNotPass(t *testing.T) {
	t.Parallel()
	with := func(change func(*Window)) func(int, *Window) {
		return func(_ int, w *Window) {
			w.RequestTimeout = 10 * time.Minute
			change(w)
		}
	}
	for _, tc := range []struct {
		name    string
		change  func(int, *Window)
		want    verdict.Verdict
		reasons []verdict.Reason
		windows int
		says    string
	}{
		{"known", with(func(*Window) {}), verdict.Pass, []verdict.Reason{verdict.Negligible}, 8, ""},
		{"not counted", with(func(w *Window) { w.Canary.StartedUnknown = true }), verdict.Pass, []verdict.Reason{verdict.Negligible}, 24, ""},
		{"of the baseline", with(func(w *Window) { w.Baseline.StartedUnknown = true }), verdict.Pass, []verdict.Reason{verdict.Negligible}, 24, ""},
		{"not counted, and no time", with(func(w *Window) { w.Canary.StartedUnknown, w.RequestTimeout = true, time.Hour }), verdict.Inconclusive, []verdict.Reason{verdict.WindowTooShort, verdict.Timeout}, 60, "1h2m0s after the start at the earliest"},
		{"not known", with(func(w *Window) { w.Canary.OpenUnknown = "NotRead" }), verdict.Inconclusive, []verdict.Reason{verdict.NoData, verdict.Timeout}, 60, "the number of open requests is not known: NotRead"},
		{"not watched for long enough", with(func(w *Window) { w.Canary.OverdueUnknown = "WindowTooShort" }), verdict.Inconclusive, []verdict.Reason{verdict.WindowTooShort, verdict.Timeout}, 60, "has not been watched"},
		{"they hang", with(func(w *Window) { w.Canary.Open = 20 }), verdict.Fail, []verdict.Reason{verdict.HangingRequests}, 4, "they may hang"},
		{"on both sides", with(func(w *Window) { w.Canary.Open, w.Baseline.Open = 20, 180 }), verdict.Pass, []verdict.Reason{verdict.Negligible}, 24, ""},
	} {
		run := Start(epoch, nil)
		n := 0
		for ; run.Last.Verdict == verdict.Running; n++ {
			w := at(n, arm(100, 0), arm(900, 0))
			tc.change(n, &w)
			run.Analyze(openPlan(), w)
		}
		if got := run.Last; got.Verdict != tc.want || !slices.Equal(got.Reasons, tc.reasons) || n != tc.windows || !strings.Contains(got.Message, tc.says) {
			t.Errorf("%s: got %s %v after %d windows: %s", tc.name, got.Verdict, got.Reasons, n, got.Message)
		}
	}
}

// A run that is stored between two analyses continues the same, and its state of open requests stays
// small after any number of analyses.
func TestOpenRequestsAreResumed(t *testing.T) {
	t.Parallel()
	whole, written := Start(epoch, nil), Start(epoch, nil)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 400 {
		from := epoch.Add(time.Duration(i) * time.Second)
		w := Window{From: from, To: from.Add(time.Second), Canary: Arm{Finished: 1, Started: 1, Open: float64(rng.IntN(9))}, Baseline: Arm{Finished: 9, Started: 9, Open: float64(rng.IntN(60))}}
		text, err := json.Marshal(written)
		if err != nil {
			t.Fatal(err)
		}
		written = &Run{}
		if err := json.Unmarshal(text, written); err != nil {
			t.Fatal(err)
		}
		if a, b := whole.Analyze(openPlan(), w), written.Analyze(openPlan(), w); !reflect.DeepEqual(a, b) {
			t.Fatalf("look %d: %+v, and %+v", i, a, b)
		}
		if n := len(whole.Evidence.Open.Readings); n > openReadings+8 {
			t.Fatalf("%d readings", n)
		}
	}
}
