// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// comparing is the plan of a gate of an ordinary Service without limits.restarts. It lasts as long as the deadline.
func comparing(long time.Duration) Plan {
	p := ordinary()
	p.Limits = Limits{Restarts: -1, CompareRestarts: true, Unaccounted: 0.01}
	p.MinDuration, p.Deadline = long, long
	return p
}

// killing is a Service whose containers are killed. Nothing else goes wrong.
type killing struct {
	canary, baseline int
	// mean is the mean time between two kills of a pod of the baseline, and times how much more often the canary's are
	// killed.
	mean  time.Duration
	times float64
	// together is how many pods of a side a kill takes with it, as a node does.
	together int
}

// namesOfPods by side.
var namesOfPods = func() (names [2][100]string) {
	for i := range 100 {
		names[0][i], names[1][i] = fmt.Sprint("c", i), fmt.Sprint("b", i)
	}
	return names
}()

// lives returns how the pods fare in a window: one entry for each that restarts, and one for the time of all.
func (k killing) lives(rng *rand.Rand) []Life {
	var out []Life
	for side, pods := range []int{k.canary, k.baseline} {
		rate, groups := float64(pods)*interval.Seconds()/k.mean.Seconds(), max(1, k.together)
		if side == 0 {
			rate *= k.times
		}
		out = append(out, Life{Pod: "all", Canary: side == 0, Ran: time.Duration(pods) * interval})
		for range int(poisson(rng, rate/float64(groups))) {
			for _, pod := range rng.Perm(pods)[:min(groups, pods)] {
				out = append(out, Life{Pod: namesOfPods[side][pod], Canary: side == 0, Restarts: 1})
			}
		}
	}
	return out
}

// began returns what is known of the baseline's past, if its pods have run that long.
func (k killing) began(rng *rand.Rand, past time.Duration) (r restarts) {
	all := past.Seconds() * float64(k.baseline)
	r.Before = tally{N: all, K: poisson(rng, all/k.mean.Seconds())}
	return r
}

// A canary whose pods are killed as often as the baseline's hardly ever fails, and one that is killed ten times as
// often does.
func TestRestartsAreCompared(t *testing.T) {
	t.Parallel()
	const day, hour = 24 * time.Hour, time.Hour
	for _, c := range []struct {
		name               string
		of                 killing
		long, past         time.Duration
		mostFail, mostWarn float64
		leastFail          float64
	}{
		{"once in 24 h, past known", killing{2, 8, day, 1, 0}, 30 * time.Minute, 6 * hour, .0023, .06, 0},
		{"once in 4 h, past known", killing{2, 8, 4 * hour, 1, 0}, 30 * time.Minute, 6 * hour, .005, .06, 0},
		{"once in 24 h", killing{2, 8, day, 1, 0}, 30 * time.Minute, 0, .0023, .06, 0},
		{"once in 4 h", killing{2, 8, 4 * hour, 1, 0}, 30 * time.Minute, 0, .005, .25, 0},
		{"once in 4 h, 1 of 10 pods", killing{1, 9, 4 * hour, 1, 0}, 30 * time.Minute, 0, .005, .2, 0},
		{"once in 4 h, 1 of 2 pods", killing{1, 1, 4 * hour, 1, 0}, 30 * time.Minute, 0, .005, .2, 0},
		{"once in 4 h, three at once", killing{4, 12, 4 * hour, 1, 3}, 30 * time.Minute, 0, .005, .25, 0},
		{"once in 4 h, for a day", killing{2, 8, 4 * hour, 1, 0}, day, 0, .02, 1, 0},
		{"once in 4 h, 1 of 2 pods, for a day", killing{1, 1, 4 * hour, 1, 0}, day, 0, .05, 1, 0},
		{"1.5 times as often, once in 4 h", killing{2, 8, 4 * hour, 1.5, 0}, 30 * time.Minute, 0, .01, .4, 0},
		{"ten times as often, once in 2 h", killing{2, 8, 2 * hour, 10, 0}, hour, 0, 1, 1, .85},
		{"ten times as often, once in 2 h, 10 of 50 pods", killing{10, 40, 2 * hour, 10, 0}, 30 * time.Minute, 0, 1, 1, .95},
		{"ten times as often, once in 4 h, 10 of 50 pods", killing{10, 40, 4 * hour, 10, 0}, 30 * time.Minute, 0, 1, 1, .65},
	} {
		p, runs := comparing(c.long), manyRuns(2000)
		if c.long == day {
			runs = manyRuns(500)
		}
		fail, loop, warn := 0.0, 0.0, 0.0
		for n := range runs {
			rng := rand.New(rand.NewPCG(uint64(n), 5))
			r := c.of.began(rng, c.past)
			for i := 0; i < int(c.long/interval) && !r.Failed && !r.Looped; i++ {
				w := at(i, Arm{}, Arm{})
				w.Lives = c.of.lives(rng)
				r.add(p, w, w.To.Sub(epoch))
			}
			if r.Looped {
				loop += 1 / float64(runs)
			}
			switch {
			case r.Failed || r.Looped:
				fail += 1 / float64(runs)
			case r.more():
				warn += 1 / float64(runs)
			}
		}
		t.Logf("%-48s Fail %.2f %%, for a loop %.2f %%, Warn %.1f %%", c.name, 100*fail, 100*loop, 100*warn)
		chance := func(share float64) float64 { return 3 * math.Sqrt(share*(1-share)/float64(runs)) }
		if fail > c.mostFail+chance(c.mostFail) || fail < c.leastFail-chance(c.leastFail) || warn > c.mostWarn+chance(c.mostWarn) {
			t.Errorf("%s: failed in %.4f of the runs, and warned in %.3f", c.name, fail, warn)
		}
	}
}

