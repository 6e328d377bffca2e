// SPDX-License-Identifier: Apache-2.0

package main

import (
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

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
		{group: group, name: "30 % end as 503 before the canary's pods, sharded", bad: true, percent: 20, lost: .3, shards: 100},
		{group: group, name: "sticky clients, the canary has 14 of 20 %", percent: 20, share: .14},
		{group: group, name: "sticky clients, the canary has 14 of 20 %; tooLow: Warn", percent: 20, share: .14, gate: tolerant},
		{group: group, name: "requests to the canary take 60 s for the first 2 min", percent: 20, behaves: slowAtFirst(60, 120), gate: errorsOnly},
		{group: group, name: "requests to the canary take 60 s; timeout 6 min", percent: 20, timeout: 2 * time.Minute, behaves: slowAtFirst(60, 360), gate: func(spec *v1alpha1.CanaryGateSpec) {
			errorsOnly(spec)
			lasts(6 * time.Minute)(spec)
		}},
		{group: group, name: "requests take 60 s, sharded with a plan", shards: 100, planned: true, behaves: alike(fate{takes: 60}), gate: errorsOnly},
		{group: group, name: "sharded, the canary has 20 % of the shards", percent: 20, shards: 100},
		{group: group, name: "sharded, entry 10 %, handled 20 %", owns: .2, shards: 100},
		{group: group, name: "sharded, entry 5 %, handled a third", percent: 5, owns: 1. / 3, pods: [2]int{2, 1}, shards: 100},
		{group: group, name: "sharded, 10 of 100 shards, whose traffic differs by a sigma of 1", shards: 100, uneven: 1},
		{group: group, name: "sharded, 5 of 100 shards, whose traffic differs by a sigma of 1.5", percent: 5, shards: 100, uneven: 1.5},
		{group: group, name: "sharded with a plan, traffic differs by a sigma of 1", shards: 100, uneven: 1, planned: true},
		{group: group, name: "sharded with a plan, traffic differs by a sigma of 1.5 and changes by one of 1", shards: 100, uneven: 1.5, drift: 1, planned: true},
		{group: group, name: "sharded with a plan, half of its moves are not made", bad: true, shards: 100, planned: true, half: true},
	}
}

// tolerant changes a gate: clients stay with a pod.
func tolerant(spec *v1alpha1.CanaryGateSpec) {
	spec.Exposure = &v1alpha1.GateExposure{TooLow: verdict.Warn}
}

// slowAtFirst has the canary's requests take so many seconds on average for a while after the split.
func slowAtFirst(takes, until float64) behaviour {
	return steady(func(m moment) fate {
		if m.onCanary() && m.at < until {
			return fate{takes: takes}
		}
		return fate{}
	})
}
