// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// world is an ordinary Service of many pods, some of them the canary's. The canary's differ from the
// others only by odds.
type world struct {
	pods, canary int
	// perSecond is the requests of all pods in a second, rate the bad part of them.
	perSecond, rate float64
	// Episodes: for this share of the time a pod fails at this rate, for this long on average.
	share, fails float64
	long         time.Duration
	// row is how often a failing client retries at the same side and fails; retries go to any pod.
	row     int
	retries float64
	// late is how much later the canary is scraped, while short outages hit all pods.
	late time.Duration
	// odds of a bad request at the canary, as a multiple of the baseline's; 0 means 1.
	odds float64
	// history is the known past; looks is the time between two analyses.
	history, looks time.Duration
	// recalled means that the worst five minutes of the history are known.
	recalled bool
	// begins is when, after the start of the run, the canary differs by odds.
	begins time.Duration
	// bursts of the canary: each time this long, at this rate, once in a while.
	burst, every time.Duration
	bursts       float64
	// sigma is the lognormal spread of the pods' rates. One node has a tenth of the pods, and there a
	// request is bad with these odds, as a multiple of the others'; the canary's first pod is on any.
	sigma, node float64
}

// podState is whether a pod has an episode, and until when.
type podState struct {
	bad  bool
	till float64
	// odds of the pod for life.
	odds float64
}

// scene simulates a world second by second.
type scene struct {
	world
	rng  *rand.Rand
	pods []podState
	at   float64
	// start is when the run starts.
	start  float64
	outage bool
	// worst is the baseline's past.
	worst Level
	// unread is what the baseline did, second by second.
	unread [][]tally
}

func (w world) scene(rng *rand.Rand) *scene {
	s := &scene{world: w, rng: rng, pods: make([]podState, w.pods)}
	for i := range s.pods {
		s.pods[i] = podState{bad: rng.Float64() < w.share}
		s.pods[i].till = s.lasts(s.pods[i].bad)
	}
	node := 0
	if w.node > 0 {
		node = rng.IntN(10)
	}
	for i := range s.pods {
		s.pods[i].odds = 1
		if w.sigma > 0 {
			s.pods[i].odds = lognormal(rng, w.sigma)
		}
		if w.node > 0 && i%10 == node {
			s.pods[i].odds *= w.node
		}
	}
	return s
}

// now is how long the run has lasted.
func (s *scene) now() time.Duration { return time.Duration(s.at-s.start) * time.Second }

// canaryRate returns the rate of a pod of the canary.
func (s *scene) canaryRate(rate float64) float64 {
	now := s.now()
	if s.every > 0 && now > s.every && now%s.every < s.burst {
		rate = max(rate, s.bursts)
	}
	if s.odds > 0 && now >= s.begins {
		rate = odd(rate, s.odds)
	}
	return rate
}

func (s *scene) lasts(bad bool) float64 {
	mean := s.long.Seconds()
	if !bad && s.share > 0 {
		mean *= (1 - s.share) / s.share
	}
	return s.at + s.rng.ExpFloat64()*mean
}

// second returns what every pod does in the next second.
func (s *scene) second() []tally {
	s.at++
	// An outage as long as a window of the baseline hurts most.
	if s.late > 0 && (int(s.at)-int(s.late.Seconds()))%15 == 1 {
		s.outage = s.rng.Float64() < 0.1
	}
	out := make([]tally, len(s.pods))
	mean := s.perSecond / float64(len(s.pods))
	for i := range s.pods {
		p := &s.pods[i]
		for s.share > 0 && s.at > p.till {
			p.bad = !p.bad
			p.till = s.lasts(p.bad)
		}
		rate := s.rate
		if p.bad && s.share > 0 {
			rate = s.fails
		}
		if s.outage {
			rate = 0.5
		}
		rate = odd(rate, p.odds)
		if i < s.canary {
			rate = s.canaryRate(rate)
		}
		n := poisson(s.rng, mean)
		out[i].add(tally{n, binomial(s.rng, n, rate)})
		if s.row > 0 {
			// Clients that fail row times at one pod, at the given rate.
			k := float64(s.row) * poisson(s.rng, mean*rate/float64(s.row))
			out[i].add(tally{k, k})
		}
	}
	if s.retries > 0 {
		s.retry(out)
	}
	return out
}

// retry sends failed requests again to any pod, where they fail at the rate of retries.
func (s *scene) retry(out []tally) {
	for i := range out {
		for range int(out[i].K) {
			for s.rng.Float64() < s.retries {
				out[i].add(tally{1, 1})
			}
		}
	}
}

func poisson(rng *rand.Rand, mean float64) float64 {
	if mean <= 0 {
		return 0
	}
	k, sum := -1.0, 0.0
	for ; sum < mean; k++ {
		sum += rng.ExpFloat64()
	}
	return k
}

