// SPDX-License-Identifier: Apache-2.0

package authhttp

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// limitedListener is a listener with a limit on open connections. At the limit it evicts the connection
// with the lowest priority, so that a new connection never waits.
type limitedListener struct {
	net.Listener
	limit int

	mu   sync.Mutex
	open map[*connection]struct{}
	// last is the order of the connection that was accepted or authorized last.
	last uint64
}

// connection is an open connection.
type connection struct {
	net.Conn
	listener *limitedListener
	// order is that in which connections were last authorized, or else accepted.
	order uint64
	// active: a request is in progress. authorized: a request was authorized.
	active, authorized bool
}

func newLimitedListener(l net.Listener, limit int) *limitedListener {
	return &limitedListener{Listener: l, limit: limit, open: map[*connection]struct{}{}}
}

// Accept implements net.Listener.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err //nolint:wrapcheck // net.Listener returns it unwrapped
		}
		if c := l.add(conn); c != nil {
			return c, nil
		}
		_ = conn.Close() // all others have an authorized request in progress
	}
}

// add adds a connection, and evicts another at the limit. It returns nil if none can be evicted.
func (l *limitedListener) add(conn net.Conn) *connection {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) >= l.limit {
		evicted := l.evictable()
		if evicted == nil {
			return nil
		}
		delete(l.open, evicted)
		_ = evicted.Conn.Close()
	}
	l.last++
	c := &connection{Conn: conn, listener: l, order: l.last}
	l.open[c] = struct{}{}
	return c
}

// evictable returns the connection to evict: first those without a request, then those that are not
// authorized, then idle ones; among equals the oldest.
func (l *limitedListener) evictable() *connection {
	var first *connection
	for c := range l.open {
		switch priority := c.priority(); {
		case priority == neverEvicted:
		case first == nil, priority < first.priority(), priority == first.priority() && c.order < first.order:
			first = c
		}
	}
	return first
}

// neverEvicted is the priority of a connection with an authorized request in progress.
const neverEvicted = 3

func (c *connection) priority() int {
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
func (c *connection) Close() error {
	c.listener.mu.Lock()
	delete(c.listener.open, c)
	c.listener.mu.Unlock()
	return c.Conn.Close() //nolint:wrapcheck // net.Conn returns it unwrapped
}

// setState stores whether a connection has a request; an http.Server's ConnState.
func (l *limitedListener) setState(conn net.Conn, state http.ConnState) {
	if c := connectionOf(conn); c != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		c.active = state == http.StateActive
	}
}

func connectionOf(conn net.Conn) *connection {
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	c, _ := conn.(*connection)
	return c
}

type connectionKey struct{}

// withConnection stores the connection in the context of its requests; an http.Server's ConnContext.
func withConnection(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, connectionOf(conn))
}

// Authorized records that a request was authorized: its connection is one of the last to be evicted.
func Authorized(ctx context.Context) {
	c, _ := ctx.Value(connectionKey{}).(*connection)
	if c == nil {
		return
	}
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.listener.last++
	c.authorized, c.order = true, c.listener.last
}
