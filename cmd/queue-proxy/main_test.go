// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"knative.dev/pkg/network"
	"knative.dev/serving/pkg/activator"
	pkghttp "knative.dev/serving/pkg/http"
	"knative.dev/serving/pkg/http/handler"
)

// The container gets the headers that Serving's own reverse proxy gives it.
func TestHeadersAreThoseOfQueueProxy(t *testing.T) {
	var got http.Header
	container := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
	defer container.Close()
	target, err := url.Parse(container.URL)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(h http.Handler) http.Header {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://cart.shop/", nil)
		for _, name := range activator.RevisionHeaders {
			r.Header.Set(name, "x")
		}
		r.Header["X-Forwarded-For"] = []string{"10.0.0.1", "10.0.0.2"}
		r.Header.Set("X-Forwarded-Proto", "https")
		h.ServeHTTP(httptest.NewRecorder(), r)
		return got
	}
	want := ask(pkghttp.NewHeaderPruningReverseProxy(target.Host, pkghttp.NoHostOverride, activator.RevisionHeaders, false))
	// What the sidecar passes on is tested with it.
	passes := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		for name, values := range r.In.Header {
			if strings.HasPrefix(name, "X-Forwarded-") {
				r.Out.Header[name] = values
			}
		}
	}}
	if diff := cmp.Diff(want, ask(asQueueProxy(passes))); diff != "" {
		t.Error(diff)
	}
}

// An answer that takes longer than the time-out leaves nothing behind.
func TestTimeOutOfAStream(t *testing.T) {
	stream := asQueueProxy(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		time.Sleep(10 * time.Millisecond)
		panic(http.ErrAbortHandler) // as httputil.ReverseProxy does
	}))
	const limit = 50 * time.Millisecond
	server := httptest.NewServer(handler.NewTimeoutHandler(stream, "too late",
		func(*http.Request) (time.Duration, time.Duration, time.Duration) { return limit, 0, 0 }, zap.NewNop().Sugar()))
	defer server.Close()
	before := runtime.NumGoroutine()
	for range 20 {
		resp, err := http.Get(server.URL) //nolint:noctx // it ends by itself
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() >= before+20; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines after 20 requests, and %d before", runtime.NumGoroutine(), before)
		}
	}
}

// A handler that goes on after the time-out, as when another member answers late, does not end the process.
func TestHandlerAfterTheTimeOut(t *testing.T) {
	said := make(chan any, 1)
	slow := asQueueProxy(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { said <- recover() }()
		<-r.Context().Done()
		time.Sleep(100 * time.Millisecond)
		w.Header().Set("Link", "</x>")
		w.WriteHeader(http.StatusEarlyHints)
		control := http.NewResponseController(w)
		_, _, _ = control.SetReadDeadline(time.Time{}), control.SetWriteDeadline(time.Time{}), control.Flush()
	}))
	server := httptest.NewUnstartedServer(nil)
	server.Config = network.NewServer("", handler.NewTimeoutHandler(slow, "too late",
		func(*http.Request) (time.Duration, time.Duration, time.Duration) { return 50 * time.Millisecond, 0, 0 }, zap.NewNop().Sugar()))
	server.Start()
	defer server.Close()
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		protocols := new(http.Protocols)
		protocols.SetHTTP1(!http2)
		protocols.SetUnencryptedHTTP2(http2)
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		resp, err := (&http.Transport{Protocols: protocols}).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		if _ = resp.Body.Close(); resp.StatusCode != http.StatusGatewayTimeout {
			t.Errorf("%s: %d", name, resp.StatusCode)
		}
		if p := <-said; p != nil {
			t.Errorf("%s: %v", name, p)
		}
	}
}
