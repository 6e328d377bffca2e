// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// ordinary is the plan of a gate of an ordinary Service that sets only its Service.
func ordinary() Plan {
	p := errorsOnly()
	for _, m := range []Metric{{Name: "client", Kind: ClientErrors, MaxOddsRatio: 3}, {Name: "slow", Kind: Slow, Threshold: 0.5, MaxOddsRatio: 1.5}} {
		m.Negligible, m.Weight, m.Critical = 0.005, 1, true
		p.Metrics = append(p.Metrics, m)
	}
	return p
}

// refusing answers requests with 404: the canary's with one rate, and the baseline's with another, in
// each window.
func refusing(canary, baseline func(rng *rand.Rand, window int) float64) scenario {
	return func(rng *rand.Rand) (source, map[string]Counts) {
		return func(i int) Window {
			side := func(n, rate float64) Arm {
				bad := binomial(rng, n, rate)
				return Arm{Finished: n, Entered: n, StartedUnknown: true, Above: map[float64]float64{0.5: 0}, Codes: map[string]float64{"404": bad, "200": n - bad}}
			}
			return at(i, side(100, canary(rng, i)), side(900, baseline(rng, i)))
		}, nil
	}
}

// ofPods divides the baseline's answers among nine pods.
func ofPods(s scenario) scenario {
	return func(rng *rand.Rand) (source, map[string]Counts) {
		of, before := s(rng)
		return func(i int) Window {
			w := of(i)
			w.Pods = map[string]Arm{}
			left := map[string]float64{"404": w.Baseline.Codes["404"], "200": w.Baseline.Codes["200"]}
			for pod := range 9 {
				codes, all := map[string]float64{}, 0.0
				for _, code := range []string{"200", "404"} {
					codes[code] = binomial(rng, left[code], 1/float64(9-pod))
					left[code] -= codes[code]
					all += codes[code]
				}
				w.Pods[string(rune('a'+pod))] = Arm{Finished: all, Entered: all, StartedUnknown: true, Above: map[float64]float64{0.5: 0}, Codes: codes}
			}
			return w
		}, before
	}
}

// quantiles are the median and what is enough in nine runs of ten.
func quantiles(of []float64) []float64 {
	if len(of) == 0 {
		return nil
	}
	slices.Sort(of)
	return []float64{of[len(of)/2], of[len(of)*9/10]}
}

func constantly(rate float64) func(*rand.Rand, int) float64 {
	return func(*rand.Rand, int) float64 { return rate }
}

// A canary whose clients make as many mistakes as the baseline's, or somewhat more, does not fail; one
// that refuses half of the requests does not pass.
func TestClientErrors(t *testing.T) {
	t.Parallel()
	type rates = func(*rand.Rand, int) float64
	// A scanner asks one side for much that does not exist, for a window.
	scanned := func(rate float64) rates {
		return func(rng *rand.Rand, _ int) float64 {
			if rng.Float64() < 0.05 {
				return rate + 0.3
			}
			return rate
		}
	}
	daily := func(rate float64) rates {
		return func(_ *rand.Rand, i int) float64 { return rate * (1 + float64(i%40)/20) }
	}
	for _, c := range []struct {
		name             string
		canary, baseline rates
		mostFail, least  float64
	}{
		{"1 %", constantly(.01), constantly(.01), .01, .95},
		{"5 %", constantly(.05), constantly(.05), .01, .95},
		{"30 %", constantly(.3), constantly(.3), .01, .95},
		{"1 % to 2 %", constantly(.02), constantly(.01), .01, 0},
		{"5 % to 10 %", constantly(.1), constantly(.05), .01, 0},
		{"30 % to 50 %", constantly(.5), constantly(.3), .01, 0},
		{"5 % that triples", daily(.05), daily(.05), .01, .95},
		{"30 % that triples", daily(.3), daily(.3), .01, .95},
		{"1 %, and scanners", scanned(.01), scanned(.01), .02, 0},
		{"5 %, and scanners", scanned(.05), scanned(.05), .02, 0},
	} {
		o := play(t, ordinary(), manyRuns(200), refusing(c.canary, c.baseline))
		t.Logf("%-30s %s", c.name, o)
		if f := o.verdicts[verdict.Fail]; f > c.mostFail+o.tolerance(c.mostFail) {
			t.Errorf("%s: failed in %.3f of the runs", c.name, f)
		}
		if p := o.verdicts[verdict.Pass]; p < c.least-o.tolerance(c.least) {
			t.Errorf("%s: passed in %.3f of the runs only", c.name, p)
		}
	}
	for _, c := range []struct {
		name             string
		canary, baseline rates
		least            float64
	}{
		{"all, none before", constantly(1), constantly(0), 1},
		{"all, 30 % before", constantly(1), constantly(.3), 0},
		{"half, 1 % before", constantly(.5), constantly(.01), 1},
		{"a fifth, 1 % before", constantly(.2), constantly(.01), 1},
		{"half, 5 % before", constantly(.5), constantly(.05), 1},
	} {
		for pods, s := range map[string]scenario{"pods not known": refusing(c.canary, c.baseline), "pods known": ofPods(refusing(c.canary, c.baseline))} {
			o := play(t, ordinary(), manyRuns(100), s)
			t.Logf("%-30s %-15s %s after %.0f", c.name, pods, o, quantiles(o.requests[verdict.Fail]))
			if o.verdicts[verdict.Pass]+o.verdicts[verdict.Warn] > 0 || o.verdicts[verdict.Fail] < c.least {
				t.Errorf("%s, %s: %v", c.name, pods, o.verdicts)
			}
		}
	}
}

