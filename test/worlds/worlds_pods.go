// SPDX-License-Identifier: Apache-2.0

package main

import (
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// killed worlds lose containers and pods.
func killed() []world {
	const group = "restarts"
	two := [2]int{8, 2}
	one := alike(failing(.01))
	return []world{
		{group: group, name: "every pod is killed once in 6 min", pods: two, percent: 20, happens: killedOnce(360)},
		{group: group, name: "each pod is killed once in 24 h", pods: two, percent: 20, rps: 33, behaves: one, happens: kills(24 * 3600), gate: atLeast(25 * time.Minute)},
		{group: group, name: "each pod is killed once in 4 h", pods: two, percent: 20, rps: 33, behaves: one, happens: kills(4 * 3600), gate: atLeast(25 * time.Minute)},
		{group: group, name: "the nodes of the canary's pods are drained, one every 4 min", pods: two, percent: 20, happens: each(240, drain(canary))},
		{group: group, name: "the same, sharded, requests take 10 s", pods: two, percent: 20, shards: 100, behaves: alike(fate{takes: 10}), happens: each(240, drain(canary)), gate: errorsOnly},
		{group: group, name: "all pods crash for a minute, because what they need is away", pods: two, percent: 20, happens: away(200, 260)},
		{group: group, name: "one of the canary's pods is replaced every 2 min", pods: two, percent: 20, happens: each(120, replace(canary))},
		{group: group, name: "each pod is killed once in 2 h, the canary's once in 12 min", bad: true, pods: two, percent: 20, rps: 33, behaves: one, happens: killsEach([2]float64{7200, 720}), gate: atLeast(55 * time.Minute)},
		{group: group, name: "one of the canary's pods restarts every minute", bad: true, pods: two, percent: 20, happens: each(60, kill)},
		{group: group, name: "one of the canary's pods restarts every minute, sharded", bad: true, pods: two, percent: 20, shards: 100, happens: each(60, kill)},
	}
}

// unlike worlds have pods that differ.
func unlike() []world {
	const group, rps = "pods differ", 2000. / 60
	few := func(of int) [2]int { return [2]int{of, 1} }
	differ := perPod(.01, .5)
	return []world{
		{group: group, name: "limit 2 %, each pod fails 20 % for 5 % of the time", rps: rps, behaves: episodes(.001, .2, .05, 120), gate: limited(.02)},
		{group: group, name: "limit 5 %, each pod fails 50 % for 5 % of the time", rps: rps, behaves: episodes(.001, .5, .05, 120), gate: limited(.05)},
		{group: group, name: "limit 2 %, clients try again five times in six", rps: rps, retries: 5. / 6, behaves: alike(failing(.0025)), gate: limited(.02)},
		{group: group, name: "limit 5 %, clients fail 20 times in a row", rps: rps, inRow: 20, behaves: alike(failing(.03)), gate: limited(.05)},
		{group: group, name: "limit 2 %, 1 → 5 %", bad: true, rps: rps, behaves: apart(failing(.01), failing(.05)), gate: limited(.02)},
		{group: group, name: "one node of ten is slow", behaves: slowNode(.1, .05, .005)},
		{group: group, name: "sigma 0.5, the baseline has 1 pod", rps: rps, percent: 50, pods: few(1), behaves: differ},
		{group: group, name: "sigma 0.5, the baseline has 2 pods", rps: rps, percent: 33, pods: few(2), behaves: differ},
		{group: group, name: "sigma 0.5, the baseline has 3 pods", rps: rps, percent: 25, pods: few(3), behaves: differ},
		{group: group, name: "sigma 0.5, the baseline has 9 pods", rps: rps, behaves: differ},
		{group: group, name: "0.1 → 5 %, the baseline has 1 pod", bad: true, rps: rps, percent: 50, pods: few(1), behaves: apart(failing(.001), failing(.05))},
	}
}

// slowNode gives pods on slow nodes another part of slow requests.
func slowNode(part, slow, usual float64) behaviour {
	return func(*scene) func(moment) fate {
		on := map[*pod]bool{}
		return func(m moment) fate {
			is, known := on[m.pod]
			if !known {
				is = m.rng.Float64() < part
				on[m.pod] = is
			}
			if is {
				return fate{slow: slow}
			}
			return fate{slow: usual}
		}
	}
}

// limited changes a gate: errors have a limit.
func limited(limit float64) func(*v1alpha1.CanaryGateSpec) {
	return func(spec *v1alpha1.CanaryGateSpec) {
		spec.Metrics = []v1alpha1.GateMetric{{Type: v1alpha1.MetricErrorRate, Limit: &limit}, {Type: v1alpha1.MetricSlowRequests}}
	}
}

// errorsOnly changes a gate: it does not judge durations.
func errorsOnly(spec *v1alpha1.CanaryGateSpec) {
	spec.Metrics = []v1alpha1.GateMetric{{Type: v1alpha1.MetricErrorRate}, {Type: v1alpha1.MetricEntryErrors}}
}

// atLeast changes a gate: it does not pass earlier, and has time to pass after that and the request timeout.
func atLeast(long time.Duration) func(*v1alpha1.CanaryGateSpec) {
	return func(spec *v1alpha1.CanaryGateSpec) {
		spec.Schedule = &v1alpha1.GateSchedule{
			MinDuration: &v1alpha1.Duration{Duration: long}, Timeout: &v1alpha1.Duration{Duration: long + 15*time.Minute},
		}
	}
}
