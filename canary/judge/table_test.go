// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// rule is another way to judge the same stream, by windows of a minute. It returns true when it stops
// the canary.
type rule struct {
	name string
	make func() func(canary, baseline tally) bool
}

// rules as the other tools' documentation shows them.
var rules = []rule{
	// Flagger: analysis.threshold 5, and request-success-rate with min: 99. Failed checks add up.
	{"Flagger, 99 %, 5 failed", func() func(tally, tally) bool {
		failed := 0
		return func(c, _ tally) bool {
			if c.N > 0 && c.rate() > 0.01 {
				failed++
			}
			return failed >= 5
		}
	}},
	// Argo Rollouts: successCondition: result[0] >= 0.95, failureLimit: 3. More than
	// three failed measurements fail the run.
	{"Argo, 95 %, limit 3", func() func(tally, tally) bool {
		failed := 0
		return func(c, _ tally) bool {
			if c.N > 0 && c.rate() > 0.05 {
				failed++
			}
			return failed > 3
		}
	}},
	// The same with a threshold as strict as Flagger's, and only consecutive failures.
	{"fixed 99 %, 3 in a row", func() func(tally, tally) bool {
		row := 0
		return func(c, _ tally) bool {
			if row++; c.N > 0 && c.rate() <= 0.01 {
				row = 0
			}
			return row >= 3
		}
	}},
	{"95 % interval, each window", func() func(tally, tally) bool {
		var canary, baseline tally
		return func(c, b tally) bool {
			canary.add(c)
			baseline.add(b)
			low, _ := newcombe(canary, baseline, z95)
			return low > 0
		}
	}},
}

// stopped returns the minute of the run in which each rule stops it, with the judge last; 0 means
// never. Every rule sees the same requests.
func stopped(p Plan, window source) []int {
	out := make([]int, len(rules)+1)
	judges := make([]func(canary, baseline tally) bool, len(rules))
	for i, r := range rules {
		judges[i] = r.make()
	}
	first := window(0)
	run := started(first, nil, rand.New(rand.NewPCG(1, 8)))
	for minute := 1; minute <= 30; minute++ {
		var c, b tally
		for half := range 2 {
			w := first
			if i := 2*(minute-1) + half; i > 0 {
				w = window(i)
			}
			c.add(tally{N: w.Canary.Finished, K: w.Canary.Errors})
			b.add(tally{N: w.Baseline.Finished, K: w.Baseline.Errors})
			if run.Analyze(p, w); run.Last.Verdict == verdict.Fail && out[len(rules)] == 0 {
				out[len(rules)] = minute
			}
		}
		for i, stop := range judges {
			if stop(c, b) && out[i] == 0 {
				out[i] = minute
			}
		}
	}
	return out
}

// TestTable prints the tables of docs/benchmarks.md, and asserts what they claim.
func TestTable(t *testing.T) {
	t.Parallel()
	outage := func(rng *rand.Rand) (source, map[string]Counts) {
		return func(i int) Window {
			rate := 0.002
			if i >= 10 && i < 22 {
				rate = 0.1
			}
			return at(i, arm(50, binomial(rng, 50, rate)), arm(950, binomial(rng, 950, rate)))
		}, nil
	}
	runs := manyRuns(1000)
	var text strings.Builder
	text.WriteString("| stream | true verdict |")
	for _, r := range rules {
		fmt.Fprintf(&text, " %s |", r.name)
	}
	text.WriteString(" ours |\n|---|---|" + strings.Repeat("---:|", len(rules)+1) + "\n")
	for _, tc := range []struct {
		name, truth string
		of          scenario
		healthy     bool
	}{
		{"no errors", "healthy", steady(0, 0), true},
		{"0.2 % on both sides", "healthy", steady(0.002, 0.002), true},
		{"0.5 % on both sides", "healthy", steady(0.005, 0.005), true},
		{"1 % on both sides", "healthy", steady(0.01, 0.01), true},
		{"both fail 10 % for 6 minutes", "healthy", outage, true},
		{"0.1 → 5 %", "bad", steady(0.001, 0.05), false},
		{"1 → 5 %", "bad", steady(0.01, 0.05), false},
		{"0.2 → 0.8 %", "bad", steady(0.002, 0.008), false},
	} {
		minutes := make([][]float64, len(rules)+1)
		for n := range runs {
			window, _ := withPods(tc.of)(rand.New(rand.NewPCG(uint64(n), 11)))
			for i, minute := range stopped(errorsOnly(), window) {
				if minute > 0 {
					minutes[i] = append(minutes[i], float64(minute))
				}
			}
		}
		fmt.Fprintf(&text, "| %s | %s |", tc.name, tc.truth)
		for _, m := range minutes {
			fmt.Fprintf(&text, " %.1f %%", 100*float64(len(m))/float64(runs))
			if len(m) > runs/10 {
				fmt.Fprintf(&text, ", minute %.0f", median(m))
			}
			text.WriteString(" |")
		}
		text.WriteString("\n")
		ours := float64(len(minutes[len(rules)])) / float64(runs)
		if tc.healthy && ours > 0.05+3*math.Sqrt(0.05*0.95/float64(runs)) {
			t.Errorf("%s: ours stopped %.3f of the runs", tc.name, ours)
		}
	}
	t.Logf("stopped in 30 minutes, and when at the median (%d runs; 2,000 requests a minute, 5 %% of them the canary's)\n%s", runs, text.String())
}

