// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

// manyRuns returns fewer runs with -short, which finds only gross errors.
func manyRuns(n int) int {
	if testing.Short() {
		return n / 20
	}
	return n
}

// varying changes the rates of both sides: a wave, and an outage of two minutes.
func varying(rng *rand.Rand) (source, map[string]Counts) {
	return func(i int) Window {
		rate := 0.01 + 0.01*math.Sin(float64(i)/5)
		if i >= 20 && i < 24 {
			rate = 0.6
		}
		return at(i, arm(50, binomial(rng, 50, rate)), arm(950, binomial(rng, 950, rate)))
	}, nil
}

// drifting moves the canary's share from one value to another while the rate of both falls, so the sums
// of the two sides look quite different.
func drifting(from, to float64) scenario {
	return func(rng *rand.Rand) (source, map[string]Counts) {
		return func(i int) Window {
			n := math.Round(1000 * (from + (to-from)*float64(i)/60))
			rate := 0.06 * (1 - float64(i)/60)
			return at(i, arm(n, binomial(rng, n, rate)), arm(1000-n, binomial(rng, 1000-n, rate)))
		}, nil
	}
}

// lagging reads the canary later than the baseline by a part of a window, while short outages hit both.
func lagging(part float64) scenario {
	return func(rng *rand.Rand) (source, map[string]Counts) {
		bad := map[int]bool{}
		rate := func(i int) float64 {
			if _, ok := bad[i]; !ok {
				bad[i] = rng.Float64() < 0.1
			}
			if bad[i] {
				return 0.3
			}
			return 0.005
		}
		return func(i int) Window {
			late := math.Round(50 * part)
			canary := binomial(rng, 50-late, rate(i)) + binomial(rng, late, rate(i+1))
			return at(i, arm(50, canary), arm(950, binomial(rng, 950, rate(i))))
		}, nil
	}
}

// A canary that is no worse fails with probability Alpha at most.
func TestFalseAlarms(t *testing.T) {
	t.Parallel()
	fleetOf := func(f fleet) scenario {
		f.shards, f.canary, f.rate, f.ratio = 100, 5, 0.01, 1
		return f.scenario
	}
	limited := errorsOnly().withLimit(0.02)
	for _, tc := range []struct {
		name string
		plan Plan
		of   scenario
	}{
		{"no errors", limited, steady(0, 0)},
		{"0.1 % errors", limited, steady(0.001, 0.001)},
		{"1 % errors", limited, steady(0.01, 0.01)},
		{"1 % errors, of pods that are known", limited, withPods(steady(0.01, 0.01))},
		{"1.5 times the odds, of pods that are known", errorsOnly(), withPods(steady(0.01, odd(0.01, 1.5)))},
		{"5 % errors", errorsOnly(), steady(0.05, 0.05)},
		{"2 % errors at a limit of 2 %", limited, steady(0.02, 0.02)},
		{"1.5 times the odds, which is tolerated", errorsOnly(), steady(0.01, odd(0.01, 1.5))},
		{"rates vary with time", limited, varying},
		{"the share grows from 2 to 50 %", limited, drifting(0.02, 0.5)},
		{"the share falls from 50 to 2 %", limited, drifting(0.5, 0.02)},
		{"the share falls from 98 to 50 %", errorsOnly(), drifting(0.98, 0.5)},
		{"read 1 s apart of 30", errorsOnly(), lagging(1. / 30)},
		{"a shared downstream fails", limited, steady(0.05, 0.05)},
		{"the same, of a sharded Service", shardedPlan().withLimit(0.02), fleetOf(fleet{outage: 0.3})},
		{"shards alike", shardedPlan(), fleetOf(fleet{})},
		{"heterogeneous shards", shardedPlan().withLimit(0.05), fleetOf(fleet{sigma: 1})},
		{"drifting shards", shardedPlan(), fleetOf(fleet{sigma: 1, drift: 0.3})},
		{"few broken entities", shardedPlan(), fleetOf(fleet{broken: 0.02})},
		{"few broken entities, drifting", shardedPlan(), fleetOf(fleet{broken: 0.02, drift: 0.3})},
		{"nothing known of before", shardedPlan(), fleetOf(fleet{sigma: 1, forgetful: true})},
	} {
		o := play(t, tc.plan, manyRuns(2000), tc.of)
		t.Logf("%-42s %s", tc.name, o)
		if f := o.verdicts[verdict.Fail]; f > tc.plan.Alpha+o.tolerance(tc.plan.Alpha) {
			t.Errorf("%s: failed in %.3f of the runs, alpha is %v", tc.name, f, tc.plan.Alpha)
		}
	}
}

