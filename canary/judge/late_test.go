// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// lateWorlds are canaries that are good at first, or most of the time.
var lateWorlds = []struct {
	name string
	world
}{
	{"0.1 to 5 % after 10 min", world{rate: 0.001, odds: 52.6, begins: 10 * time.Minute}},
	{"1 to 5 % after 10 min", world{rate: 0.01, odds: 5.21, begins: 10 * time.Minute}},
	{"1 to 2 % after 10 min", world{rate: 0.01, odds: 2.02, begins: 10 * time.Minute}},
	{"60 s of 30 % every 15 min", world{rate: 0.001, bursts: 0.3, burst: time.Minute, every: 15 * time.Minute}},
	{"10 s of 50 % every 500 s", world{rate: 0.001, bursts: 0.5, burst: 10 * time.Second, every: 500 * time.Second}},
}

// TestLateFaults prints what a longer minDuration is good for, if CLUSTER_RUNS is set.
func TestLateFaults(t *testing.T) {
	t.Parallel()
	if os.Getenv("CLUSTER_RUNS") == "" {
		t.Skip("this only prints figures")
	}
	for _, c := range lateWorlds {
		for _, least := range []time.Duration{2 * time.Minute, 15 * time.Minute, 30 * time.Minute} {
			for _, known := range []time.Duration{time.Hour, 0} {
				w := c.world
				w.pods, w.canary, w.history = 10, 1, known
				w = base(w)
				p := errorsOnly()
				p.Alpha /= 2
				p.MinDuration, p.Deadline = least, 2*least+26*time.Minute
				f := w.figures(p, manyWorlds(t), firstSeed())
				slices.Sort(f.fails)
				t.Logf("%-28s minDuration %-6s timeout %-6s %-6s of history: %s, after %.0f requests of the canary", c.name, least, p.Deadline, known, f, median(f.fails))
			}
		}
	}
}

// turning gives a canary that is as good as its baseline for so many minutes, and then has 5 % errors.
// Nine pods of the baseline are alike.
func turning(good, each int) func(i int) Window {
	return func(i int) Window {
		n := float64(each)
		canary := arm(n, n/100)
		if i >= good {
			canary.Errors = n / 20
		}
		w := at(i, canary, arm(9*n, 9*n/100))
		w.From, w.To = epoch.Add(time.Duration(i)*time.Minute), epoch.Add(time.Duration(i+1)*time.Minute)
		w.Pods = map[string]Arm{}
		for pod := range 9 {
			w.Pods[string(rune('a'+pod))] = arm(n, n/100)
		}
		return w
	}
}

// alike is the history of nine pods that are alike.
func alike() []PodPast {
	pods := make([]PodPast, 9)
	for i := range pods {
		pods[i] = PodPast{Watched: time.Hour, Errors: Expected{100, 100}}
	}
	return pods
}

// A fault that comes after an hour is not diluted by the hour before it. From the start of the run alone,
// the Fail came after 27 minutes instead of 7.
func TestLateFaultIsNotDiluted(t *testing.T) {
	t.Parallel()
	p := errorsOnly()
	p.MinDuration, p.Deadline = 100*time.Minute, 2*time.Hour
	window, run := turning(62, 200), Start(epoch, nil)
	run.Remember(alike())
	i := 0
	for ; run.Last.Verdict == verdict.Running; i++ {
		run.Analyze(p, window(i))
	}
	if late := i - 62; run.Last.Verdict != verdict.Fail || late > 8 {
		t.Errorf("%s %d minutes after the fault: %s", run.Last.Verdict, late, run.Last.Message)
	}
}

