// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// accept serves each connection to an address in a goroutine of its own.
func accept(t *testing.T, at string, serve func(conn net.Conn, in *bufio.Reader)) {
	t.Helper()
	l, err := net.Listen("tcp", at) //nolint:noctx // a test's
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				serve(conn, bufio.NewReader(conn))
			}()
		}
	}()
}

// resets is a container that counts each request and then closes the connection without an answer. It answers hooks and
// /warm.
func resets(t *testing.T, at string, handled *atomic.Int64) {
	t.Helper()
	accept(t, at, func(conn net.Conn, in *bufio.Reader) {
		for {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			if strings.HasPrefix(r.URL.Path, "/.stateful") {
				_, _ = io.WriteString(conn, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
				return
			}
			if r.URL.Path != "/warm" {
				handled.Add(1)
				return
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	})
}

// A request that the container may have handled is not sent again, whatever its method and headers are.
func TestNothingIsSentTwice(t *testing.T) {
	f := newFleet(t)
	host := newHost()
	var handled atomic.Int64
	resets(t, host+":8080", &handled)
	a := f.startAt("stable.0", host)
	for _, c := range [][]string{
		{http.MethodGet},
		{http.MethodHead},
		{http.MethodOptions},
		{http.MethodTrace},
		{http.MethodDelete},
		{http.MethodPost},
		{http.MethodPost, "Idempotency-Key", "x"},
		{http.MethodPost, "Idempotency-Key", ""},
		{http.MethodPut, "X-Idempotency-Key", ""},
	} {
		f.do(a, http.MethodGet, "/warm", "one", "")
		handled.Store(0)
		resp, _ := f.do(a, c[0], "/", "one", "", c[1:]...)
		if n := handled.Load(); n != 1 || resp.StatusCode != http.StatusBadGateway {
			t.Errorf("%q: the container handled it %d times; the answer is %d", c, n, resp.StatusCode)
		}
	}
}

// Many containers close connections that were idle for a few seconds. Since nothing is sent twice, a request that meets one
// which is about to be closed would have no answer.
func TestContainerClosesIdleConnections(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.configure = func(c *Config) { c.Hooks = false }
	host := newHost()
	accept(t, host+":8080", func(conn net.Conn, in *bufio.Reader) {
		for last := time.Now(); ; last = time.Now() {
			if _, err := http.ReadRequest(in); err != nil || time.Since(last) > 2*time.Second {
				return
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	})
	a := f.startAt("stable.0", host)
	for range 2 {
		if resp, _ := f.do(a, http.MethodGet, "/", "one", ""); resp.StatusCode != http.StatusOK {
			t.Error(resp.StatusCode)
		}
		time.Sleep(2100 * time.Millisecond)
	}
}

// What keeps a request from being sent twice does not change it: one without a body has none, in no chunk either, which some
// servers do not read.
func TestNoBodyIsAdded(t *testing.T) {
	f := newFleet(t)
	app := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/.stateful") {
			http.NotFound(w, r)
			return
		}
		_, _ = fmt.Fprint(w, r.ContentLength, r.TransferEncoding, r.Header["Idempotency-Key"]) //nolint:gosec // no browser
	})
	a, b := f.start("stable", app), f.start("canary", app)
	f.together(2)
	f.enforce(func(s int) *pod { return []*pod{a, b}[s%2] })
	for _, method := range []string{http.MethodGet, http.MethodDelete, http.MethodPost, http.MethodPut, http.MethodPatch} {
		for _, shard := range []int{2, 3} {
			if _, body := f.do(a, method, "/", keyOf(shard), "", "Idempotency-Key", "x"); body != "0 [] [x]" {
				t.Errorf("%s, shard %d: %s", method, shard, body)
			}
		}
	}
}

// resetsStreams is a container of HTTP/2 that counts each request, and resets its stream. No library does this, so it
// writes frames itself.
func resetsStreams(t *testing.T, at string, handled *atomic.Int64) {
	t.Helper()
	frame := func(kind, flags byte, stream uint32, payload ...byte) []byte {
		head := []byte{0, 0, byte(len(payload)), kind, flags} //nolint:gosec // a few bytes
		return append(binary.BigEndian.AppendUint32(head, stream), payload...)
	}
	accept(t, at, func(conn net.Conn, in *bufio.Reader) {
		_, _ = in.Discard(len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
		_, _ = conn.Write(append(frame(4, 0, 0), frame(4, 1, 0)...)) // SETTINGS, and one that acknowledges
		for {
			head := make([]byte, 9)
			if _, err := io.ReadFull(in, head); err != nil {
				return
			}
			_, _ = in.Discard(int(head[0])<<16 | int(head[1])<<8 | int(head[2]))
			if head[3] != 1 { // HEADERS
				continue
			}
			handled.Add(1)
			_, _ = conn.Write(frame(3, 0, binary.BigEndian.Uint32(head[5:]), 0, 0, 0, 1)) // RST_STREAM, PROTOCOL_ERROR
		}
	})
}

// The same holds for a container of HTTP/2 that resets the stream of a request.
func TestNoStreamIsSentTwice(t *testing.T) {
	f := newFleet(t)
	f.configure = func(c *Config) { c.Hooks = false }
	host := newHost()
	var handled atomic.Int64
	resetsStreams(t, host+":8080", &handled)
	a := f.startAt("stable.0", host)
	for _, method := range []string{http.MethodGet, http.MethodDelete, http.MethodPost} {
		handled.Store(0)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		req, _ := http.NewRequestWithContext(ctx, method, a.entry+"/", nil)
		req.Header.Set("X-Key", "one")
		resp, err := h2c().RoundTrip(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		if n := handled.Load(); n != 1 || err != nil || resp.StatusCode != http.StatusBadGateway {
			t.Errorf("%s: the container handled it %d times; %v", method, n, err)
		}
	}
}
