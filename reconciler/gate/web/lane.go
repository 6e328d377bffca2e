package web

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// Bounds of how many unknown tokens are reviewed at once, in all and of one address, and
// of how long one waits for its turn.
const (
	strangersAtOnce = 16
	perAddress      = 4
	turnWithin      = 2 * time.Second
)

// lane is where those wait whose tokens are not known. No address takes all of it.
type lane struct {
	turns chan struct{}

	mu sync.Mutex
	// inside are those that wait or are reviewed, by address.
	inside map[string]int
}

func newLane() lane {
	return lane{turns: make(chan struct{}, strangersAtOnce), inside: map[string]int{}}
}

// enter waits for a turn. Who got one must call done.
func (l *lane) enter(ctx context.Context, address string) (done func(), err error) {
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

func (l *lane) leave(address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inside[address]--; l.inside[address] <= 0 {
		delete(l.inside, address)
	}
}

// host that a request came from.
func host(r *http.Request) string {
	if h, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		return h
	}
	return r.RemoteAddr
}
