// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// answering answers some requests with 404 and some with 500 in an ordinary Service.
func answering(requests, refused, failed float64) Arm {
	return Arm{
		Finished: requests, Entered: requests, Errors: failed, StartedUnknown: true, Above: map[float64]float64{0.5: 0},
		Codes: map[string]float64{"200": requests - refused - failed, "404": refused, "500": failed},
	}
}

// A canary that answers hardly anybody fails after two minutes, whatever is known of pods, and however good it was
// before. One for which there may be another reason is judged as ever.
func TestOutage(t *testing.T) {
	t.Parallel()
	good, old := answering(900, 0, 1), ordinary()
	young := ordinary()
	young.Warmup = 3 * time.Minute
	long := ordinary()
	long.MinDuration = 20 * time.Minute
	known := func(_ int, w *Window) {
		w.Pods = map[string]Arm{}
		for _, pod := range []string{"a", "b", "c"} {
			w.Pods[pod] = answering(300, 0, 0)
		}
	}
	for name, c := range map[string]struct {
		plan             Plan
		canary, baseline func(i int) Arm
		change           func(i int, w *Window)
		want             verdict.Reason
		after            time.Duration
	}{
		"404 to all":       {old, eachWindow(answering(300, 300, 0)), eachWindow(good), nil, verdict.Outage, 2 * time.Minute},
		"500 to most":      {old, eachWindow(answering(300, 0, 200)), eachWindow(answering(300, 0, 20)), nil, verdict.Outage, 2 * time.Minute},
		"half the traffic": {old, eachWindow(answering(300, 300, 0)), eachWindow(answering(300, 3, 0)), known, verdict.Outage, 2 * time.Minute},
		"little traffic waits for the minimum": {
			old, eachWindow(answering(30, 30, 0)), eachWindow(answering(30, 0, 0)), nil, verdict.Outage, 5 * time.Minute,
		},
		"young pods wait for the warm-up": {young, eachWindow(answering(300, 300, 0)), eachWindow(good), func(i int, w *Window) {
			if i < 6 {
				w.Young.Canary = w.Canary
			}
		}, verdict.Outage, 5 * time.Minute},
		"after ten good minutes": {long, func(i int) Arm {
			return answering(9000, 9000*map[bool]float64{true: 1}[i >= 20], 0)
		}, eachWindow(good), nil, verdict.Outage, 12 * time.Minute},
		"it ends in time":                     {old, func(i int) Arm { return answering(300, 300*map[bool]float64{true: 1}[i < 3], 0) }, eachWindow(good), nil, "", 0},
		"again and again, but never for long": {old, func(i int) Arm { return answering(300, 300*map[bool]float64{true: 1}[i%4 > 0], 0) }, eachWindow(answering(900, 90, 0)), nil, "", 0},
		"half of the requests":                {old, eachWindow(answering(300, 150, 0)), eachWindow(answering(300, 20, 0)), nil, "", 0},
		"what is negligible":                  {lenient(ordinary(), 0.9), eachWindow(answering(300, 0, 200)), eachWindow(good), nil, "", 0},
		"one old pod of many that are young": {old, eachWindow(answering(2030, 0, 30)), eachWindow(answering(100, 0, 0)), func(_ int, w *Window) {
			w.Young.Canary = answering(2000, 0, 0)
		}, "", 0},
		"good while its pod is young again": {old, func(i int) Arm {
			return answering(300, 300*map[bool]float64{true: 1}[i%4 < 3], 0)
		}, eachWindow(answering(300, 0, 0)), func(i int, w *Window) {
			if i%4 == 3 {
				w.Young.Canary = w.Canary
			}
		}, "", 0},
		"not known now and then": {old, eachWindow(answering(300, 300, 0)), eachWindow(good), func(i int, w *Window) {
			w.Canary.NoCodes = i%4 == 3
		}, "", 0},
		"good whenever the baseline is not known": {old, func(i int) Arm {
			return answering(300, 300*map[bool]float64{true: 1}[i%4 < 3], 0)
		}, eachWindow(good), func(i int, w *Window) { w.Baseline.NoCodes = i%4 == 3 }, "", 0},
		"the baseline served before": {old, eachWindow(answering(300, 300, 0)), func(i int) Arm {
			return answering(900*map[bool]float64{true: 1}[i == 0], 0, 0)
		}, nil, "", 0},
		"of both":                               {old, eachWindow(answering(300, 0, 200)), eachWindow(answering(300, 0, 100)), nil, "", 0},
		"nobody to compare with":                {old, eachWindow(answering(300, 300, 0)), eachWindow(answering(0, 0, 0)), nil, "", 0},
		"all requests are slow and none failed": {old, func(int) Arm { a := answering(100, 0, 0); a.Above[0.5] = 100; return a }, eachWindow(good), nil, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := Start(epoch, nil)
			for i := 0; run.Last.Verdict == verdict.Running; i++ {
				w := at(i, c.canary(i), c.baseline(i))
				if c.change != nil {
					c.change(i, &w)
				}
				again(t, &run, c.plan)
				run.Analyze(c.plan, w)
			}
			failed := run.Last.Verdict == verdict.Fail && run.Last.Reasons[0] == verdict.Outage
			if took := run.Evidence.Until.Sub(epoch); failed != (c.want != "") || failed && took != c.after {
				t.Errorf("%s %v after %s, want %q after %s: %s", run.Last.Verdict, run.Last.Reasons, took, c.want, c.after, run.Last.Message)
			}
			if failed && !strings.Contains(run.Last.Message, "most requests of the canary failed for at least ") {
				t.Error(run.Last.Message)
			}
		})
	}
}