// The e-process alone: at the most that is tolerated, it ever proves too many restarts with a probability of its part
// of alpha at most, for any rate, and if restarts come in clusters.
func TestProofOfRestartsIsRarelyWrong(t *testing.T) {
	t.Parallel()
	p := comparing(time.Hour)
	for _, k := range []killing{
		{2, 8, 30 * time.Minute, restartRatio, 0},
		{1, 1, 10 * time.Minute, restartRatio, 0},
		{5, 95, 10 * time.Minute, restartRatio, 0},
		{1, 50, 10 * time.Minute, restartRatio, 0},
		{10, 40, 10 * time.Minute, restartRatio, 5},
		{10, 10, 2 * time.Minute, restartRatio, 10},
	} {
		runs, wrong := manyRuns(1000), 0
		for n := range runs {
			rng := rand.New(rand.NewPCG(uint64(n), 5))
			var r restarts
			for i := 0; i < 240 && !r.Failed; i++ {
				w := at(i, Arm{}, Arm{})
				w.Lives = k.lives(rng)
				r.add(p, w, w.To.Sub(epoch))
			}
			if r.Failed {
				wrong++
			}
		}
		share, most := float64(wrong)/float64(runs), 1/p.restartLevel()
		t.Logf("%+v: %.2f %% wrong, %.2f %% are allowed", k, 100*share, 100*most)
		if share > most+3*math.Sqrt(most*(1-most)/float64(runs)) {
			t.Errorf("%+v: wrong in %.4f of the runs", k, share)
		}
	}
}

// conditional is the p-value of the exact conditional test of two Poisson rates (Przyborowski and Wilenski 1940): so
// many events of the first or more, if its rate is a multiple of the second's.
func conditional(k, of int, time, others, times float64) float64 {
	q := times * time / (times*time + others)
	p := 0.0
	for i := k; i <= of; i++ {
		p += math.Exp(logChoose(float64(of), float64(i)) + float64(i)*math.Log(q) + float64(of-i)*math.Log1p(-q))
	}
	return p
}

// Heart disease and hormones (Gu, Ng, Tang and Schucany 2008): 60 cases in 51477.5 years, and 30 in 54308.7. R's exact
// conditional test, as statsmodels' tests have it, says 0.00665 of a ratio of 1.2 or less.
func TestConditionalTestAsPublished(t *testing.T) {
	t.Parallel()
	near(t, "p", conditional(60, 90, 51477.5, 54308.7, 1.2), 0.006651774552714537, 1e-12)
}

// An e-value is never more certain than the exact test of the same restarts: by Markov's inequality, one divided by it
// is a p-value. It is one over all outcomes, on average, and it is not much less certain where there is much to see.
func TestProofOfRestartsAgainstTheExactTest(t *testing.T) {
	t.Parallel()
	proof := func(canary, all int, ran sides) float64 {
		var r restarts
		for i := range all {
			one := sides{Baseline: 1}
			if i < canary {
				one = sides{Canary: 1}
			}
			r.Minute.Grown = exposed{Count: one, Ran: ran}
			r.settle()
		}
		return math.Exp(r.proof())
	}
	for _, ran := range []sides{{60, 60}, {120, 480}, {60, 540}, {300, 60}, {51477.5, 54308.7}} {
		for _, all := range []int{1, 2, 5, 12, 30} {
			mean := 0.0
			for k := range all + 1 {
				e, p := proof(k, all, ran), conditional(k, all, ran.Canary, ran.Baseline, restartRatio)
				if e > (1+1e-9)/p {
					t.Errorf("%d of %d in %v: e-value %g, and the exact p-value is %g", k, all, ran, e, p)
				}
				if k < all {
					p -= conditional(k+1, all, ran.Canary, ran.Baseline, restartRatio)
				}
				mean += p * e
			}
			near(t, fmt.Sprintf("mean over the outcomes of %d in %v", all, ran), mean, 1, 1e-9)
		}
	}
	if e, p := proof(12, 12, sides{60, 540}), conditional(12, 12, 60, 540, restartRatio); e < 1e-3/p {
		t.Errorf("12 of 12 of one pod of ten: e-value %g, and the exact p-value is %g", e, p)
	}
}

