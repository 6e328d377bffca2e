// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// shared worlds change for both sides.
func shared() []world {
	const group = "both sides"
	since := func(f fate) behaviour {
		return steady(func(m moment) fate {
			if m.at >= 0 {
				return f
			}
			return failing(.001)
		})
	}
	all := []world{
		{group: group, name: "0.1 → 5 % since the split", bad: true, behaves: since(failing(.05))},
		{group: group, name: "0.1 → 30 % since the split", bad: true, behaves: since(failing(.3))},
		{group: group, name: "0.1 → 5 % since the split, sharded", bad: true, shards: 100, behaves: since(failing(.05))},
		{group: group, name: "0.1 → 30 % since the split, sharded", bad: true, shards: 100, behaves: since(failing(.3))},
		{group: group, name: "the canary eats what the baseline needs: a fifth is slow", bad: true, behaves: since(fate{fails: .001, slow: .2})},
		{group: group, name: "the load grows from 30 to 170 a second, and slow requests with it", traffic: morning, behaves: steady(func(m moment) fate {
			return fate{fails: .001, slow: .02 * math.Pow(morning(m.at)/170, 2)}
		})},
		{group: group, name: "the load falls from 170 to 30 a second, and slow requests with it", traffic: evening, behaves: steady(func(m moment) fate {
			return fate{fails: .001, slow: .02 * math.Pow(evening(m.at)/170, 2)}
		})},
		{group: group, name: "a dependency is out for a minute, 3 min after the split", behaves: outageFrom(180, 60, .5, .001)},
		{group: group, name: "a dependency is out for a minute, 30 min before the split", behaves: outageFrom(-1800, 60, .5, .001)},
		{group: group, name: "a dependency is out for 5 min, 2 min after the split", behaves: outageFrom(120, 300, .5, .001)},
	}
	for i := range all {
		all[i].before = time.Hour
	}
	return all
}

// morning and evening are parts of a day, from an hour before the split to half an hour after it.
func morning(at float64) float64 {
	return 100 + 70*math.Sin(math.Pi*(min(1, max(-1, (at+900)/2700)))/2)
}

func evening(at float64) float64 { return 200 - morning(at) }

// late worlds turn bad some time after the split.
func late() []world {
	const group = "late"
	bad := func(rate, worse float64, when func(at float64) bool) behaviour {
		return steady(func(m moment) fate {
			if m.onCanary() && m.at >= 0 && when(m.at) {
				return failing(worse)
			}
			return failing(rate)
		})
	}
	after := func(at float64) bool { return at >= 600 }
	bursts := func(long, every float64) func(float64) bool {
		return func(at float64) bool { return math.Mod(at, every) >= every-long }
	}
	long := atLeast(25 * time.Minute)
	return []world{
		{group: group, name: "0.1 → 5 % after 10 min; minDuration 25 min", bad: true, behaves: bad(.001, .05, after), gate: long},
		{group: group, name: "1 → 3 % after 10 min; minDuration 25 min", bad: true, behaves: bad(.01, .03, after), gate: long},
		{group: group, name: "1 → 5 % after 10 min, 33 a second", rps: 33, bad: true, behaves: bad(.01, .05, after)},
		{group: group, name: "30 % for 60 s every 15 min; minDuration 25 min", bad: true, behaves: bad(.001, .3, bursts(60, 900)), gate: long},
		{group: group, name: "50 % for 10 s every 500 s; minDuration 25 min", bad: true, behaves: bad(.001, .5, bursts(10, 500)), gate: long},
		{group: group, name: "50 % for 10 s every 500 s", bad: true, behaves: bad(.001, .5, bursts(10, 500))},
		{group: group, name: "0.1 → 5 % after 10 min, which is after the verdict", bad: true, behaves: bad(.001, .05, after)},
	}
}

// clocks are not always right.
func clocks() []world {
	const group = "clocks"
	return []world{
		{group: group, name: "the baseline's nodes step 5 s every 30 s", behaves: alike(failing(.01)), happens: each(30, step(5, baseline))},
		{group: group, name: "the baseline's nodes step 5 s every 30 s, 1 → 5 %", bad: true, behaves: apart(failing(.01), failing(.05)), happens: each(30, step(5, baseline))},
		{group: group, name: "the same, and the baseline had 5 % last week", bad: true, behaves: steady(func(m moment) fate {
			if m.onCanary() || m.at < -watched.Seconds()+1 {
				return failing(.05)
			}
			return failing(.01)
		}), happens: each(30, step(5, baseline))},
		{group: group, name: "all nodes step 5 s once, requests take 5 s, sharded", shards: 100, behaves: alike(fate{takes: 5}), happens: once(100, step(5, baseline, canary)), gate: errorsOnly},
		{group: group, name: "the canary's nodes step back 10 s every minute", behaves: alike(failing(.01)), happens: each(60, step(-10, canary))},
	}
}

