// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"knative.dev/serving/pkg/activator"
	pkghttp "knative.dev/serving/pkg/http"
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
