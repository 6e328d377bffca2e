// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// streams is a container with all that a Knative container may do over HTTP.
type streams struct {
	cancelled, begun atomic.Int64
}

func (s *streams) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	flush := func() { _ = http.NewResponseController(w).Flush() }
	switch r.URL.Path {
	case "/upgrade":
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer func() { _ = conn.Close() }()
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_, _ = io.Copy(conn, buffered)
		s.cancelled.Add(1)
	case "/events":
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			_, _ = fmt.Fprintf(w, "data: %d\n\n", i)
			flush()
			if r.Header.Get("X-Slow") != "" {
				time.Sleep(50 * time.Millisecond)
			}
		}
		<-r.Context().Done()
		s.cancelled.Add(1)
	case "/grpc": // each line is answered before the next one is read
		w.Header().Set("Trailer", "Grpc-Status")
		w.Header().Set("Content-Type", "application/grpc")
		_ = http.NewResponseController(w).EnableFullDuplex()
		flush()
		lines := bufio.NewScanner(r.Body)
		for lines.Scan() {
			_, _ = fmt.Fprintf(w, "%s %s\n", r.Proto, lines.Text()) //nolint:gosec // no browser
			flush()
		}
		w.Header().Set("Grpc-Status", "0")
		w.Header().Set(http.TrailerPrefix+"Unannounced", "yes")
	case "/fail": // as soon as it has a line
		w.Header().Set("Trailer", "Grpc-Status")
		w.Header().Set("Content-Type", "application/grpc")
		_, _ = bufio.NewReader(r.Body).ReadString('\n')
		flush()
		w.Header().Set("Grpc-Status", "9")
	case "/upload":
		n, err := io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprintf(w, "%d %v", n, err)
	case "/refuse":
		w.WriteHeader(http.StatusForbidden)
	case "/wait":
		_, _ = io.ReadAll(r.Body) // Go's server learns that the client has gone only after this
		s.begun.Add(1)
		<-r.Context().Done()
		s.cancelled.Add(1)
	case "/abort":
		_, _ = w.Write([]byte("some"))
		flush()
		panic(http.ErrAbortHandler)
	default:
		http.NotFound(w, r)
	}
}

// streaming runs a test with a request that is handled where it enters, and with one that is forwarded.
func streaming(t *testing.T, test func(t *testing.T, f *fleet, entry *pod, app *streams, key string)) {
	t.Helper()
	f := newFleet(t)
	apps := [2]*streams{{}, {}}
	a, b := f.start("stable", apps[0]), f.start("canary", apps[1])
	f.together(2)
	f.enforce(func(s int) *pod { return []*pod{a, b}[s%2] })
	for i, name := range []string{"Local", "Forwarded"} {
		t.Run(name, func(t *testing.T) { test(t, f, a, apps[i], keyOf(20+i)) })
	}
}

func (p *pod) dial(t *testing.T) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.entry, "http://")) //nolint:noctx // a test's
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	return conn, bufio.NewReader(conn)
}

func TestUpgrade(t *testing.T) {
	streaming(t, func(t *testing.T, f *fleet, entry *pod, app *streams, key string) {
		conn, in := entry.dial(t)
		_, _ = fmt.Fprintf(conn, "GET /upgrade HTTP/1.1\r\nHost: a\r\nX-Key: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", key)
		line, err := in.ReadString('\n')
		if err != nil || !strings.Contains(line, "101") {
			t.Fatalf("%q %v", line, err)
		}
		if _, err := textproto.NewReader(in).ReadMIMEHeader(); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			_, _ = fmt.Fprintf(conn, "ping %d\n", i)
			if line, err := in.ReadString('\n'); err != nil || line != fmt.Sprintf("ping %d\n", i) {
				t.Fatalf("%q %v", line, err)
			}
		}
		_ = conn.Close()
		f.until("the container learns that the client has gone", func() bool { return app.cancelled.Load() == 1 })
	})
}

func TestServerSentEvents(t *testing.T) {
	streaming(t, func(t *testing.T, f *fleet, entry *pod, app *streams, key string) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, entry.entry+"/events", nil)
		req.Header.Set("X-Key", key)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		in := bufio.NewReader(resp.Body)
		for i := range 3 {
			if line, err := in.ReadString('\n'); err != nil || line != fmt.Sprintf("data: %d\n", i) {
				t.Fatalf("%q %v", line, err)
			}
			_, _ = in.ReadString('\n')
		}
		cancel()
		f.until("the container learns that the client has gone", func() bool { return app.cancelled.Load() == 1 })
		for _, p := range f.pods {
			f.until("the request is counted", func() bool { return p.member.Open() == 0 })
			out := &strings.Builder{}
			p.metrics.Write(out, 0, nil)
			if strings.Contains(out.String(), `outcome="error"} 1`) || strings.Contains(out.String(), `outcome="timeout"} 1`) {
				t.Errorf("a client that ends a stream counts as an error:\n%s", out)
			}
		}
	})
}

