// SPDX-License-Identifier: Apache-2.0

package judge

import "math/rand/v2"

// withPods divides a scenario's baseline between nine equal pods, whose history play knows.
func withPods(s scenario) scenario {
	return func(rng *rand.Rand) (source, map[string]Counts) {
		of, before := s(rng)
		return func(i int) Window {
			w := of(i)
			pods := make([]tally, 9)
			n, k := w.Baseline.Finished, w.Baseline.Errors
			for i := range pods {
				// A pod has its part of the requests, and a random part of the bad ones.
				left := float64(len(pods) - i)
				pods[i] = tally{N: float64(int(n / left)), K: binomial(rng, k, 1/left)}
				n, k = n-pods[i].N, k-pods[i].K
			}
			w.Pods = map[string]Arm{}
			for i, t := range pods {
				w.Pods[string(rune('a'+i))] = arm(max(t.N, t.K), t.K)
			}
			return w
		}, before
	}
}

// withStrangers is withPods without a history: the pods come after the start.
func withStrangers(s scenario) scenario {
	return func(rng *rand.Rand) (source, map[string]Counts) {
		of, before := withPods(s)(rng)
		return func(i int) Window {
			w := of(i)
			if i == 0 {
				w.Pods = nil
			}
			return w
		}, before
	}
}

// started is a run that knows how pods differed before, if its windows have pods.
func started(first Window, before map[string]Counts, rng *rand.Rand) *Run {
	run := Start(epoch, before)
	past := make([]PodPast, len(first.Pods))
	for i := range past {
		past[i] = PodPast{Watched: leastHistory, Errors: Expected{poisson(rng, 20), 20}}
	}
	run.Remember(past)
	return run
}
