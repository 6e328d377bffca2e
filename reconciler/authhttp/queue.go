// SPDX-License-Identifier: Apache-2.0

package authhttp

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// Limits of concurrent reviews of unknown tokens, in total and per client address, and
// of how long a request waits for its turn.
const (
	maxReviews    = 16
	maxPerAddress = 4
	turnTimeout   = 2 * time.Second
)

// reviewQueue queues requests with unknown tokens. No single address can fill it.
type reviewQueue struct {
	turns chan struct{}

	mu sync.Mutex
	// inside counts the requests that wait or are under review, by address.
	inside map[string]int
}

func newReviewQueue() *reviewQueue {
	return &reviewQueue{turns: make(chan struct{}, maxReviews), inside: map[string]int{}}
}

// enter waits for a turn. If it gets one, the caller must call done.
func (l *reviewQueue) enter(ctx context.Context, address string) (done func(), err error) {
	l.mu.Lock()
	if l.inside[address] >= maxPerAddress {
		l.mu.Unlock()
		return nil, &RefusedError{http.StatusTooManyRequests, "too many tokens from this address are being reviewed; try again"}
	}
	l.inside[address]++
	l.mu.Unlock()
	turn := time.NewTimer(turnTimeout)
	defer turn.Stop()
	select {
	case l.turns <- struct{}{}:
		return func() { <-l.turns; l.leave(address) }, nil
	case <-ctx.Done():
	case <-turn.C:
	}
	l.leave(address)
	return nil, &RefusedError{http.StatusServiceUnavailable, "too many tokens are being reviewed; try again"}
}

func (l *reviewQueue) leave(address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inside[address]--; l.inside[address] <= 0 {
		delete(l.inside, address)
	}
}

// host returns the address of the client.
func host(r *http.Request) string {
	if h, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		return h
	}
	return r.RemoteAddr
}