// A canary that is worse than tolerated does not pass, and one that is as bad as stated fails, except
// with probability Beta.
func TestMisses(t *testing.T) {
	t.Parallel()
	fleetOf := func(f fleet) scenario {
		f.shards, f.canary, f.rate = 100, 5, 0.01
		return f.scenario
	}
	busy := func(rng *rand.Rand) (source, map[string]Counts) {
		return func(i int) Window {
			return at(i, arm(250, binomial(rng, 250, 0.02)), arm(4750, binomial(rng, 4750, 0.01)))
		}, nil
	}
	for _, tc := range []struct {
		name string
		plan Plan
		of   scenario
		// told means that the power is printed but not promised.
		told bool
	}{
		{"0.1 -> 5 %", errorsOnly(), withPods(steady(0.001, 0.05)), false},
		{"0.1 -> 5 %, pods unknown", errorsOnly(), withStrangers(steady(0.001, 0.05)), false},
		{"0.1 -> 5 %, too few pods", errorsOnly(), steady(0.001, 0.05), false},
		{"1 -> 5 %, too few pods", errorsOnly(), steady(0.01, 0.05), false},
		{"1 -> 2 %, 15,000 requests", errorsOnly(), withPods(busy), false},
		{"1 -> 2 %, 15,000 requests, pods unknown", errorsOnly(), withStrangers(busy), true},
		{"1 -> 2 %, 15,000 requests, too few pods", errorsOnly(), busy, true},
		{"1 -> 2 %, 3,000 requests", errorsOnly(), steady(0.01, 0.02), true},
		{"1 -> 1.6 %, just not tolerated", errorsOnly(), steady(0.01, odd(0.01, 1.6)), true},
		{"5 %, above a limit of 2 %", errorsOnly().withLimit(0.02), steady(0.001, 0.05), false},
		{"shards: 3 times", shardedPlan(), fleetOf(fleet{ratio: 3}), false},
		{"shards: 3 times, sigma 0.5", shardedPlan(), fleetOf(fleet{ratio: 3, sigma: 0.5}), false},
		{"shards: 3 times, sigma 1", shardedPlan(), fleetOf(fleet{ratio: 3, sigma: 1}), true},
		{"shards: 3 times, broken entities", shardedPlan(), fleetOf(fleet{ratio: 3, broken: 0.02}), true},
		{"shards: 3 times, nothing known of before", shardedPlan(), fleetOf(fleet{ratio: 3, sigma: 1, forgetful: true}), true},
		{"shards: twice", shardedPlan(), fleetOf(fleet{ratio: 2}), true},
		{"shards: 1.5 times, tolerated", shardedPlan(), fleetOf(fleet{ratio: 1.5}), true},
	} {
		o := play(t, tc.plan, manyRuns(250), tc.of)
		t.Logf("%-42s %s", tc.name, o)
		if p := o.verdicts[verdict.Pass] + o.verdicts[verdict.Warn]; p > tc.plan.Beta+o.tolerance(tc.plan.Beta) {
			t.Errorf("%s: passed in %.3f of the runs, beta is %v", tc.name, p, tc.plan.Beta)
		}
		if f := o.verdicts[verdict.Fail]; !tc.told && f < 1-tc.plan.Beta-o.tolerance(tc.plan.Beta) {
			t.Errorf("%s: failed in %.3f of the runs only", tc.name, f)
		}
	}
	// This one is within the tolerance, so a Pass is right.
	t.Logf("%-42s %s", "shards: 1.2 times, tolerated", play(t, shardedPlan(), manyRuns(250), fleetOf(fleet{ratio: 1.2})))
}

// Just above negligible, and with the odds of a baseline that is just out of tolerance: the worst
// places for a false Pass.
func TestFalsePasses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		plan Plan
		of   scenario
	}{
		{"0.1 -> 0.51 %", errorsOnly(), steady(0.001, 0.0051)},
		{"3 -> 4.5 %", errorsOnly(), steady(0.03, odd(0.03, 1.51))},
		{"5 -> 2.1 % with a limit of 2 %", errorsOnly().withLimit(0.02), steady(0.05, 0.021)},
		{"shards", shardedPlan(), fleet{shards: 100, canary: 5, rate: 0.01, ratio: 1.51, sigma: 1}.scenario},
	} {
		o := play(t, tc.plan, manyRuns(250), tc.of)
		t.Logf("%-42s %s", tc.name, o)
		if p := o.verdicts[verdict.Pass] + o.verdicts[verdict.Warn]; p > tc.plan.Beta+o.tolerance(tc.plan.Beta) {
			t.Errorf("%s: passed in %.3f of the runs, beta is %v", tc.name, p, tc.plan.Beta)
		}
	}
}

// A healthy Service passes, because that is the purpose of a gate.
func TestHealthyServicePasses(t *testing.T) {
	t.Parallel()
	sharded := func(rate float64) scenario {
		return fleet{shards: 100, canary: 5, rate: rate, ratio: 1, sigma: 0.5}.scenario
	}
	busy := func(rng *rand.Rand) (source, map[string]Counts) {
		return func(i int) Window {
			return at(i, arm(100, binomial(rng, 100, 0.001)), arm(1900, binomial(rng, 1900, 0.001)))
		}, nil
	}
	for _, tc := range []struct {
		name  string
		plan  Plan
		of    scenario
		least float64
	}{
		{"no errors", errorsOnly(), steady(0, 0), 1},
		{"no errors, sharded", shardedPlan(), sharded(0), 1},
		{"0.1 % errors, 3,000 requests", errorsOnly(), steady(0.001, 0.001), 0.85},
		{"0.1 % errors, 6,000 requests", errorsOnly(), busy, 0.95},
		{"0.1 % errors, sharded", shardedPlan(), sharded(0.001), 0.85},
	} {
		o := play(t, tc.plan, manyRuns(250), tc.of)
		t.Logf("%-42s %s", tc.name, o)
		if p := o.verdicts[verdict.Pass]; p < tc.least-o.tolerance(tc.least) {
			t.Errorf("%s: passed in %.3f of the runs only", tc.name, p)
		}
	}
}

func (o outcome) String() string {
	v := o.verdicts
	return fmt.Sprintf("Fail %5.1f %%  Pass %5.1f %%  Warn %5.1f %%  Inconclusive %5.1f %%  of %d",
		100*v[verdict.Fail], 100*v[verdict.Pass], 100*v[verdict.Warn], 100*v[verdict.Inconclusive], o.runs)
}