// lenient calls more requests negligible.
func lenient(p Plan, rate float64) Plan {
	for i := range p.Metrics {
		p.Metrics[i].Negligible = rate
	}
	return p
}

// A window counts for half a minute at most, however long it is: the pause of a Service is no outage, and neither is
// one bad minute of a pod if a gate looks every hour.
func TestLongWindowsAreNoOutage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		// ends of the windows, in minutes since the start; bad from the third on.
		ends []int
		want bool
	}{
		"a pause":                       {[]int{1, 2, 62, 63}, false},
		"every ten minutes":             {[]int{10, 20, 30, 40, 50}, false},
		"every ten minutes, for longer": {[]int{10, 20, 30, 40, 50, 60}, true},
	} {
		p := ordinary()
		p.MinDuration, p.Deadline = 9*time.Hour, 10*time.Hour
		run := Start(epoch, nil)
		from := epoch
		for i, end := range c.ends {
			w := at(i, answering(400, 400*map[bool]float64{true: 1}[i > 1], 0), answering(900, 0, 0))
			w.From, w.To = from, epoch.Add(time.Duration(end)*time.Minute)
			from = w.To
			run.Analyze(p, w)
		}
		if failed := run.Last.Verdict == verdict.Fail; failed != c.want {
			t.Errorf("%s: %s %v: %s", name, run.Last.Verdict, run.Last.Reasons, run.Last.Message)
		}
	}
}

// A metric that is not critical goes on after its Fail, and says what failed it.
func TestOutageThatIsOver(t *testing.T) {
	t.Parallel()
	p := ordinary()
	for i := range p.Metrics {
		p.Metrics[i].Critical = false
	}
	p.MinDuration = 20 * time.Minute
	run := Start(epoch, nil)
	for i := range 10 {
		again(t, &run, p)
		run.Analyze(p, at(i, answering(300, 300*map[bool]float64{true: 1}[i < 5], 0), answering(900, 0, 0)))
	}
	if m := run.Last.Message; !strings.Contains(m, "most requests of the canary failed for at least 2m0s, and 0 % of the baseline's") {
		t.Error(m)
	}
}

func eachWindow(a Arm) func(int) Arm { return func(int) Arm { return a } }

// again stores the run and reads it, as another controller would.
func again(t *testing.T, run **Run, p Plan) {
	t.Helper()
	stored, err := json.Marshal(*run)
	if err != nil {
		t.Fatal(err)
	}
	next := &Run{}
	if err := json.Unmarshal(stored, next); err != nil {
		t.Fatal(err)
	}
	if err := next.Check(p); err != nil {
		t.Fatal(err)
	}
	*run = next
}

