// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// raw sends bytes to the entry of a pod, and returns all that comes back in a second.
func (p *pod) raw(t *testing.T, text string) string {
	t.Helper()
	conn, _ := p.dial(t)
	_, _ = io.WriteString(conn, text)
	_ = conn.SetReadDeadline(time.Now().Add(time.Second))
	got, _ := io.ReadAll(conn)
	_ = conn.Close()
	return string(got)
}

// What could be read as one request or as two reaches the container as one, or not at all.
func TestSmuggling(t *testing.T) {
	f, a, b, echoes := two(t)
	f.do(a, http.MethodGet, "/", keyOf(2), "")
	f.do(a, http.MethodGet, "/", keyOf(3), "")
	count := func() (n int) {
		for _, e := range echoes {
			e.mu.Lock()
			n += len(e.got)
			e.mu.Unlock()
		}
		return n
	}
	inner := "GET /smuggled HTTP/1.1\r\nHost: a\r\nX-Key: " + keyOf(3) + "\r\n\r\n"
	for _, key := range []string{keyOf(2), keyOf(3)} {
		head := "POST /outer HTTP/1.1\r\nHost: a\r\nX-Key: " + key + "\r\n"
		hook := strings.Replace(head, "/outer", "/.stateful/release", 1)
		for name, c := range map[string]struct {
			text string
			most int
		}{
			"two lengths":               {head + fmt.Sprintf("Content-Length: 0\r\nContent-Length: %d\r\n\r\n", len(inner)) + inner, 0},
			"length and chunks":         {head + fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", len(inner)+5) + "", 1},
			"unknown encoding":          {head + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + inner, 0},
			"encoding with a tab":       {head + "Transfer-Encoding:\tchunked, identity\r\n\r\n0\r\n\r\n" + inner, 0},
			"blank before the colon":    {head + "Content-Length : 5\r\n\r\nhello", 0},
			"folded header":             {head + "X-A: b\r\n Content-Length: 100\r\n\r\n", 1},
			"line feed in a header":     {head + "X-A: b\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 1},
			"negative length":           {head + "Content-Length: -1\r\n\r\n" + inner, 0},
			"bad chunk":                 {head + "Transfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n", 1},
			"after a bad chunk":         {head + "Transfer-Encoding: chunked\r\n\r\n3\r\nabcXX" + inner, 1},
			"after a bad size":          {head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n" + inner, 1},
			"after a refusal":           {hook + "Transfer-Encoding: chunked\r\n\r\nzz\r\n" + inner, 0},
			"upgrade to HTTP/2":         {head + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nContent-Length: 0\r\n\r\n", 1},
			"connect":                   {"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 0},
			"two hosts":                 {head + "Host: b\r\nContent-Length: 0\r\n\r\n", 0},
			"absolute":                  {"GET http://127.0.0.1:8481/drain HTTP/1.1\r\nHost: a\r\n\r\n", 1},
			"internal length in expect": {head + "Expect: 100-continue\r\nExpect: nothing\r\nContent-Length: 0\r\n\r\n", 1},
		} {
			before := count()
			got := a.raw(t, c.text)
			f.until("all requests have ended", func() bool { return a.metrics.Handling()+b.metrics.Handling() == 0 })
			time.Sleep(20 * time.Millisecond) // the container counts what it got after an error too
			if n := count() - before; n > c.most || strings.Contains(got, "smuggled") {
				t.Errorf("%s: %d requests, %q", name, n, got)
			}
		}
	}
	for i, e := range echoes {
		for _, h := range e.got {
			if h.Get("Stateful-Forward") != "" || len(h["Stateful-Shard"]) > 1 {
				t.Errorf("container %d got %v", i, h)
			}
		}
	}
}

// Clients that send their request byte by byte, and strangers that only connect, do not keep others out.
func TestSlowClients(t *testing.T) {
	f, a, b, _ := two(t)
	var conns []net.Conn
	for range 200 {
		for _, at := range []string{strings.TrimPrefix(a.entry, "http://"), b.member.Address()} {
			if conn, err := net.Dial("tcp", at); err == nil { //nolint:noctx // a test's
				_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nX-")
				conns = append(conns, conn)
			}
		}
	}
	for shard := range 10 {
		if resp, body := f.do(a, http.MethodPost, "/", keyOf(shard), "x"); resp.StatusCode != http.StatusOK {
			t.Errorf("%d %s", resp.StatusCode, body)
		}
	}
	begun := time.Now()
	for _, conn := range conns {
		_ = conn.SetReadDeadline(begun.Add(3 * headerWithin))
		for err := error(nil); err == nil; _, err = conn.Read(make([]byte, 1024)) {
		}
		_ = conn.Close()
	}
	if took := time.Since(begun); took > 2*headerWithin {
		t.Errorf("slow clients were cut after %s", took)
	}
}

// Whoever holds connections to the port for probes keeps no probe out, and does not end a drain.
func TestHeldManagementConnections(t *testing.T) {
	f := newFleet(t)
	drained := make(chan struct{})
	queueProxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-drained }))
	t.Cleanup(queueProxy.Close)
	f.configure = func(c *Config) { c.DrainURL = queueProxy.URL }
	a := f.start("stable", &echo{name: "a"})
	at := net.JoinHostPort(a.config.PodIP, "8481")
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	probe := func() {
		t.Helper()
		for _, path := range []string{"/healthz", "/readyz", "/cluster/members"} {
			resp, err := client.Get("http://" + at + path) //nolint:noctx // it has a time-out
			if err != nil {
				t.Errorf("%s: %v", path, err)
				continue
			}
			if _ = resp.Body.Close(); resp.StatusCode != http.StatusOK {
				t.Errorf("%s: %d", path, resp.StatusCode)
			}
		}
	}
	draining := make(chan error, 1)
	go func() {
		resp, err := http.Get("http://" + at + "/drain") //nolint:noctx // the test waits for it
		if err == nil {
			_ = resp.Body.Close()
		}
		draining <- err
	}()
	time.Sleep(100 * time.Millisecond)
	var open atomic.Int64
	var conns []net.Conn
	for i := range 2000 {
		conn, err := net.Dial("tcp", at) //nolint:noctx // a test's
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, []string{"", "GET /healthz HTTP/1.1\r\nX-", "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"}[i%3])
		conns = append(conns, conn)
		open.Add(1)
		go func() {
			_, _ = io.Copy(io.Discard, conn)
			open.Add(-1)
		}()
		if i%100 == 0 {
			probe()
		}
	}
	probe()
	time.Sleep(200 * time.Millisecond)
	if n := open.Load(); n > mostManaging {
		t.Errorf("%d connections are open", n)
	}
	close(drained)
	if err := <-draining; err != nil {
		t.Error("the drain did not get an answer:", err)
	}
	for _, conn := range conns {
		_ = conn.Close()
	}
}

// Whoever holds connections to the port for members, and is none, keeps no member out.
func TestHeldPeerConnections(t *testing.T) {
	f, a, b, _ := two(t)
	begun := time.Now()
	for i := range mostStrangers + 400 {
		conn, err := (&net.Dialer{Timeout: time.Second}).Dial("tcp", b.member.Address())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, []string{"", "\x16\x03\x01"}[i%2])
	}
	for shard := range 10 {
		if resp, body := f.do(a, http.MethodPost, "/", keyOf(shard), "x"); resp.StatusCode != http.StatusOK {
			t.Errorf("%d %s", resp.StatusCode, body)
		}
	}
	if took := time.Since(begun); took > headerWithin {
		t.Errorf("the requests had to wait: it all took %s", took)
	}
}

