// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"testing"
	"time"
)

// TestLeadersDie kills the leader for a Service as soon as it leads, ten times, while the traffic of ten Services is
// moved 200 times. The next leader must report splits that appeared and ended without a leader, if it saw them. The
// others are listed: those that only other replicas saw, and those that none did.
func TestLeadersDie(t *testing.T) {
	if !suite.full {
		t.Skip("it takes minutes: make e2e-full")
	}
	if !suite.Own() {
		t.Skip("pods can be killed only on the cluster made by test/cluster: make e2e-full")
	}
	const kills, moves = 10, 200
	s := newStorm(t)
	s.replicas = followReplicas(t)
	s.deployAll("s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9")
	over := s.blow(moves, 1100*time.Millisecond)
	for range kills {
		lease, pod := leader(t, s.ns, "s0")
		s.watch.kill(pod)
		s.must(suite.Controller.Crash(t.Context(), pod))
		s.waitLease(lease, func(holder string) bool { return holder != pod && holder != "" })
	}
	over()
	s.must(suite.Controller.WaitLeader(t.Context()))
	s.must(suite.Controller.WaitAvailable(t.Context()))
	v := s.judge(s.sink, 2*time.Minute)
	if v.Changes < moves*9/10 {
		t.Errorf("only %d traffic changes took effect", v.Changes)
	}
	s.account(v)
}