// What pods of the baseline did explains a bad pod of the canary.
func TestOutageOfOnePodAmongMany(t *testing.T) {
	t.Parallel()
	m := Metric{Kind: Errors, MaxOddsRatio: 1.5}
	d := metricData{Tests: []*test{newTest(m, 0)}, Outage: outage{Canary: tally{N: 1000, K: 600}, Baseline: tally{N: 9000, K: 450}, Long: outageTime}}
	for name, c := range map[string]struct {
		v    analysis
		want bool
	}{
		"pods not known":                      {analysis{}, true},
		"pods are alike":                      {analysis{past: past{Pods: 4, Watched: time.Hour, Errors: 2, WorstErrors: 2}}, true},
		"one was as bad":                      {analysis{past: past{Pods: 4, Watched: time.Hour, Errors: 2, WorstErrors: 40}}, false},
		"all have bad times":                  {analysis{past: past{Pods: 4, Watched: time.Hour, Errors: 40, WorstErrors: 2}}, false},
		"5 % of the baseline failed before":   {analysis{worst: worst{Errors: tally{N: 300, K: 15}}}, true},
		"30 % of the baseline failed before":  {analysis{worst: worst{Errors: tally{N: 300, K: 90}}}, false},
		"4xx of it were as bad, not failures": {analysis{worst: worst{Client: tally{N: 300, K: 90}}}, true},
	} {
		if got := d.outage(c.v, m); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// In a sharded Service, where requests enter shows an outage. What a side handled may be the fault of a few shards.
func TestOutageOfShards(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		behind, entry float64
		want          bool
	}{"the entry": {0, 0.9, true}, "behind it": {0.9, 0, false}} {
		of, before := entering(c.behind, c.entry)(rand.New(rand.NewPCG(1, 2)))
		run := Start(epoch, before)
		for i := 0; i < 5 && run.Last.Verdict == verdict.Running; i++ {
			run.Analyze(stateful(), of(i))
		}
		if failed := run.Last.Verdict == verdict.Fail; failed != c.want {
			t.Errorf("%s: %s %v", name, run.Last.Verdict, run.Last.Reasons)
		}
	}
}

// Requests that are as likely to fail at both sides, and few of them in a window, are no outage.
func TestNoOutageByChance(t *testing.T) {
	t.Parallel()
	m := Metric{Kind: Errors, MaxOddsRatio: 1.5}
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 7))
		d, rate := metricData{Tests: []*test{newTest(m, 0)}}, 0.2*rng.Float64()
		for range 240 {
			n := float64(1 + rng.IntN(3))
			both := table{canary: tally{n, binomial(rng, n, rate)}, baseline: tally{n, binomial(rng, n, rate)}}
			d.Outage.add(both, both.canary, 15*time.Second)
			if d.outage(analysis{}, m) {
				t.Fatalf("seed %d: %+v at a rate of %.2f on both sides", seed, d.Outage, rate)
			}
		}
	}
}

// Pods that fail all of their requests for two minutes now and then are no outage of the canary's only pod.
func TestOutagesOfPods(t *testing.T) {
	t.Parallel()
	for _, pods := range []int{10, 3, 2} {
		for _, known := range []time.Duration{0, 10 * time.Minute, 2 * time.Hour} {
			w := base(world{pods: pods, canary: 1, rate: 0.001, share: 0.05, fails: 1, history: known, recalled: true})
			f := w.figures(unhurried(), manyWorlds(t), firstSeed())
			t.Logf("1 of %2d pods, %-6s of history: %s", pods, known, f)
			// Of few pods without a history, nothing is known.
			expected := pods > leastPods || known > time.Hour
			if share, most := float64(len(f.fails))/float64(f.runs), 0.05; expected && share > most+(outcome{runs: f.runs}).tolerance(most) {
				t.Errorf("1 of %d pods, %s of history: failed in %.3f of the runs", pods, known, share)
			}
		}
	}
}