// TestRequestsNeeded prints how many canary requests a verdict takes without any minimum or time limit.
func TestRequestsNeeded(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString("| baseline → canary | verdict | share of the runs | requests of the canary, median | nine in ten |\n|---|---|---:|---:|---:|\n")
	for _, tc := range []struct {
		from, to float64
		want     verdict.Verdict
		limit    float64
		// near is the result that the design was measured with; 0 is not compared.
		near float64
		// unknown means that nothing is known of the pods from before.
		unknown bool
	}{
		{0.001, 0.05, verdict.Fail, 0, 100, false},
		{0.001, 0.05, verdict.Fail, 0.02, 100, false},
		{0.01, 0.05, verdict.Fail, 0, 0, false},
		{0.01, 0.02, verdict.Fail, 0, 5000, false},
		{0.001, 0.05, verdict.Fail, 0, 0, true},
		{0.01, 0.05, verdict.Fail, 0, 0, true},
		{0.01, 0.02, verdict.Fail, 0, 2.4 * 5000, true}, // bets on minutes alone need that many more
		{0, 0, verdict.Pass, 0, 750, false},
		{0.001, 0.001, verdict.Pass, 0, 1350, false},
		{0.01, 0.01, verdict.Pass, 0, 0, false},
		{0.05, 0.05, verdict.Pass, 0, 0, false},
	} {
		p := errorsOnly().withLimit(tc.limit)
		// The default in an ordinary Service, where errors are one of two metrics.
		p.Alpha /= 2
		p.MinCanary, p.MinBaseline, p.MinDuration, p.Deadline = 1, 1, 0, 400*interval
		of := withPods(steady(tc.from, tc.to))
		if tc.unknown {
			of = withStrangers(steady(tc.from, tc.to))
		}
		o := play(t, p, manyRuns(250), of)
		r := o.requests[tc.want]
		slices.Sort(r)
		name := fmt.Sprintf("%g → %g %%", 100*tc.from, 100*tc.to)
		if tc.unknown {
			name += ", pods unknown"
		}
		if tc.limit > 0 {
			name += fmt.Sprintf(", limit %g %%", 100*tc.limit)
		}
		fmt.Fprintf(&text, "| %s | %s | %.1f %% | %.0f | %.0f |\n", name, tc.want, 100*o.verdicts[tc.want], median(r), r[len(r)*9/10])
		if tc.near > 0 && (median(r) > 1.5*tc.near+50 || o.verdicts[tc.want] < 0.9) {
			t.Errorf("%s: %s in %.2f of the runs, with %v requests; %v were expected", name, tc.want, o.verdicts[tc.want], median(r), tc.near)
		}
	}
	t.Logf("requests needed (windows of 1,000, 5 %% of them the canary's; 20,000 of the canary at most)\n%s", text.String())
}

func median(of []float64) float64 {
	if len(of) == 0 {
		return math.NaN()
	}
	slices.Sort(of)
	return of[len(of)/2]
}
