// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// heavy draws a duration from a lognormal with a heavy tail, in seconds.
func heavy(rng *rand.Rand) float64 { return 0.05 * math.Exp(1.2*rng.NormFloat64()) }

// timed adds n durations to an arm, a part of them from a slow tail.
func timed(rng *rand.Rand, n int, tail float64) Arm {
	a := arm(float64(n), 0)
	a.Above = map[float64]float64{}
	for _, b := range bounds {
		a.Above[b] = 0
	}
	for range n {
		d := heavy(rng)
		if rng.Float64() < tail {
			d += 3
		}
		for _, b := range bounds {
			if d > b {
				a.Above[b]++
			}
		}
	}
	return a
}

func latency(kind MetricKind) Plan {
	p := errorsOnly()
	p.Metrics = []Metric{{Name: "latency", Kind: kind, Threshold: 0.5, MaxOddsRatio: 1.5, Negligible: 0.005, Weight: 1, Critical: true}}
	return p
}

func tailed(tail float64) scenario {
	return func(rng *rand.Rand) (source, map[string]Counts) {
		return func(i int) Window {
			// Four pods show how much pods differ.
			pods, baseline := map[string]Arm{}, Arm{Above: map[float64]float64{}}
			for _, name := range []string{"a", "b", "c", "d"} {
				pod := timed(rng, 50, 0)
				pods[name] = pod
				baseline.Finished, baseline.Started = baseline.Finished+pod.Finished, baseline.Started+pod.Started
				for bound, n := range pod.Above {
					baseline.Above[bound] += n
				}
			}
			w := at(i, timed(rng, 50, tail), baseline)
			w.Pods = pods
			return w
		}, nil
	}
}

func TestLatencyUnderHeavyTails(t *testing.T) {
	t.Parallel()
	for _, kind := range []MetricKind{Slow, SlowerAnywhere} {
		o := play(t, latency(kind), 100, tailed(0))
		if f := o.verdicts[verdict.Fail]; f > 0.05+o.tolerance(0.05) {
			t.Errorf("%s: a canary like its baseline failed in %.3f of the runs", kind, f)
		}
		o = play(t, latency(kind), 100, tailed(0.05))
		if f := o.verdicts[verdict.Fail]; f < 0.95-o.tolerance(0.05) {
			t.Errorf("%s: a slow tail of 5 %% failed in %.3f of the runs", kind, f)
		}
	}
}

// Unknown latency never passes.
func TestUnknownLatencyIsNoData(t *testing.T) {
	t.Parallel()
	good := func() Arm {
		a := arm(1000, 0)
		a.Above = map[float64]float64{0.5: 0, 1: 0}
		return a
	}
	unknown, native, elsewhere := good(), arm(1000, 0), good()
	unknown.DurationsUnknown = "the pods' buckets differ"
	elsewhere.Above = map[float64]float64{0.3: 0}
	for _, tc := range []struct {
		name             string
		canary, baseline Arm
		says             string
	}{
		{"durations unknown", unknown, good(), "the pods' buckets differ"},
		{"of the baseline", good(), unknown, "baseline: the pods' buckets differ"},
		{"native buckets only", native, native, ""},
		{"a threshold that is no bound", elsewhere, good(), "0.5 s is not a bound"},
	} {
		for _, kind := range []MetricKind{Slow, SlowerAnywhere} {
			got := repeat(latency(kind), tc.canary, tc.baseline, nil)
			if got.Verdict != verdict.Inconclusive || got.Metrics[0].Reason != verdict.NoData || !strings.Contains(got.Message, tc.says) {
				t.Errorf("%s, %s: got %s %s: %s", tc.name, kind, got.Verdict, got.Metrics[0].Reason, got.Message)
			}
		}
	}
	// One window in three has no data; the last one has.
	got := repeat(latency(Slow), good(), good(), func(i int, w *Window) {
		if i%3 == 0 {
			w.Canary.DurationsUnknown = "a pod did not answer"
		}
	})
	if got.Verdict == verdict.Pass {
		t.Errorf("a third of the requests unknown: got %s", got.Verdict)
	}
}