// All that was good before does not make a canary pass that is bad now.
func TestNoPassWhileTheLatestMinutesAreWorse(t *testing.T) {
	t.Parallel()
	p := errorsOnly()
	p.MinDuration, p.Deadline = 40*time.Minute, time.Hour
	window, run := turning(39, 2000), Start(epoch, nil)
	run.Remember(alike())
	for i := range 40 {
		run.Analyze(p, window(i))
	}
	r := run.Last
	if r.Verdict != verdict.Running || r.Metrics[0].EPass < r.Metrics[0].EPassLimit || !strings.Contains(r.Message, "lately, so it does not pass") {
		t.Errorf("%s, e-value of a Pass %v: %s", r.Verdict, r.Metrics[0].EPass, r.Message)
	}
	good, again := turning(99, 2000), Start(epoch, nil)
	again.Remember(alike())
	for i := range 40 {
		again.Analyze(p, good(i))
	}
	if again.Last.Verdict != verdict.Pass {
		t.Errorf("a good one: %s: %s", again.Last.Verdict, again.Last.Message)
	}
}

// A verdict says which time it covers: the windows that were judged.
func TestVerdictSaysWhichTimeItCovers(t *testing.T) {
	t.Parallel()
	p := errorsOnly()
	run := Start(epoch, nil)
	for i := 4; run.Last.Verdict == verdict.Running; i++ {
		run.Analyze(p, at(i, arm(500, 0), arm(900, 0)))
	}
	if from, to := epoch.Add(2*time.Minute), run.Evidence.Until; !run.Last.From.Time().Equal(from) || !run.Last.To.Time().Equal(to) {
		t.Errorf("from %v to %v, not from %v to %v", run.Last.From, run.Last.To, from, to)
	}
	if want := "from 00:02:00 to 00:03:00 (UTC)"; !strings.Contains(run.Last.Message, want) {
		t.Errorf("%q does not contain %q", run.Last.Message, want)
	}
}

// The weights of all starts add to one, so the sum begins with an e-value of 1 at most.
func TestWeightsOfStartsAddToOne(t *testing.T) {
	t.Parallel()
	d := &test{Odds: newOdds(1.5)}
	for range lateStarts + 1 {
		near(t, "all that nobody has won", math.Exp(d.mixed(Metric{MaxOddsRatio: 1.5}, func(mark) float64 { return 0 })), 1, 1e-12)
		if len(d.Marks) < lateStarts {
			d.Marks = append(d.Marks, mark{})
		}
	}
	p := Plan{Warmup: time.Minute, Deadline: 31 * time.Minute}
	for at, want := range map[time.Duration]int{0: 0, time.Minute: 0, 6 * time.Minute: 1, 16 * time.Minute: 3, 30 * time.Minute: 5, time.Hour: 5} {
		if got := p.begun(at); got != want {
			t.Errorf("after %v: %d late starts, not %d", at, got, want)
		}
	}
}

// A late fault of a sharded Service is caught by the analyses that come after it.
func TestLateFaultOfShards(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		begins int
		least  float64
	}{{3, 0.95}, {4, 0.8}} {
		p := shardedPlan()
		p.MinDuration = p.Deadline
		o := play(t, p, manyRuns(100), fleet{shards: 100, canary: 5, rate: 0.01, ratio: 3, sigma: 0.5, begins: tc.begins}.scenario)
		t.Logf("3 times the odds after %s of 30 min: %s", analysesAt[tc.begins-1], o)
		if f := o.verdicts[verdict.Fail]; f < tc.least-o.tolerance(tc.least) {
			t.Errorf("3 times the odds after %s: failed in %.3f of the runs only", analysesAt[tc.begins-1], f)
		}
	}
}

// Evidence with more than the plan can have begun was edited.
func TestMarksThatCannotBe(t *testing.T) {
	t.Parallel()
	for _, edit := range []string{`"marks":[{},{},{},{},{},{}]`, `"latest":{"until":[[],[],[],[],[],[]]}`, `"alone":{"bets":[1]}`} {
		run := Start(epoch, nil)
		text := `{"metrics":{"errors":{"tests":[{"odds":{"ratios":[0.5,0.75,1,1.25,1.5,2,3,5,10],"logs":[0,0,0,0,0,0,0,0,0]},` + edit + `}]}}}`
		if err := json.Unmarshal([]byte(text), &run.Evidence); err != nil {
			t.Fatal(err)
		}
		if err := run.Check(errorsOnly()); err == nil {
			t.Errorf("%s is not refused", edit)
		}
	}
}