// cold worlds are bad only at the start of something.
func cold() []world {
	const group = "cold"
	slow := fate{slow: .6}
	warmup := func(long time.Duration) func(*v1alpha1.CanaryGateSpec) {
		return func(spec *v1alpha1.CanaryGateSpec) {
			spec.Schedule = &v1alpha1.GateSchedule{Warmup: &v1alpha1.Duration{Duration: long}}
		}
	}
	var all []world
	for _, tau := range []float64{30, 60, 120, 300} {
		all = append(all,
			world{group: group, name: fmt.Sprintf("60 %% slow at first, fading with %v s", tau), behaves: starting(slow, tau)},
			world{group: group, name: fmt.Sprintf("30 %% fail at first, fading with %v s", tau), behaves: starting(failing(.3), tau)},
		)
	}
	before := both(once(-1500, replace(baseline)), once(-900, replace(baseline)))
	return append(all,
		world{group: group, name: "60 % slow at first, fading with 120 s; warmup 5 min", behaves: starting(slow, 120), gate: warmup(5 * time.Minute)},
		world{group: group, name: "60 % slow at first, fading with 300 s; warmup 12 min", behaves: starting(slow, 300), gate: warmup(12 * time.Minute)},
		world{group: group, name: "30 % fail at first, fading with 120 s; warmup 5 min", behaves: starting(failing(.3), 120), gate: warmup(5 * time.Minute)},
		world{group: group, name: "30 % fail at first, fading with 300 s; warmup 12 min", behaves: starting(failing(.3), 300), gate: warmup(12 * time.Minute)},
		world{group: group, name: "60 % slow at first, fading with 60 s; two pods started before, too", behaves: starting(slow, 60), happens: before},
		world{group: group, name: "60 % slow at first, fading with 300 s; two pods started before, too", behaves: starting(slow, 300), happens: before},
		world{group: group, name: "only the canary's pods churn, each 60 % slow for 10 s", pods: [2]int{8, 2}, percent: 20, behaves: coldFor(slow, 10), happens: each(60, replace(canary))},
		world{group: group, name: "only the canary's pods churn, 30 % of each fail for 10 s", pods: [2]int{8, 2}, percent: 20, behaves: coldFor(failing(.3), 10), happens: each(60, replace(canary))},
		world{group: group, name: "all pods churn, each 60 % slow for 10 s", pods: [2]int{8, 2}, percent: 20, behaves: coldFor(slow, 10), happens: both(each(120, replace(canary)), each(30, replace(baseline)))},
		world{group: group, name: "60 % slow at first, fading with 60 s, and 1 → 5 %", bad: true, behaves: func(s *scene) func(moment) fate {
			first := starting(slow, 60)(s)
			return func(m moment) fate {
				f := first(m)
				if f.fails = .01; m.onCanary() {
					f.fails = .05
				}
				return f
			}
		}},
		world{group: group, name: "60 % slow, and it stays so", bad: true, behaves: apart(fate{}, slow)},
		world{group: group, name: "moved shards 60 % slow at first, fading with 30 s", shards: 100, behaves: moved(slow, 30)},
		world{group: group, name: "moved shards 60 % slow at first, fading with 120 s", shards: 100, behaves: moved(slow, 120)},
		world{group: group, name: "moved shards 30 % fail at first, fading with 60 s", shards: 100, behaves: moved(failing(.3), 60)},
	)
}

// fading weakens a fate with time.
func fading(f fate, age, tau float64) fate {
	rest := math.Exp(-max(0, age) / tau)
	f.fails, f.slow = f.fails*rest, f.slow*rest
	return f
}

// starting pods are cold. What warms them are requests, so for the canary's first pods that begins at the split.
func starting(fresh fate, tau float64) behaviour {
	return steady(func(m moment) fate {
		age := m.age()
		if m.onCanary() {
			age = min(age, m.at)
		}
		return fading(fresh, age, tau)
	})
}

// coldFor has pods be cold for some seconds.
func coldFor(fresh fate, seconds float64) behaviour {
	return steady(func(m moment) fate {
		if m.age() < seconds {
			return fresh
		}
		return fate{}
	})
}
