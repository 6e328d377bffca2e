// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"testing"
)

// stepUnlessSuspended lets a process do one thing. With suspends, it may stop after a write that it has not sent from.
func (w *world) stepUnlessSuspended(p *process) {
	if p.suspended > 0 {
		p.suspended--
		return
	}
	before := len(p.pending)
	if w.step(p); !w.with.suspends || len(p.pending) <= before || w.rng.IntN(4) > 0 {
		return
	}
	p.suspended = 20 + w.rng.IntN(200)
	for _, other := range w.processes {
		if other != p {
			other.lead()
		}
	}
}

// mistaken runs histories with what operators should not do, or machines.
func mistaken(t *testing.T, with func(seed uint64) chaos) {
	t.Helper()
	var total tally
	for seed := uint64(1); seed <= 50; seed++ {
		w := history(seed, size, with(seed))
		v := check(t, seed, w)
		total.add(tally{events: v.events, doubles: w.doubles, writes: w.store.Writes(), crashes: w.crashes})
		w.end()
	}
	if total.doubles == 0 {
		t.Error("nothing was sent twice: the histories do not show what they should")
	}
	t.Logf("%d events, %d sent twice with the same bytes, %d crashes, %.2f writes per event", total.events, total.doubles, total.crashes,
		float64(total.writes)/float64(total.events))
}

// Leader election is off, and there are two replicas by mistake. Both write and send. What one has written, the other
// takes over, so each transition is journaled once, and sent once or twice.
func TestTwoReplicasWithoutElection(t *testing.T) {
	mistaken(t, func(seed uint64) chaos {
		return chaos{leaders: true, unelected: true, crashes: seed%2 == 0, outages: seed%3 == 0, errors: seed%5 == 0, sources: 1 + int(seed%2)}
	})
}

// A replica is suspended (SIGSTOP, or a virtual machine that moves) when it has written a transition and has not sent
// it. Another one leads meanwhile, and sends it. The first one may send it again when it continues.
func TestSuspendedBetweenWriteAndSend(t *testing.T) {
	mistaken(t, func(seed uint64) chaos {
		return chaos{leaders: true, suspends: true, crashes: seed%2 == 0, outages: seed%3 == 0, errors: seed%5 == 0, sources: 1 + int(seed%2)}
	})
}