// A canary that has both sides refuse their clients does not pass.
func TestRefusalsByBothSides(t *testing.T) {
	t.Parallel()
	for rate, want := range map[float64]verdict.Verdict{.02: verdict.Pass, .06: verdict.Pass, .5: verdict.Inconclusive, 1: verdict.Inconclusive} {
		window, before := refusing(constantly(rate), constantly(rate))(rand.New(rand.NewPCG(1, 7)))
		run := Start(epoch, before)
		run.Recall(Level{Watched: 2 * time.Hour, Errors: Ratio{0, 25000}, ClientErrors: Ratio{500, 25000}})
		for i := 0; run.Last.Verdict == verdict.Running; i++ {
			run.Analyze(ordinary(), window(i))
		}
		if run.Last.Verdict != want || want == verdict.Inconclusive && !slices.Contains(run.Last.Reasons, verdict.BaselineWorsened) {
			t.Errorf("%v: %s %v: %s", rate, run.Last.Verdict, run.Last.Reasons, run.Last.Message)
		}
	}
}

// A metric of client errors leaves the others nearly all of alpha.
func TestClientErrorsTakeLittleOfAlpha(t *testing.T) {
	t.Parallel()
	p := ordinary()
	without := p
	without.Metrics = []Metric{p.Metrics[0], p.Metrics[2]}
	sum := 0.0
	for i, m := range p.Metrics {
		sum += 1 / p.levels(m).fail
		if i == 1 {
			continue
		}
		if now, before := p.levels(m).fail, without.levels(m).fail; now > 1.06*before {
			t.Errorf("%s needs an e-value of %v, and %v without", m.Name, now, before)
		}
	}
	if sum > p.Alpha*1.000001 {
		t.Errorf("all may fail with probability %v", sum)
	}
}

// Applications answer with codes of their own, but not with more than there are.
func TestManyCodes(t *testing.T) {
	t.Parallel()
	all := map[string]float64{"unknown": 1}
	for code := range 800 {
		all[fmt.Sprint(200+code)] = 1
	}
	run, p := Start(epoch, nil), ordinary()
	size := 0
	for i := range 100 {
		a := Arm{Finished: 801, Entered: 801, StartedUnknown: true, Codes: all, Above: map[float64]float64{0.5: 0}}
		run.Analyze(p, at(i, a, a))
		content, err := json.Marshal(run)
		if err != nil {
			t.Fatal(err)
		}
		size = max(size, len(content))
	}
	if size > 32<<10 {
		t.Errorf("%d bytes", size)
	}
}
