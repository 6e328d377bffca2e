package main

import (
	"slices"
	"time"
)

// worlds are all of them, in the order of the table.
func worlds() []world {
	return slices.Concat(plain(), clustered(), clientErrors(), exposed())
}

// plain worlds have errors that are independent, at a rate that does not change.
func plain() []world {
	const group = "errors"
	long := lasts(3 * time.Hour)
	return []world{
		{group: group, name: "none on both sides", gate: long},
		{group: group, name: "0.1 % on both sides", behaves: alike(errors(.001)), gate: long},
		{group: group, name: "1 % on both sides", behaves: alike(errors(.01)), gate: long},
		{group: group, name: "5 % on both sides", behaves: alike(errors(.05)), gate: long},
		{group: group, name: "1 % on both sides, 33 a second, 30 min", rps: 33, behaves: alike(errors(.01))},
		{group: group, name: "0.1 → 5 %", bad: true, behaves: apart(errors(.001), errors(.05)), gate: long},
		{group: group, name: "1 → 5 %", bad: true, behaves: apart(errors(.01), errors(.05)), gate: long},
		{group: group, name: "1 → 2 %", bad: true, behaves: apart(errors(.01), errors(.02)), gate: long},
	}
}

// clustered worlds have errors that come in clusters, alike on both sides.
func clustered() []world {
	const group, rps = "clustered errors", 2000. / 60
	few := func(all, canarys int) [2]int { return [2]int{all - canarys, canarys} }
	return []world{
		{group: group, name: "each of 10 pods fails 20 % for 5 % of the time", rps: rps, pods: few(10, 1), behaves: episodes(.01, .2, .05, 120)},
		{group: group, name: "each of 20 pods fails 10 % for 2 % of the time", rps: rps, pods: few(20, 2), behaves: episodes(.01, .1, .02, 120)},
		{group: group, name: "each of 10 pods fails 3 % for 20 % of the time", rps: rps, pods: few(10, 1), behaves: episodes(.01, .03, .2, 120)},
		{group: group, name: "clients try again five times in six", rps: rps, retries: 5. / 6, behaves: alike(errors(.01))},
		{group: group, name: "clients try again every other time", rps: rps, retries: .5, behaves: alike(errors(.01))},
		{group: group, name: "clients fail 20 times in a row", rps: rps, inRow: 20, behaves: alike(errors(.01))},
		{group: group, name: "clients fail 5 times in a row", rps: rps, inRow: 5, behaves: alike(errors(.01))},
		{group: group, name: "short outages, the canary read 5 s of 15 later", rps: rps, late: 5, behaves: outages},
		{group: group, name: "each of 2 pods fails 20 % for 5 % of the time", rps: rps, pods: few(2, 1), percent: 50, behaves: episodes(.01, .2, .05, 120)},
		{group: group, name: "each of 3 pods fails 20 % for 5 % of the time", rps: rps, pods: few(3, 1), percent: 33, behaves: episodes(.01, .2, .05, 120)},
	}
}

// outages hit all pods for 15 s at a time, a tenth of the time.
func outages(s *scene) func(moment) fate {
	out, until := false, s.at
	return func(m moment) fate {
		if m.at >= until {
			out, until = m.rng.Float64() < .1, m.at+15
		}
		if out {
			return errors(.5)
		}
		return errors(.01)
	}
}

// clientErrors are answers that blame the client.
func clientErrors() []world {
	const group = "client errors"
	answers := func(part float64, code string) fate { return fate{fails: part, code: code} }
	return []world{
		{group: group, name: "1 % 404 on both sides", behaves: alike(answers(.01, "404"))},
		{group: group, name: "20 % 404 on both sides", behaves: alike(answers(.2, "404"))},
		{group: group, name: "404 to all", bad: true, behaves: apart(answers(.01, "404"), answers(1, "404"))},
		{group: group, name: "401 to all", bad: true, behaves: apart(fate{}, answers(1, "401"))},
		{group: group, name: "429 to half", bad: true, behaves: apart(fate{}, answers(.5, "429"))},
		{group: group, name: "403 to a twentieth, 0.5 % before", bad: true, behaves: apart(answers(.005, "403"), answers(.05, "403"))},
		{group: group, name: "302 to half instead of 200", behaves: apart(fate{}, answers(.5, "302"))},
	}
}

// exposed worlds are about requests that never reach the canary's pods.
func exposed() []world {
	const group = "exposure"
	return []world{
		{group: group, name: "30 % end as 503 before the canary's pods", bad: true, percent: 20, lost: .3},
		{group: group, name: "60 % end as 503 before the canary's pods", bad: true, percent: 20, lost: .6},
		{group: group, name: "90 % end as 503 before the canary's pods", bad: true, percent: 20, lost: .9},
		{group: group, name: "sticky clients, the canary has 14 of 20 %", percent: 20, share: .14},
		{group: group, name: "sharded, the canary has 20 % of the shards", percent: 20, shards: 100},
		{group: group, name: "sharded, entry 10 %, handled 20 %", percent: 20, share: .1, shards: 100},
	}
}