// A canary whose pods have hardly run is not condemned by a single restart.
func TestOneRestartIsNoProof(t *testing.T) {
	t.Parallel()
	own := exposed{Count: sides{Canary: 1}, Ran: sides{Canary: 1, Baseline: 1e6}}
	for _, ratio := range restartGrid {
		if won := own.likelihood(ratio); won >= comparing(time.Hour).restartLevel()/10 || won <= 1 {
			t.Errorf("an alternative of %v wins %v", ratio, won)
		}
		near(t, fmt.Sprintf("as with a part of %v", leastPart), own.likelihood(ratio), ratio/restartRatio/(1+leastPart*(ratio/restartRatio-1)), 1e-12)
	}
}

// What happens to pods, and what becomes of a run that would pass.
func TestSituationsOfRestarts(t *testing.T) {
	t.Parallel()
	p := comparing(10 * time.Minute)
	p.Deadline = 20 * time.Minute
	one := func(canary bool, pod int) Life {
		return Life{Pod: fmt.Sprint(canary, pod), Canary: canary, Restarts: 1}
	}
	waits := func(canary bool, restarts float64) Life {
		return Life{Pod: fmt.Sprint(canary, 0), Canary: canary, Restarts: restarts, CrashLoop: true}
	}
	for _, c := range []struct {
		name    string
		plan    Plan
		happens map[int][]Life
		want    verdict.Verdict
		reason  verdict.Reason
		says    string
	}{
		{"nothing", p, nil, verdict.Pass, verdict.Negligible, ""},
		{"one, and each of the baseline's, too", p, map[int][]Life{3: {one(true, 0)}, 4: {one(false, 0), one(false, 1), one(false, 2)}, 9: {one(false, 3)}}, verdict.Pass, verdict.Negligible, "1 restart in "},
		{"one, and none of the baseline's", p, map[int][]Life{3: {one(true, 0)}}, verdict.Warn, verdict.Restarts, "that may be chance"},
		{"of the baseline only", p, map[int][]Life{3: {one(false, 0)}, 5: {one(false, 0)}}, verdict.Pass, verdict.Negligible, ""},
		{"a crash loop", p, map[int][]Life{3: {{Pod: "true0", Canary: true, CrashLoop: true}}}, verdict.Fail, verdict.Restarts, "crash loop"},
		{"a crash loop of the baseline", p, map[int][]Life{3: {{Pod: "false0", CrashLoop: true}}}, verdict.Pass, verdict.Negligible, ""},
		{"a crash loop of both sides", p, map[int][]Life{
			2: {one(true, 0), one(false, 0)}, 3: {waits(true, 1), waits(false, 1)}, 4: {waits(true, 0)}, 5: {one(false, 1), one(false, 2)},
		}, verdict.Pass, verdict.Negligible, ""},
		{"a crash loop that lasts longer than the baseline's", p, map[int][]Life{
			2: {one(true, 0), one(false, 0)}, 3: {one(false, 0), one(true, 0)}, 4: {one(true, 0)}, 6: {one(true, 0)}, 8: {one(true, 0)}, 12: {one(true, 0)},
		}, verdict.Fail, verdict.Restarts, "crash loop"},
		{"three of one pod", p, map[int][]Life{3: {one(true, 0)}, 6: {one(true, 0)}, 9: {one(true, 0)}}, verdict.Fail, verdict.Restarts, "crash loop"},
		{"three of one pod in a window", p, map[int][]Life{3: {{Pod: "true0", Canary: true, Restarts: 3}}}, verdict.Fail, verdict.Restarts, "crash loop"},
		{"three, each of another pod", p, map[int][]Life{3: {one(true, 0)}, 6: {one(true, 1)}, 9: {one(true, 2)}}, verdict.Warn, verdict.Restarts, "that may be chance"},
		{"three of one pod, and two of one of the baseline's", p, map[int][]Life{
			2: {one(false, 0)}, 3: {one(true, 0)}, 5: {one(false, 0)}, 6: {one(true, 0)}, 9: {one(true, 0)},
		}, verdict.Warn, verdict.Restarts, ""},
		{"far more than the baseline's", p, func() map[int][]Life {
			out := map[int][]Life{}
			for i := range 9 {
				out[2*i] = []Life{one(true, i)}
			}
			return out
		}(), verdict.Fail, verdict.Restarts, "more than 1.5 times as often (e-value "},
	} {
		j := repeat(c.plan, arm(100, 0), arm(900, 0), func(i int, w *Window) {
			for k, a := range []*Arm{&w.Canary, &w.Baseline} {
				a.Entered, a.Above, a.Codes = a.Finished, map[float64]float64{.5: 0}, map[string]float64{"200": a.Finished}
				for pod := range []int{9, 30}[k] {
					w.Lives = append(w.Lives, Life{Pod: fmt.Sprint(k == 0, pod), Canary: k == 0, Ran: interval})
				}
			}
			w.Lives = append(w.Lives, c.happens[i]...)
		})
		if j.Verdict != c.want || j.Reasons[0] != c.reason || !strings.Contains(j.Message, c.says) {
			t.Errorf("%s: %s %v, want %s %s: %s", c.name, j.Verdict, j.Reasons, c.want, c.reason, j.Message)
		}
	}
}