func h2c() *http.Transport {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	return &http.Transport{Protocols: p}
}

// A call of gRPC streams both ways over HTTP/2, and ends with a trailer.
func TestGRPC(t *testing.T) {
	streaming(t, func(t *testing.T, _ *fleet, entry *pod, _ *streams, key string) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		body, out := io.Pipe()
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, entry.entry+"/grpc", body)
		req.Header.Set("X-Key", key)
		req.Header.Set("Te", "trailers")
		resp, err := h2c().RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		in := bufio.NewReader(resp.Body)
		for i := range 5 {
			_, _ = fmt.Fprintf(out, "message %d\n", i)
			if line, err := in.ReadString('\n'); err != nil || line != fmt.Sprintf("HTTP/2.0 message %d\n", i) {
				t.Fatalf("%q %v", line, err)
			}
		}
		_ = out.Close()
		if rest, err := io.ReadAll(in); err != nil || len(rest) > 0 {
			t.Errorf("%q %v", rest, err)
		}
		if resp.Trailer.Get("Grpc-Status") != "0" || resp.Trailer.Get("Unannounced") != "yes" || resp.ProtoMajor != 2 {
			t.Errorf("%s %v", resp.Proto, resp.Trailer)
		}
	})
}

// A call may fail while the client goes on to send. Neither waits for the other one.
func TestGRPCThatFails(t *testing.T) {
	streaming(t, func(t *testing.T, _ *fleet, entry *pod, _ *streams, key string) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		body, out := io.Pipe()
		defer func() { _ = out.Close() }()
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, entry.entry+"/fail", body)
		req.Header.Set("X-Key", key)
		go func() { _, _ = io.WriteString(out, "message\n") }()
		resp, err := h2c().RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) > 0 || resp.Trailer.Get("Grpc-Status") != "9" {
			t.Errorf("%q %v %v", rest, err, resp.Trailer)
		}
	})
}

// A call that fails before the client has sent anything is answered, however soon it fails.
func TestGRPCThatFailsAtOnce(t *testing.T) {
	f := newFleet(t)
	app := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status")
		_, _ = io.WriteString(w, "some")
		w.Header().Set("Grpc-Status", "16")
	})
	a, b := f.start("stable", app), f.start("canary", app)
	f.together(2)
	f.enforce(func(s int) *pod { return []*pod{a, b}[s%2] })
	client := h2c()
	call := func(key string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		body, out := io.Pipe()
		defer func() { _ = out.Close() }()
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, a.entry+"/", body)
		req.Header.Set("X-Key", key)
		resp, err := client.RoundTrip(req)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		if _, err := io.ReadAll(resp.Body); err != nil || resp.Trailer.Get("Grpc-Status") != "16" {
			return fmt.Errorf("%v: %w", resp.Trailer, err)
		}
		return nil
	}
	for _, shard := range []int{2, 3} {
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				for range 50 {
					if err := call(keyOf(shard)); err != nil {
						t.Errorf("shard %d: %v", shard, err)
					}
				}
			})
		}
		all.Wait()
	}
}

// HTTP/1.1 has trailers too.
func TestTrailersOfHTTP1(t *testing.T) {
	streaming(t, func(t *testing.T, _ *fleet, entry *pod, _ *streams, key string) {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, entry.entry+"/grpc", strings.NewReader("one\ntwo\n"))
		req.Header.Set("X-Key", key)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		got, err := io.ReadAll(resp.Body)
		if err != nil || string(got) != "HTTP/1.1 one\nHTTP/1.1 two\n" || resp.Trailer.Get("Grpc-Status") != "0" {
			t.Errorf("%q %v %v", got, err, resp.Trailer)
		}
	})
}

// An upload is not kept in memory, and its sender is slowed down by the container.
func TestUpload(t *testing.T) {
	streaming(t, func(t *testing.T, _ *fleet, entry *pod, _ *streams, key string) {
		const size = 64 << 20
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, entry.entry+"/upload", io.LimitReader(rand.Reader, size))
		req.Header.Set("X-Key", key)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		if got, err := io.ReadAll(resp.Body); err != nil || string(got) != fmt.Sprintf("%d <nil>", size) {
			t.Errorf("%q %v", got, err)
		}
	})
}

