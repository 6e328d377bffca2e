// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
)

// sharded worlds handle requests where the shards are, wherever they enter.
func sharded() []world {
	const group = "sharded"
	all := []world{
		{name: "1 % errors", behaves: alike(failing(.01))},
		{name: "1 % errors, shards differ by a sigma of 1", behaves: shardsDiffer(.01, 1, 1)},
		{name: "1 % errors, an outage of all for a minute", behaves: outageFrom(300, 60, .3, .01)},
		{name: "0.1 → 5 %", bad: true, behaves: apart(failing(.001), failing(.05))},
		{name: "1 → 5 %", bad: true, behaves: apart(failing(.01), failing(.05))},
		{name: "3 times the odds, shards differ by a sigma of 1", bad: true, behaves: shardsDiffer(.01, 1, 3)},
		{name: "the canary's entry fails a twentieth", bad: true, behaves: apart(fate{}, fate{entry: .05})},
		{name: "the canary's entry fails", bad: true, behaves: apart(fate{}, fate{entry: 1})},
		{name: "one of the canary's two pods is slow and exports nothing", bad: true, pods: [2]int{8, 2}, percent: 20, behaves: steady(func(m moment) fate {
			if m.onCanary() && m.pod.mute {
				return fate{slow: 1}
			}
			return fate{}
		}), happens: once(30, silence)},
		{name: "the canary's entry hangs", bad: true, behaves: apart(fate{}, fate{entryHangs: 1})},
	}
	for i := range all {
		all[i].group, all[i].shards = group, 100
	}
	return all
}

// shardsDiffer gives each shard an error rate for life, lognormal about a mean, and the canary other odds.
func shardsDiffer(mean, sigma, odds float64) behaviour {
	return func(s *scene) func(moment) fate {
		rates := make([]float64, s.shards)
		for i := range rates {
			rates[i] = min(1, mean*math.Exp(sigma*s.rng.NormFloat64()-sigma*sigma/2))
		}
		usual := fate{ofShard: func(shard int, f fate) fate { f.fails = rates[shard]; return f }}
		worse := fate{ofShard: func(shard int, f fate) fate { f.fails = odd(rates[shard], odds); return f }}
		return func(m moment) fate {
			if m.onCanary() {
				return worse
			}
			return usual
		}
	}
}

// outageFrom has everything fail more for some seconds.
func outageFrom(from, long, rate, usual float64) behaviour {
	return steady(func(m moment) fate {
		if m.at >= from && m.at < from+long {
			return failing(rate)
		}
		return failing(usual)
	})
}

// hanging worlds have requests that never end.
func hanging() []world {
	const group = "hanging"
	all := []world{
		{name: "5 %, ordinary", bad: true, behaves: apart(fate{}, fate{hangs: .05})},
		{name: "5 %, 10 of 100 a second", bad: true, shards: 100, behaves: apart(fate{}, fate{hangs: .05})},
		{name: "5 %, 1 of 10 a second", bad: true, shards: 100, rps: 10, behaves: apart(fate{}, fate{hangs: .05})},
		{name: "20 %, 5 s, 10 of 100 a second", bad: true, shards: 100, behaves: apart(fate{takes: 5}, fate{takes: 5, hangs: .2})},
		{name: "all take 5 s, 10 of 100 a second", shards: 100, behaves: alike(fate{takes: 5})},
	}
	for i := range all {
		all[i].group = group
	}
	return all
}

// open worlds have many open requests anyway.
func open() []world {
	const group = "long requests"
	all := []world{
		{name: "60 s", behaves: alike(fate{takes: 60})},
		{name: "60 s, 5 % hang", bad: true, behaves: apart(fate{takes: 60}, fate{takes: 60, hangs: .05})},
		{name: "1 % streams of 10 min", percent: 10, rps: 100, behaves: alike(fate{streams: .01})},
		{name: "1 % streams of 10 min, 5 % hang", percent: 10, rps: 100, bad: true, behaves: apart(fate{streams: .01}, fate{streams: .01, hangs: .05})},
	}
	for i := range all {
		all[i].group, all[i].shards = group, 100
		if all[i].rps == 0 {
			all[i].rps, all[i].percent, all[i].pods = 20, 50, [2]int{5, 5}
		}
		// All that takes that long would be slow anyway.
		all[i].gate = errorsOnly
	}
	return all
}

// moved has shards be cold when they begin on the canary, which is at the split.
func moved(fresh fate, tau float64) behaviour {
	return steady(func(m moment) fate {
		if !m.onCanary() {
			return fate{}
		}
		return fading(fresh, m.at, tau)
	})
}