// With a limit, nothing is compared: only the number of the canary's restarts counts.
func TestALimitOfRestarts(t *testing.T) {
	t.Parallel()
	for limit, want := range map[float64]verdict.Verdict{2: verdict.Fail, 3: verdict.Pass} {
		p := comparing(10 * time.Minute)
		p.Limits = Limits{Restarts: limit}
		j := repeat(p, arm(100, 0), arm(900, 0), func(i int, w *Window) {
			for _, a := range []*Arm{&w.Canary, &w.Baseline} {
				a.Entered, a.Above, a.Codes = a.Finished, map[float64]float64{.5: 0}, map[string]float64{"200": a.Finished}
			}
			if i < 3 {
				w.Canary.Restarts = 1
				w.Lives = []Life{{Pod: "a", Canary: true, Restarts: 1, CrashLoop: true}}
			}
		})
		if j.Verdict != want || (want == verdict.Fail) != slices.Contains(j.Reasons, verdict.Restarts) {
			t.Errorf("a limit of %v: %s %v: %s", limit, j.Verdict, j.Reasons, j.Message)
		}
	}
}

// Pods that have just begun are compared with others that have: a canary whose pods restart once when they begin is not
// worse than a baseline whose pods did that before.
func TestRestartsOfYoungPods(t *testing.T) {
	t.Parallel()
	play := func(young bool) *restarts {
		var r restarts
		for i := range 20 {
			w := at(i, Arm{}, Arm{})
			w.Lives = []Life{
				{Pod: "all", Ran: 60 * interval},
				{Pod: "all", Canary: true, Ran: 20 * interval, Young: young},
				{Pod: fmt.Sprint("c", i), Canary: true, Young: young, Restarts: 1},
			}
			r.add(comparing(time.Hour), w, w.To.Sub(epoch))
		}
		return &r
	}
	if r := play(true); r.Failed || r.Looped || !r.more() {
		t.Errorf("young: %+v", r)
	}
	if r := play(false); !r.Failed {
		t.Errorf("grown: %+v", r)
	}
}

// What is stored is continued, and nonsense is refused.
func TestRestartsAreStored(t *testing.T) {
	t.Parallel()
	p, k := comparing(time.Hour), killing{2, 8, 20 * time.Minute, 3, 0}
	rng := rand.New(rand.NewPCG(3, 4))
	var whole, stored restarts
	for i := range 40 {
		w := at(i, Arm{}, Arm{})
		w.Lives = k.lives(rng)
		whole.add(p, w, w.To.Sub(epoch))
		stored.add(p, w, w.To.Sub(epoch))
		raw, err := json.Marshal(stored)
		if err != nil {
			t.Fatal(err)
		}
		stored = restarts{}
		if err := json.Unmarshal(raw, &stored); err != nil {
			t.Fatal(err)
		}
		if err := stored.check(); err != nil {
			t.Fatal(err)
		}
	}
	if whole.proof() != stored.proof() || whole.Count != stored.Count || whole.Looped != stored.Looped || whole.Count.Canary == 0 {
		t.Errorf("%+v, and %+v", whole, stored)
	}
	for name, r := range map[string]restarts{
		"odds":   {Logs: []float64{1}},
		"counts": {Count: sides{Canary: -1}},
		"minute": {Minute: restartMinute{Long: -1}},
	} {
		if r.check() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// Of very many pods, only some are remembered one by one.
func TestFewPodsAreRemembered(t *testing.T) {
	t.Parallel()
	var r restarts
	for i := range 20 {
		w := at(i, Arm{}, Arm{})
		for pod := range 500 {
			w.Lives = append(w.Lives, Life{Pod: fmt.Sprint(pod), Canary: pod%2 == 0, Ran: interval, Restarts: 9})
		}
		r.add(comparing(time.Hour), w, w.To.Sub(epoch))
	}
	if raw, err := json.Marshal(r); err != nil || len(raw) > 30<<10 || r.Count.Canary != 20*250*9 {
		t.Errorf("%d bytes, %v, %+v", len(raw), err, r.Count)
	}
}
