package web

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// crowd is a listener that has at most so many connections open. Where there are more,
// the one that has the least claim gives way: it never keeps a new one waiting.
type crowd struct {
	net.Listener
	most int

	mu     sync.Mutex
	guests map[*guest]struct{}
	came   uint64
}

// guest is a connection.
type guest struct {
	net.Conn
	of *crowd
	// came orders guests by when they were last let in, or else came.
	came uint64
	// active: a request of it is being answered. welcome: one had the right to ask.
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
			return nil, err //nolint:wrapcheck // it is the listener's own
		}
		if g := c.admit(conn); g != nil {
			return g, nil
		}
		_ = conn.Close() // all others are being answered
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

// least is the guest with the least claim: who has asked nothing, then who has shown no
// right to ask, then who waits with nothing to ask; of those the one that came first.
func (c *crowd) least() *guest {
	var least *guest
	for g := range c.guests {
		if rank := g.rank(); rank < answered && (least == nil || rank < least.rank() || rank == least.rank() && g.came < least.came) {
			least = g
		}
	}
	return least
}

// answered is the rank of those that are never sent away.
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
	return g.Conn.Close() //nolint:wrapcheck // it is the connection's own
}

// is notes what a guest does; an http.Server's ConnState.
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

// with keeps the connection where its requests find it; an http.Server's ConnContext.
func (c *crowd) with(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, guestKey{}, guestOf(conn))
}

// welcome notes that a request on this connection had the right to ask.
func welcome(ctx context.Context) {
	g, _ := ctx.Value(guestKey{}).(*guest)
	if g == nil {
		return
	}
	g.of.mu.Lock()
	defer g.of.mu.Unlock()
	g.of.came++
	g.welcome, g.came = true, g.of.came
}
