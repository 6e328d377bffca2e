// SPDX-License-Identifier: Apache-2.0

package authserver

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// Limits of concurrent reviews of unknown tokens, in total and per client address, and
// of how long a request waits for a slot.
const (
	unknownAtOnce = 16
	perAddress    = 4
	slotWithin    = 2 * time.Second
)

// reviewQueue queues requests with unknown tokens. No single address can fill it.
type reviewQueue struct {
	slots chan struct{}

	mu sync.Mutex
	// pending counts the requests that wait or are under review, by address.
	pending map[string]int
}

func newReviewQueue() *reviewQueue {
	return &reviewQueue{slots: make(chan struct{}, unknownAtOnce), pending: map[string]int{}}
}

// enter waits for a slot. If it gets one, the caller must call done.
func (q *reviewQueue) enter(ctx context.Context, address string) (done func(), err error) {
	q.mu.Lock()
	if q.pending[address] >= perAddress {
		q.mu.Unlock()
		return nil, &RefusedError{
			http.StatusTooManyRequests,
			"too many tokens from this address are being reviewed; try again",
		}
	}
	q.pending[address]++
	q.mu.Unlock()
	timeout := time.NewTimer(slotWithin)
	defer timeout.Stop()
	select {
	case q.slots <- struct{}{}:
		return func() { <-q.slots; q.leave(address) }, nil
	case <-ctx.Done():
	case <-timeout.C:
	}
	q.leave(address)
	return nil, &RefusedError{http.StatusServiceUnavailable, "too many tokens are being reviewed; try again"}
}

func (q *reviewQueue) leave(address string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.pending[address]--; q.pending[address] <= 0 {
		delete(q.pending, address)
	}
}

// host reslots the address of the client.
func host(r *http.Request) string {
	if h, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		return h
	}
	return r.RemoteAddr
}
