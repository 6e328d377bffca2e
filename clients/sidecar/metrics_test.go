// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A client that asks for metrics and does not read them delays no request.
func TestUnreadMetrics(t *testing.T) {
	f := newFleet(t)
	a := f.start("stable", &echo{name: "a"})
	for shard := range 100 {
		f.do(a, http.MethodGet, "/", keyOf(shard), "")
	}
	conn, err := net.Dial("tcp", net.JoinHostPort(a.config.PodIP, "8481")) //nolint:noctx // a test's
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	go func() {
		_, _ = io.WriteString(conn, strings.Repeat("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", 20_000))
	}()
	time.Sleep(2 * time.Second) // until nothing more fits into the buffers
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 3 {
			f.do(a, http.MethodGet, "/", "one", "")
		}
		for a.member.Open() > 0 {
			time.Sleep(time.Millisecond)
		}
	}()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		t.Errorf("requests do not end: %d are open", a.member.Open())
	}
}