// A stranger cannot have much kept in memory on the port for members: it is cut while it says hello at length.
func TestTalkativeStrangers(t *testing.T) {
	f := newFleet(t)
	a := f.start("stable", &echo{name: "a"})
	conn, err := (&net.Dialer{Timeout: time.Second}).Dial("tcp", a.member.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	record := append([]byte{22, 3, 1, 16000 >> 8, 16000 & 0xff}, make([]byte, 16000)...)
	copy(record[5:], []byte{1, 0, 0xff, 0xf0}) // a ClientHello of 64 KiB
	begun := time.Now()
	_, _ = conn.Write(record)
	_ = conn.SetReadDeadline(begun.Add(3 * headerWithin))
	_, _ = io.ReadAll(conn)
	if took := time.Since(begun); took > headerWithin/2 {
		t.Errorf("it was cut after %s", took)
	}
}

// A request too many is refused at once, and those that are open need little memory.
func TestManyOpenRequests(t *testing.T) {
	f := newFleet(t)
	f.configure = func(c *Config) { c.MostOpen = 500 }
	hold := make(chan struct{})
	app := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/.stateful/") {
			http.NotFound(w, r)
			return
		}
		<-hold
	})
	a := f.start("stable", app)
	client := h2c()
	var all sync.WaitGroup
	for range 500 {
		all.Go(func() {
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, a.entry+"/", nil)
			req.Header.Set("X-Key", "one")
			if resp, err := client.RoundTrip(req); err == nil {
				_ = resp.Body.Close()
			}
		})
	}
	f.until("all are open", func() bool { return a.metrics.Handling() == 500 })
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	t.Logf("%d goroutines and %d KiB for clients, sidecar and container with 500 requests", runtime.NumGoroutine(), memory.HeapInuse>>10)
	if resp, _ := f.do(a, http.MethodGet, "/", "one", ""); resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		t.Errorf("one too many: %d", resp.StatusCode)
	}
	close(hold)
	all.Wait()
	f.until("none is open", func() bool { return a.member.Open() == 0 && a.metrics.Handling() == 0 })
}