// past returns the recorded history of the pods.
func (s *scene) past() []PodPast {
	kept := make([]PodPast, s.world.pods-s.canary)
	var stretch tally
	for at := range int(s.history.Minutes()) {
		minute, all := make([]tally, len(s.pods)), tally{}
		for range 60 {
			for i, t := range s.second() {
				minute[i].add(t)
			}
		}
		for _, t := range minute[s.canary:] {
			all.add(t)
		}
		if stretch.add(all); at%5 == 4 {
			if r := s.worst.Errors; r.All == 0 || stretch.rate() > r.Bad/r.All {
				s.worst.Errors = Ratio{Bad: stretch.K, All: stretch.N}
			}
			s.worst.Watched, stretch = s.worst.Watched+5*time.Minute, tally{}
		}
		for i := range kept {
			t := minute[s.canary+i]
			kept[i].Watched += time.Minute
			kept[i].Errors.Bad += t.K
			kept[i].Errors.Expected += t.N * all.rate()
		}
	}
	return kept
}

// run plays a world until its verdict.
func (w world) run(p Plan, seed uint64, each func(*Run)) *Run {
	s := w.scene(rand.New(rand.NewPCG(seed, 31)))
	run := Start(epoch, nil)
	run.Remember(s.past())
	if w.recalled {
		run.Recall(s.worst)
	}
	s.start = s.at
	at := epoch
	for run.Last.Verdict == verdict.Running {
		win := Window{From: at, To: at.Add(w.looks), Required: -1, Pods: map[string]Arm{}}
		at = win.To
		pods := make([]tally, w.pods)
		for range int(w.looks.Seconds()) {
			one := s.second()
			if w.late > 0 {
				one = s.delayed(one)
			}
			for i, t := range one {
				pods[i].add(t)
			}
		}
		for i, t := range pods {
			side := &win.Canary
			if i >= w.canary {
				side = &win.Baseline
				win.Pods[fmt.Sprint(i)] = arm(t.N, t.K)
			}
			side.Finished, side.Started, side.Errors = side.Finished+t.N, side.Started+t.N, side.Errors+t.K
		}
		win.Handled = win.Canary.Finished / max(1, win.Canary.Finished+win.Baseline.Finished)
		run.Analyze(p, win)
		each(run)
	}
	return run
}

// delayed scrapes the canary some seconds later than the baseline, so the canary shows first what hits
// both.
func (s *scene) delayed(now []tally) []tally {
	s.unread = append(s.unread, now[s.canary:])
	if late := int(s.late.Seconds()); len(s.unread) > late {
		now = slices.Concat(now[:s.canary], s.unread[len(s.unread)-1-late])
	}
	return now
}

// unhurried is the plan of worlds: errors have half of alpha, the default in an ordinary Service, and
// no Pass ends a run that may still Fail.
func unhurried() Plan {
	p := errorsOnly()
	p.Alpha /= 2
	p.MinDuration = p.Deadline - time.Minute
	return p
}

// base sets what worlds have in common: 2,000 requests a minute.
func base(w world) world {
	if w.perSecond == 0 {
		w.perSecond = 33
	}
	if w.looks == 0 {
		w.looks = 15 * time.Second
	}
	if w.long == 0 {
		w.long = 2 * time.Minute
	}
	return w
}

// clusteredWorlds are worlds whose bad requests come in clusters.
var clusteredWorlds = []struct {
	name string
	world
}{
	{"1 of 10 pods, 5 % of time at 20 %", world{pods: 10, canary: 1, rate: 0.002, share: 0.05, fails: 0.2}},
	{"2 of 20 pods, 2 % of time at 10 %", world{pods: 20, canary: 2, rate: 0.002, share: 0.02, fails: 0.1}},
	{"1 of 10 pods, 20 % of time at 3 %", world{pods: 10, canary: 1, rate: 0.002, share: 0.2, fails: 0.03}},
	{"retries, 5 on average", world{pods: 10, canary: 1, rate: 0.005, retries: 0.5}},
	{"storm of retries", world{pods: 10, canary: 1, rate: 0.005, retries: 0.85}},
	{"clients that fail 20 times in a row", world{pods: 10, canary: 1, rate: 0.02, row: 20}},
	{"clients that fail 5 times in a row", world{pods: 10, canary: 1, rate: 0.02, row: 5}},
	{"canary read 3 s later", world{pods: 10, canary: 1, rate: 0.0005, perSecond: 150, late: 3 * time.Second}},
	{"canary read 5 s later", world{pods: 10, canary: 1, rate: 0.0005, perSecond: 150, late: 5 * time.Second}},
}

// figures of many runs of a world: those that fail, those that would fail by the plain likelihood for
// independent requests, and those that pass. Each value is the requests that the run took.
type figures struct {
	fails, plain, pass []float64
	runs               int
	// limit counts the runs that fail for a limit.
	limit int
}

