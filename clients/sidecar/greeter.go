// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"context"
	"crypto/tls"
	"net"
)

// greeter accepts connections over TLS after their handshakes. An http.Server would do this itself, but keep what
// strangers send: up to 256 KiB of each. The certificate of a member is public, so that only the end of the handshake
// says who it is.
type greeter struct {
	*newest
	config  *tls.Config
	greeted chan greeted
	// done: the process ends.
	done <-chan struct{}
}

type greeted struct {
	conn net.Conn
	err  error
}

// greet makes a greeter, which ends with the context.
func greet(ctx context.Context, l *newest, config *tls.Config) *greeter {
	g := &greeter{newest: l, config: config, greeted: make(chan greeted), done: ctx.Done()}
	go func() {
		for {
			raw, err := l.Accept()
			if err == nil {
				go g.greet(ctx, raw.(*aging)) //nolint:errcheck // it accepts nothing else
			} else if !g.pass(greeted{err: err}) {
				return
			}
		}
	}()
	return g
}

func (g *greeter) greet(ctx context.Context, raw *aging) {
	ctx, cancel := context.WithTimeout(ctx, headerWithin)
	defer cancel()
	conn := tls.Server(raw, g.config)
	if conn.HandshakeContext(ctx) != nil {
		_ = raw.Close() // it was a stranger
		return
	}
	raw.limited = false
	raw.keep()
	if !g.pass(greeted{conn: conn}) {
		_ = raw.Close() // the process ends
	}
}

func (g *greeter) pass(out greeted) bool {
	select {
	case g.greeted <- out:
		return true
	case <-g.done:
		return false
	}
}

// Accept implements net.Listener.
func (g *greeter) Accept() (net.Conn, error) {
	select {
	case in := <-g.greeted:
		return in.conn, in.err
	case <-g.done:
		return nil, net.ErrClosed
	}
}
