package httpserver

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
	strangersAtOnce = 16
	perAddress      = 4
	turnWithin      = 2 * time.Second
)

// Lane queues requests with unknown tokens. No single address can fill it.
type Lane struct {
	turns chan struct{}

	mu sync.Mutex
	// inside counts the requests that wait or are under review, by address.
	inside map[string]int
}

// NewLane returns an empty lane.
func NewLane() *Lane {
	return &Lane{turns: make(chan struct{}, strangersAtOnce), inside: map[string]int{}}
}

// Enter waits for a turn of the client's address. If it gets one, the caller must call done. The error is a *RefusedError.
func (l *Lane) Enter(ctx context.Context, r *http.Request) (done func(), err error) {
	address := host(r)
	l.mu.Lock()
	if l.inside[address] >= perAddress {
		l.mu.Unlock()
		return nil, &RefusedError{http.StatusTooManyRequests, "too many tokens from this address are being reviewed; try again"}
	}
	l.inside[address]++
	l.mu.Unlock()
	turn := time.NewTimer(turnWithin)
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

func (l *Lane) leave(address string) {
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
