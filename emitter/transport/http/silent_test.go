// SPDX-License-Identifier: Apache-2.0

package http

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
)

// path is a TCP proxy. After it is cut, open connections silently drop all data. New ones work.
type path struct {
	listener net.Listener

	mu     sync.Mutex
	cut    chan struct{}
	opened int
}

func newPath(t *testing.T, to string) *path {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &path{listener: l, cut: make(chan struct{})}
	var open sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); open.Wait() })
	open.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			back, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", to)
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { _ = from.Close(); _ = back.Close() })
			p.mu.Lock()
			cut := p.cut
			p.opened++
			p.mu.Unlock()
			open.Go(func() { pass(from, back, cut) })
			open.Go(func() { pass(back, from, cut) })
		}
	})
	return p
}

// pass copies until the path is cut, then discards the data.
func pass(from, to net.Conn, cut <-chan struct{}) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		select {
		case <-cut:
			_, _ = io.Copy(io.Discard, from)
			return
		default:
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (p *path) goSilent() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.cut)
	p.cut = make(chan struct{})
}

func (p *path) connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opened
}

// overHTTP2 returns a sink behind such a path, to which events were already sent.
func overHTTP2(t *testing.T, clients *Clients) (*path, transport.Target) {
	t.Helper()
	s, ca := serveTLS(t)
	p := newPath(t, s.Listener.Addr().String())
	to := transport.Target{URL: strings.Replace(s.URL, s.Listener.Addr().String(), p.listener.Addr().String(), 1), CACerts: ca, Source: "source-1"}
	for range 3 {
		if out := clients.Send(t.Context(), to, newEvent(t), quick()); out.Class != transport.Acknowledged {
			t.Fatal(out)
		}
	}
	if n := p.connections(); n != 1 {
		t.Fatalf("%d connections for three events, want one as with HTTP/2", n)
	}
	return p, to
}

// Only one attempt fails with the connection.
func TestSilentConnectionIsClosedAfterATimeout(t *testing.T) {
	t.Parallel()
	clients := local()
	p, to := overHTTP2(t, clients)
	p.goSilent()
	policy := quick()
	policy.Timeout = 300 * time.Millisecond
	if out := clients.Send(t.Context(), to, newEvent(t), policy); out.Class != transport.Retry || out.Status != 0 {
		t.Fatal("a silent connection delivered a response:", out)
	}
	policy.Timeout = 5 * time.Second
	for range 3 {
		if out := clients.Send(t.Context(), to, newEvent(t), policy); out.Class != transport.Acknowledged {
			t.Error(out)
		}
	}
	if n := p.connections(); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
}

// A ping detects the silent connection long before a long timeout expires.
func TestSilentConnectionIsDetected(t *testing.T) {
	t.Parallel()
	clients := local()
	clients.pings = http.HTTP2Config{SendPingTimeout: 200 * time.Millisecond, PingTimeout: 200 * time.Millisecond}
	p, to := overHTTP2(t, clients)
	p.goSilent()
	policy := quick()
	policy.Timeout = time.Minute
	start := time.Now()
	out := clients.Send(t.Context(), to, newEvent(t), policy)
	if took := time.Since(start); out.Class != transport.Retry && out.Class != transport.Acknowledged || took > 20*time.Second {
		t.Errorf("%v after %s", out, took)
	}
	if out := clients.Send(t.Context(), to, newEvent(t), policy); out.Class != transport.Acknowledged {
		t.Error(out)
	}
}

// A silent connection must be detected before the default timeout of an attempt.
func TestPingTimeouts(t *testing.T) {
	t.Parallel()
	pings := local().pings
	if pings.SendPingTimeout <= 0 || pings.PingTimeout <= 0 || pings.SendPingTimeout+pings.PingTimeout >= transport.DefaultPolicy().Timeout {
		t.Errorf("%+v", pings)
	}
}
