// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math/rand/v2"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// world is a simulated Service with a canary, and the truth about that canary.
type world struct {
	// group and name describe it in the table.
	group, name string
	// bad is the truth: the canary must not be promoted.
	bad bool

	// rps is how many requests begin in a second; traffic replaces it if it changes with time.
	rps     float64
	traffic func(at float64) float64
	// percent is what the Route gives the canary, share what it really gets if that differs.
	percent int64
	share   float64
	// lost is the part of the canary's requests that end as 503 before they reach its pods.
	lost float64
	// pods of each side.
	pods [2]int
	// shards is the number of shards; 0 for an ordinary Service.
	shards int
	// uneven is the sigma of the shards' traffic, lognormal, and drift that of how it changes at the split.
	uneven, drift float64
	// planned has the controller's planner choose the canary's shards, by the traffic before the split; if half, only
	// every other of its moves is made. Otherwise chance gives the canary this part of the shards.
	planned, half bool
	owns          float64
	// before is how long the controller has watched the Service before the split.
	before time.Duration
	// late is how many seconds after the baseline's pods the canary's are read.
	late int

	// retries is the probability that a client tries again after a failure, anywhere, and fails again. inRow is how often
	// a client that fails does so at the same pod.
	retries float64
	inRow   int

	// behaves returns, for one run, what happens to the requests of a pod in a second.
	behaves func(s *scene) func(m moment) fate
	// happens returns, for one run, what is done to the pods at the beginning of a second.
	happens func(s *scene) func() error
	// timeout is the request timeout; 0 for Serving's default.
	timeout time.Duration

	// gate changes the spec of the gate, which has only defaults otherwise.
	gate func(spec *v1alpha1.CanaryGateSpec)
}

// moment is a pod in a second.
type moment struct {
	// at is the time since the split, in seconds.
	at  float64
	pod *pod
	rng *rand.Rand
}

// onCanary reports whether the pod is the canary's.
func (m moment) onCanary() bool { return m.pod.side == canary }

// age is how long the process has been running, in seconds.
func (m moment) age() float64 { return m.at - m.pod.cold }

// fate is what happens to a pod's requests.
type fate struct {
	// fails is the part that ends with code, 500 by default.
	fails float64
	code  string
	// slow is the part that takes 0.6 to 2.6 s instead of takes, the mean in seconds, 0.05 by default.
	slow, takes float64
	// hangs is the part that never ends, streams the part that lasts ten minutes on average.
	hangs, streams float64
	// entry is the part that fails where it enters, so nobody handles it; entryHangs never gets any further.
	entry, entryHangs float64
	// ofShard changes the fate by shard; nil if shards are alike.
	ofShard func(shard int, f fate) fate
}

const (
	slowFrom  = 0.5
	usualTime = 0.05
	streamFor = 600
	timedOut  = "504"
	// watched is how long the controller usually has watched before the split.
	watched = 30 * time.Minute
)

// withDefaults fills in what most worlds share.
func (w world) withDefaults() world {
	if w.rps == 0 {
		w.rps = 100
	}
	if w.percent == 0 {
		w.percent = 10
	}
	if w.share == 0 {
		w.share = float64(w.percent) / 100
	}
	if w.owns == 0 {
		w.owns = float64(w.percent) / 100
	}
	if w.pods == [2]int{} {
		w.pods = [2]int{9, 1}
	}
	if w.before == 0 {
		w.before = watched
		if w.shards > 0 {
			w.before = 20 * time.Minute // reading shards takes most of the time
		}
	}
	if w.behaves == nil {
		w.behaves = alike(fate{})
	}
	if w.timeout == 0 {
		w.timeout = 5 * time.Minute
	}
	return w
}