// Requests with many headers, be they empty, count as several, because they need as much memory.
func TestManyHeaders(t *testing.T) {
	f := newFleet(t)
	f.configure = func(c *Config) { c.MostOpen = 30 }
	hold := make(chan struct{})
	a := f.start("stable", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hold" {
			<-hold
		}
	}))
	many := ""
	for i := range 1000 {
		many += fmt.Sprintf("X-%d:\r\n", i)
	}
	conn, in := a.dial(t)
	_, _ = io.WriteString(conn, "GET /hold HTTP/1.1\r\nHost: a\r\nX-Key: one\r\n"+many+"\r\n")
	f.until("it is open", func() bool { return a.metrics.Handling() == 1 })
	if got := a.raw(t, "GET / HTTP/1.1\r\nHost: a\r\nX-Key: one\r\n"+many+"\r\n"); !strings.Contains(got, " 503 ") {
		t.Errorf("another one: %q", got)
	}
	if resp, body := f.do(a, http.MethodGet, "/", "one", ""); resp.StatusCode != http.StatusOK {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	close(hold)
	if line, err := in.ReadString('\n'); err != nil || !strings.Contains(line, " 200 ") {
		t.Errorf("%q %v", line, err)
	}
	if got := a.raw(t, "GET / HTTP/1.1\r\nHost: a\r\nX-Key: one\r\n"+many+"\r\n"); !strings.Contains(got, " 200 ") {
		t.Errorf("after that: %q", got)
	}
}

// A peer that lies about who it is, or sends nonsense, changes nothing.
func TestLyingPeer(t *testing.T) {
	f, a, b, _ := two(t)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
		InsecureSkipVerify: true, Certificates: a.member.ServerTLS().Certificates, //nolint:gosec // a test's
	}}}
	f.do(b, http.MethodGet, "/", keyOf(3), "") // b holds shard 3
	for _, body := range []string{
		``, `{`, `[]`, `{"claim":{"kind":"Key","shard":3,"from":"` + b.member.Address() + `","version":99999999999999,"move":true}}`,
		`{"claim":{"kind":"Key","shard":-1,"from":"` + a.member.Address() + `","version":1}}`, `{"activate":{"kind":"Key","shard":3}}`,
		`{"released":{"kind":"Key","shard":3,"from":"` + b.member.Address() + `","to":"x"}}`, `{"left":{"id":"someone","done":true}}`,
		`{"take":{"kind":"Other","shard":1000000000}}`, strings.Repeat(" ", 1<<20),
	} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+b.member.Address()+"/", strings.NewReader(body))
		req.Header.Set("Stateful-Protocol", "1")
		if resp, err := client.Do(req); err == nil {
			_ = resp.Body.Close()
		}
	}
	if held, err := b.member.Shards(t.Context()); err != nil || len(held) != 1 {
		t.Errorf("%v %v", held, err)
	}
	for _, forward := range []string{"", "x", "eA==", "eA== x", "= 1", strings.Repeat("a", 4000) + " 1", " 1"} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+b.member.Address()+"/", nil)
		req.Header.Set("Stateful-Forward", forward)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if _ = resp.Body.Close(); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%q: %d", forward, resp.StatusCode)
		}
	}
}
