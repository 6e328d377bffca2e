// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"container/list"
	"context"
	"errors"
	"net"
	"sync"
)

// newest accepts every connection. If there are too many, it closes the oldest one, so that held connections do
// not lock out new ones. Those that are kept are counted apart, and stay.
type newest struct {
	net.Listener
	most, mostKept int
	// mostRead is how many bytes are read from a connection before it is kept; 0: any number.
	mostRead int

	mu sync.Mutex
	// open are the connections that may be closed, the oldest first. kept is how many others there are.
	open list.List
	kept int
}

// Accept implements net.Listener.
func (n *newest) Accept() (net.Conn, error) {
	conn, err := n.Listener.Accept()
	if err != nil {
		return nil, err //nolint:wrapcheck // the server compares it
	}
	a := &aging{Conn: conn, of: n, unread: n.mostRead, limited: n.mostRead > 0}
	n.mu.Lock()
	oldest := n.open.Front()
	full := n.open.Len() >= n.most
	a.place = n.open.PushBack(a)
	n.mu.Unlock()
	if full {
		_ = oldest.Value.(*aging).Close() //nolint:errcheck // nothing else is put there
	}
	return a, nil
}

// aging is a connection that is closed if there are too many newer ones.
type aging struct {
	net.Conn
	of *newest
	// place is nil if the connection is kept or closed.
	place *list.Element
	kept  bool
	// unread is how much may still be read, if it is limited.
	unread  int
	limited bool
}

// Read implements net.Conn.
func (a *aging) Read(to []byte) (int, error) {
	if !a.limited {
		return a.Conn.Read(to) //nolint:wrapcheck // the contract of net.Conn
	}
	if a.unread == 0 {
		return 0, errors.New("a stranger has sent too much")
	}
	n, err := a.Conn.Read(to[:min(len(to), a.unread)])
	a.unread -= n
	return n, err //nolint:wrapcheck // the contract of net.Conn
}

type agingKey struct{}

// withConn is an http.Server's ConnContext.
func withConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, agingKey{}, conn)
}

// keep has the connection of a request stay open, unless too many do already.
func keep(ctx context.Context) {
	if a, is := ctx.Value(agingKey{}).(*aging); is {
		a.keep()
	}
}

func (a *aging) keep() {
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	if a.place != nil && a.of.kept < a.of.mostKept {
		a.of.open.Remove(a.place)
		a.of.kept++
		a.place, a.kept = nil, true
	}
}

// Close implements net.Conn.
func (a *aging) Close() error {
	a.of.mu.Lock()
	switch {
	case a.place != nil:
		a.of.open.Remove(a.place)
	case a.kept:
		a.of.kept--
	}
	a.place, a.kept = nil, false
	a.of.mu.Unlock()
	return a.Conn.Close() //nolint:wrapcheck // the contract of net.Conn
}
