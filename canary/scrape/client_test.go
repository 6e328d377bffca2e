// SPDX-License-Identifier: Apache-2.0

package scrape

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
	"github.com/knative-cdevents/knative-cdevents/canary/scrape/limits"
)

// anywhere returns a client that may connect to a test's servers.
func anywhere() *Client {
	c := NewClient(10)
	c.check = func(Target) error { return nil }
	return c
}

func targetOf(t *testing.T, server *httptest.Server) Target {
	t.Helper()
	at, err := netip.ParseAddrPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return Target{Pod: "pod", Address: at, Path: "/metrics"}
}

func serve(t *testing.T, h http.HandlerFunc) Target {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return targetOf(t, server)
}

var small = limits.Reading{Timeout: 200 * time.Millisecond, Body: 1000, Series: 3}

func TestFailuresHaveAClass(t *testing.T) {
	t.Parallel()
	closed := httptest.NewServer(http.NotFoundHandler())
	refused := targetOf(t, closed)
	closed.Close()
	elsewhere := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") })
	text := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) } //nolint:errcheck // the client may be gone
	}
	for name, c := range map[string]struct {
		target Target
		want   Class
	}{
		"nobody listens": {refused, Refused},
		"it hangs": {serve(t, func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-time.After(5 * time.Second):
			}
		}), Timeout},
		"it hangs in the middle": {serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusOK)
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
			select {
			case <-r.Context().Done():
			case <-time.After(5 * time.Second):
			}
		}), Timeout},
		"not found": {serve(t, http.NotFound), Status},
		"a redirect": {serve(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://"+elsewhere.Address.String(), http.StatusFound)
		}), Status},
		"too long":           {serve(t, text(strings.Repeat("# a comment\n", 100))), TooLarge},
		"too long, unpacked": {serve(t, packed(strings.Repeat("# a comment\n", 10_000))), TooLarge},
		"too many series":    {serve(t, text(series(4))), TooManySeries},
		"no metrics":         {serve(t, text("hello, world")), Unparsable},
		"a page":             {serve(t, text("<!doctype html><html></html>")), Unparsable},
		"cut OpenMetrics":    {serve(t, typed(openMetrics, "stateful_requests_total 1\n")), Unparsable},
		"a body that is cut": {serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("a 1\n"))
		}), Unreachable},
		"a path that is none": {Target{Address: refused.Address, Path: "/%zz"}, BadTarget},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := anywhere().Read(t.Context(), c.target, small, NewMemory(mapping.NewReader(mapping.Neutral())))
			var f *ReadError
			if !errors.As(r.Err, &f) || f.Class != c.want {
				t.Errorf("got %v, want class %s", r.Err, c.want)
			}
			if ClassOf(r.Err) != c.want || len(r.Sources) > 0 {
				t.Errorf("class %q, sources %v", ClassOf(r.Err), r.Sources)
			}
		})
	}
}

// TestPanicIsTheTargetsError: a bug in reading what one pod exports must not end the process.
func TestPanicIsTheTargetsError(t *testing.T) {
	t.Parallel()
	target := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, series(1)) })
	broken := NewMemory(mapping.NewReader(mapping.Neutral()))
	broken.reader = nil
	r := anywhere().Read(t.Context(), target, small, broken)
	if ClassOf(r.Err) != Unparsable || !strings.Contains(r.Err.Error(), "bug") || len(r.Sources) > 0 {
		t.Errorf("got %v and %v", r.Err, r.Sources)
	}
}

// series returns n series with a meaning, and many without.
func series(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "stateful_requests_total{entity_type=\"%d\"} 1\nx{n=\"%d\"} 1\ny{n=\"%d\"} 1\n", i, i, i)
	}
	return b.String()
}

func packed(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = z.Write([]byte(body)) // the client may have read enough
		_ = z.Close()
	}
}

func typed(contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		fmt.Fprint(w, body) //nolint:errcheck // the client may be gone
	}
}

// Kamon sends no content type, but its answer is text.
func TestNoContentTypeIsText(t *testing.T) {
	t.Parallel()
	at := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = nil
		fmt.Fprint(w, series(3)) //nolint:errcheck // seen below
	})
	r := anywhere().Read(t.Context(), at, small, NewMemory(mapping.NewReader(mapping.Neutral())))
	if r.Err != nil || len(r.Sources) != 1 || len(r.Sources[0].Values) != 3 {
		t.Errorf("%v, %v", r.Err, r.Sources)
	}
}

func TestNothingOfOursIsShown(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	var conns atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name := range r.Header {
			switch name {
			case "Accept", "Accept-Encoding", "User-Agent":
			default:
				t.Errorf("header %s was sent", name)
			}
		}
		if r.URL.String() != "/metrics?name%5B%5D=a" && r.URL.String() != "/metrics?name[]=a" {
			t.Errorf("asked for %s", r.URL)
		}
		w.Header().Set("Set-Cookie", "a=b")
		fmt.Fprint(w, series(1)) //nolint:errcheck // seen below
	}))
	server.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context { conns.Add(1); return ctx }
	server.Start()
	defer server.Close()
	at := targetOf(t, server)
	at.Path = "/metrics?name[]=a"
	c := anywhere()
	for range 5 {
		if r := c.Read(t.Context(), at, small, NewMemory(mapping.NewReader(mapping.Neutral()))); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	if n := conns.Load(); n != 1 {
		t.Errorf("%d connections for one pod", n)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for address, ok := range map[string]bool{
		"10.0.0.7:9095": true, "[fd00::7]:9095": true,
		"127.0.0.1:80": false, "[::1]:80": false, "169.254.169.254:80": false, "0.0.0.0:80": false, "224.0.0.1:80": false,
		"10.0.0.7:0": false,
	} {
		err := Target{Address: netip.MustParseAddrPort(address), Path: "/"}.Check()
		if (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		}
	}
	if err := (Target{Address: netip.MustParseAddrPort("10.0.0.7:1"), Path: "http://x/"}).Check(); err == nil {
		t.Error("a URL is no path")
	}
	if r := NewClient(1).Read(t.Context(), Target{Address: netip.MustParseAddrPort("127.0.0.1:1"), Path: "/"}, small,
		NewMemory(mapping.NewReader())); ClassOf(r.Err) != BadTarget {
		t.Errorf("got %v", r.Err)
	}
}
