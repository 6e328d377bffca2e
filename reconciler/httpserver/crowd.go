// SPDX-License-Identifier: Apache-2.0

package httpserver

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// crowd is a listener with a limit on open connections. At the limit it closes the one
// with the lowest priority, so that a new connection never waits.
type crowd struct {
	net.Listener
	most int

	mu     sync.Mutex
	guests map[*guest]struct{}
	came   uint64
}

// guest is an open connection.
type guest struct {
	net.Conn
	of *crowd
	// came orders guests by when they were last authorized, or else accepted.
	came uint64
	// active: a request is in progress. welcome: a request was authorized.
	active, welcome bool
}

func newCrowd(l net.Listener, most int) *crowd {
	return &crowd{Listener: l, most: most, guests: map[*guest]struct{}{}}
}

// Accept implements net.Listener.
func (c *crowd) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err //nolint:wrapcheck // net.Listener returns it unwrapped
		}
		if g := c.admit(conn); g != nil {
			return g, nil
		}
		_ = conn.Close() // all others have an authorized request in progress
	}
}

func (c *crowd) admit(conn net.Conn) *guest {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.guests) >= c.most {
		least := c.least()
		if least == nil {
			return nil
		}
		delete(c.guests, least)
		_ = least.Conn.Close()
	}
	c.came++
	g := &guest{Conn: conn, of: c, came: c.came}
	c.guests[g] = struct{}{}
	return g
}

// least returns the guest to close: first those without a request, then those that are
// not authorized, then idle ones; among equals the oldest.
func (c *crowd) least() *guest {
	var least *guest
	for g := range c.guests {
		if rank := g.rank(); rank < answered && (least == nil || rank < least.rank() || rank == least.rank() && g.came < least.came) {
			least = g
		}
	}
	return least
}

// answered is the rank of guests that are never closed.
const answered = 3

func (g *guest) rank() int {
	switch {
	case !g.welcome && !g.active:
		return 0
	case !g.welcome:
		return 1
	case !g.active:
		return 2
	}
	return answered
}

// Close implements net.Conn.
func (g *guest) Close() error {
	g.of.mu.Lock()
	delete(g.of.guests, g)
	g.of.mu.Unlock()
	return g.Conn.Close() //nolint:wrapcheck // net.Conn returns it unwrapped
}

// is records the state of a connection; an http.Server's ConnState.
func (c *crowd) is(conn net.Conn, state http.ConnState) {
	if g := guestOf(conn); g != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		g.active = state == http.StateActive
	}
}

func guestOf(conn net.Conn) *guest {
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	g, _ := conn.(*guest)
	return g
}

type guestKey struct{}

// with stores the connection in the context of its requests; an http.Server's ConnContext.
func (c *crowd) with(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, guestKey{}, guestOf(conn))
}

// Authorized records that a request was authorized: its connection is one of the last to be closed.
func Authorized(ctx context.Context) {
	g, _ := ctx.Value(guestKey{}).(*guest)
	if g == nil {
		return
	}
	g.of.mu.Lock()
	defer g.of.mu.Unlock()
	g.of.came++
	g.welcome, g.came = true, g.of.came
}
