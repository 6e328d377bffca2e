// SPDX-License-Identifier: Apache-2.0

package authserver

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// listener limits the open connections. At the limit it evicts the one with the lowest priority, so that a new
// connection never waits.
type listener struct {
	net.Listener
	limit int

	mu       sync.Mutex
	open     map[*conn]struct{}
	sequence uint64
}

// conn is an open connection.
type conn struct {
	net.Conn
	listener *listener
	// sequence orders connections by when they were last authorized, or else accepted.
	sequence uint64
	// active: a request is in progress. authorized: a request was authorized.
	active, authorized bool
}

func newListener(l net.Listener, limit int) *listener {
	return &listener{Listener: l, limit: limit, open: map[*conn]struct{}{}}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err //nolint:wrapcheck // net.Listener returns it unwrapped
		}
		if c := l.admit(accepted); c != nil {
			return c, nil
		}
		_ = accepted.Close() // all others have an authorized request in progress
	}
}

func (l *listener) admit(accepted net.Conn) *conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) >= l.limit {
		evicted := l.lowest()
		if evicted == nil {
			return nil
		}
		delete(l.open, evicted)
		_ = evicted.Conn.Close()
	}
	l.sequence++
	c := &conn{Conn: accepted, listener: l, sequence: l.sequence}
	l.open[c] = struct{}{}
	return c
}

// lowest returns the connection to evict: first those without a request, then those that are not authorized, then
// idle ones; among equals the oldest. It returns nil if none may be evicted.
func (l *listener) lowest() *conn {
	var lowest *conn
	for c := range l.open {
		p := c.priority()
		if p < neverEvicted && (lowest == nil || p < lowest.priority() ||
			p == lowest.priority() && c.sequence < lowest.sequence) {
			lowest = c
		}
	}
	return lowest
}

// neverEvicted is the priority of a connection with an authorized request in progress.
const neverEvicted = 3

func (c *conn) priority() int {
	switch {
	case !c.authorized && !c.active:
		return 0
	case !c.authorized:
		return 1
	case !c.active:
		return 2
	}
	return neverEvicted
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.listener.mu.Lock()
	delete(c.listener.open, c)
	c.listener.mu.Unlock()
	return c.Conn.Close() //nolint:wrapcheck // net.Conn returns it unwrapped
}

// setState records the state of a connection; an http.Server's ConnState.
func (l *listener) setState(of net.Conn, state http.ConnState) {
	if c := unwrap(of); c != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		c.active = state == http.StateActive
	}
}

// unwrap returns the connection under TLS.
func unwrap(c net.Conn) *conn {
	if secured, ok := c.(*tls.Conn); ok {
		c = secured.NetConn()
	}
	own, _ := c.(*conn)
	return own
}

type connKey struct{}

// withConn stores the connection in the context of its requests; an http.Server's ConnContext.
func (*listener) withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, unwrap(c))
}

// Authorized records that a request was authorized: its connection is one of the last to be evicted.
func Authorized(ctx context.Context) {
	c, _ := ctx.Value(connKey{}).(*conn)
	if c == nil {
		return
	}
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.listener.sequence++
	c.authorized, c.sequence = true, c.listener.sequence
}