// A client that expects 100 Continue sends the body only if the container reads it; one that does not never gets it.
func TestExpectContinue(t *testing.T) {
	streaming(t, func(t *testing.T, _ *fleet, entry *pod, _ *streams, key string) {
		conn, in := entry.dial(t)
		head := "POST %s HTTP/1.1\r\nHost: a\r\nX-Key: " + key + "\r\nContent-Length: 5\r\n%s\r\n"
		_, _ = fmt.Fprintf(conn, head, "/upload", "Expect: 100-continue\r\n")
		if line, err := in.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
			t.Fatalf("%q %v", line, err)
		}
		_, _ = in.ReadString('\n')
		_, _ = io.WriteString(conn, "hello")
		resp, err := http.ReadResponse(in, nil)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%v %v", resp, err)
		}
		_, _ = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		_, _ = fmt.Fprintf(conn, head+"hello", "/upload", "")
		if line, err := in.ReadString('\n'); err != nil || !strings.Contains(line, "200 OK") {
			t.Fatalf("without Expect: %q %v", line, err)
		}
		conn, in = entry.dial(t)
		_, _ = fmt.Fprintf(conn, head, "/refuse", "Expect: 100-continue\r\n")
		if line, err := in.ReadString('\n'); err != nil || !strings.Contains(line, "403") {
			t.Fatalf("%q %v", line, err)
		}
	})
}

func TestCancel(t *testing.T) {
	streaming(t, func(t *testing.T, f *fleet, entry *pod, app *streams, key string) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			req, _ := http.NewRequestWithContext(ctx, http.MethodPost, entry.entry+"/wait", strings.NewReader("body"))
			req.Header.Set("X-Key", key)
			_, err := http.DefaultClient.Do(req) //nolint:bodyclose // there is none
			done <- err
		}()
		f.until("the container has it", func() bool { return app.begun.Load() == 1 })
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		f.until("the container learns that the client has gone", func() bool { return app.cancelled.Load() == 1 })
	})
}

// A container that dies in the middle of an answer does not look as if it had ended it.
func TestAbort(t *testing.T) {
	streaming(t, func(t *testing.T, _ *fleet, entry *pod, _ *streams, key string) {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, entry.entry+"/abort", nil)
		req.Header.Set("X-Key", key)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		if _, err := io.ReadAll(resp.Body); err == nil {
			t.Error("the answer seems complete")
		}
	})
}

// A client without the key of a member is refused, whatever it sends.
func TestForgedPeers(t *testing.T) {
	f, a, b, _ := two(t)
	at := b.member.Address()
	if conn, err := net.Dial("tcp", at); err == nil { //nolint:noctx // a test's
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\nStateful-Forward: eA== 1\r\n\r\n")
		got, _ := io.ReadAll(conn)
		if strings.Contains(string(got), "200") {
			t.Errorf("without TLS: %q", got)
		}
		_ = conn.Close()
	}
	foreign := newFleet(t)
	stranger := foreign.start("stranger", &echo{name: "stranger"})
	for name, config := range map[string]*tls.Config{
		"without a certificate": {InsecureSkipVerify: true},
		"with a foreign one":    {InsecureSkipVerify: true, Certificates: stranger.member.ServerTLS().Certificates},
	} {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+at+"/", nil)
		req.Header.Set("Stateful-Forward", "eA== 1")
		if resp, err := client.Do(req); err == nil {
			t.Errorf("%s: %s", name, resp.Status)
			_ = resp.Body.Close()
		}
	}
	// A member whose pod is gone is not heard any more, even on connections that it has.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
		InsecureSkipVerify: true, Certificates: a.member.ServerTLS().Certificates, //nolint:gosec // a test's
	}}}
	send := func() int {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+at+"/", nil)
		req.Header.Set("Stateful-Forward", "a2V5LTE= 1")
		resp, err := client.Do(req)
		if err != nil {
			return 0
		}
		_, _ = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	if got := send(); got != http.StatusOK && got != http.StatusMisdirectedRequest {
		t.Errorf("a member: %d", got)
	}
	f.controller.gone(a.name)
	f.until("the list has changed", func() bool { others, _ := b.member.Group().Members.Others(); return len(others) == 0 })
	if got := send(); got == http.StatusOK || got == http.StatusMisdirectedRequest {
		t.Errorf("a member that is gone: %d", got)
	}
}
