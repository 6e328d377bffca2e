// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"
)

const (
	// tripAfter is how many failures in a row open the breaker.
	tripAfter = 5
	// probeEvery is how long an open breaker waits before it lets one attempt through.
	probeEvery = 5 * time.Second
)

// breaker spares a sink that fails: while it is open, only probes are sent.
type breaker struct {
	probeEvery time.Duration
	// opening is called when the breaker opens, and closing when it has closed.
	opening, closing func()

	mu      sync.Mutex
	current *circuit
	opened  time.Time
}

func newBreaker(probeEvery time.Duration, opening, closing func()) *breaker {
	b := &breaker{probeEvery: probeEvery, opening: opening, closing: closing}
	b.current = b.newCircuit()
	return b
}

type circuit = gobreaker.TwoStepCircuitBreaker[struct{}]

func (b *breaker) newCircuit() *circuit {
	var c *circuit
	c = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests: 1, Timeout: b.probeEvery,
		ReadyToTrip: func(n gobreaker.Counts) bool { return n.ConsecutiveFailures >= tripAfter },
		OnStateChange: func(_ string, _, to gobreaker.State) {
			switch to {
			case gobreaker.StateOpen:
				b.noteOpened(c)
			case gobreaker.StateClosed:
				go b.closing() // not here: gobreaker holds its lock
			case gobreaker.StateHalfOpen:
			}
		},
	})
	return c
}

// reset closes the breaker, for a sink of which nothing is known yet. Attempts under way
// report to the former circuit.
func (b *breaker) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.current = b.newCircuit()
}

func (b *breaker) noteOpened(c *circuit) {
	b.mu.Lock()
	current := b.current == c
	if current {
		b.opened = time.Now()
	}
	b.mu.Unlock()
	if current {
		b.opening()
	}
}

// allow says whether an attempt may be made now. Whoever makes one, allowed or not,
// reports how the sink is.
func (b *breaker) allow() (report func(error), allowed bool) {
	c := b.inForce()
	report, err := c.Allow()
	if err == nil {
		return report, true
	}
	return func(err error) {
		if err == nil {
			b.replace(c) // a sink that accepts an event is healthy, probed or not
		}
	}, false
}

// replace resets the breaker, if that circuit is still the one in force.
func (b *breaker) replace(c *circuit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.current == c {
		b.current = b.newCircuit()
	}
}

func (b *breaker) inForce() *circuit {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.current
}

// open says whether the sink is only probed.
func (b *breaker) open() bool { return b.inForce().State() != gobreaker.StateClosed }

// untilProbe is how long to wait while the breaker is open. It is spread, so that not all
// objects come at once.
func (b *breaker) untilProbe() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	left := max(time.Until(b.opened.Add(b.probeEvery)), 100*time.Millisecond)
	return left + time.Duration(rand.Int64N(int64(time.Second))) //nolint:gosec // no secret, only spread
}