func (w world) figures(p Plan, runs int, seed uint64) figures {
	f := figures{runs: runs}
	for n := range runs {
		plain := 0.0
		r := w.run(p, seed+uint64(n), func(r *Run) {
			d := r.Evidence.Metrics["errors"]
			if plain == 0 && d.Tests[0].Odds.against(1.5, failGrid(1.5)) >= -math.Log(p.levels(p.Metrics[0]).alpha()) {
				// A proof that came before the minimum was kept until then.
				plain = max(r.Evidence.Canary, p.MinCanary)
			}
		})
		if plain > 0 {
			f.plain = append(f.plain, plain)
		}
		switch r.Last.Verdict {
		case verdict.Fail:
			f.fails = append(f.fails, r.Evidence.Canary)
			if slices.Contains(r.Last.Reasons, verdict.AbsoluteLimit) {
				f.limit++
			}
		case verdict.Pass, verdict.Warn:
			f.pass = append(f.pass, r.Evidence.Canary)
		}
	}
	return f
}

func (l levels) alpha() float64 { return 1 / l.fail }

func (f figures) String() string {
	part := func(of []float64) float64 { return 100 * float64(len(of)) / float64(f.runs) }
	return fmt.Sprintf("plain %5.1f %%  Fail %5.1f %% (limit %d runs)  Pass %5.1f %%", part(f.plain), part(f.fails), f.limit, part(f.pass))
}

// manyWorlds returns the number of runs per world: few, unless CLUSTER_RUNS is set.
func manyWorlds(t *testing.T) int {
	runs, err := strconv.Atoi(os.Getenv("CLUSTER_RUNS"))
	if err != nil {
		return manyRuns(40)
	}
	t.Logf("%d runs of each world", runs)
	return runs
}

// firstSeed returns the first seed. CLUSTER_SEED selects seeds that were not used during development.
func firstSeed() uint64 {
	n, err := strconv.ParseUint(os.Getenv("CLUSTER_SEED"), 10, 32)
	if err != nil {
		return 1
	}
	return n << 20
}

// A canary that is no worse fails in at most 5 % of the runs with clustered errors, whether or not its
// baseline shows the clusters. With independent requests assumed it was up to a third: the column
// "plain".
func TestClusters(t *testing.T) {
	t.Parallel()
	for _, c := range clusteredWorlds {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, known := range []time.Duration{0, 10 * time.Minute, 2 * time.Hour} {
				if known > time.Hour && os.Getenv("CLUSTER_RUNS") == "" {
					continue
				}
				w := base(c.world)
				w.history = known
				f := w.figures(unhurried(), manyWorlds(t), firstSeed())
				t.Logf("%-36s %-8s %s", c.name, known, f)
				if share, most := float64(len(f.fails))/float64(f.runs), 0.05; share > most+(outcome{runs: f.runs}).tolerance(most) {
					t.Errorf("%s, %s of history: failed in %.3f of the runs", c.name, known, share)
				}
			}
		})
	}
}

// A baseline of few pods does not show how pods differ, but false alarms stay below 5 %.
func TestClustersInFewPods(t *testing.T) {
	t.Parallel()
	for _, pods := range []int{2, 3, 5} {
		w := base(world{pods: pods, canary: 1, rate: 0.002, share: 0.05, fails: 0.2, history: 2 * time.Hour})
		f := w.figures(unhurried(), manyWorlds(t), firstSeed())
		t.Logf("1 of %d pods: %s", pods, f)
		if share, most := float64(len(f.fails))/float64(f.runs), 0.05; share > most+(outcome{runs: f.runs}).tolerance(most) {
			t.Errorf("1 of %d pods: failed in %.3f of the runs", pods, share)
		}
	}
}

// TestRequestsOfClusters prints the cost if requests are independent after all.
func TestRequestsOfClusters(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ from, to float64 }{{0.001, 0.05}, {0.01, 0.05}, {0.01, 0.03}, {0.01, 0.02}} {
		for _, known := range []time.Duration{time.Hour, 10 * time.Minute, 0} {
			w := base(world{pods: 20, canary: 1, rate: c.from, odds: c.to / (1 - c.to) / c.from * (1 - c.from), history: known})
			p := unhurried()
			p.MinCanary, p.MinBaseline, p.MinDuration, p.Deadline, p.Metrics[0].Negligible = 1, 1, 0, 6*time.Hour, 0
			runs := max(5, manyWorlds(t)/5)
			f := w.figures(p, runs, firstSeed())
			if len(f.fails) < runs*9/10 {
				t.Errorf("%v: %d of %d failed", c, len(f.fails), runs)
				continue
			}
			slices.Sort(f.plain)
			slices.Sort(f.fails)
			t.Logf("%g → %g %%, %-5s of history: plain %.0f (nine in ten %.0f), now %.0f (%.0f)", 100*c.from, 100*c.to, known,
				median(f.plain), f.plain[len(f.plain)*9/10], median(f.fails), f.fails[len(f.fails)*9/10])
		}
	}
}
