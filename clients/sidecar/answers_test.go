// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/clients/sidecar/key"
)

// What the sidecars say to each other reaches no client: neither in trailers, nor in early hints.
func TestReservedNamesInAnswers(t *testing.T) {
	f := newFleet(t)
	app := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/.stateful") {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Stateful-Elsewhere", "1 hint")
		w.Header().Set("Link", "x")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Trailer", "Stateful-Announced, X-Fine")
		w.WriteHeader(http.StatusMisdirectedRequest)
		_, _ = io.WriteString(w, "body")
		_ = http.NewResponseController(w).Flush()
		w.Header().Set("Stateful-Announced", "1")
		w.Header().Set("X-Fine", "1")
		w.Header().Set(http.TrailerPrefix+"Stateful-Other", "1")
	})
	a, b := f.start("stable", app), f.start("canary", app)
	f.together(2)
	f.enforce(func(s int) *pod { return []*pod{a, b}[s%2] })
	for _, shard := range []int{2, 3} {
		for _, version := range []string{"1.1", "2"} {
			if version == "1.1" {
				got := a.raw(t, "GET / HTTP/1.1\r\nHost: a\r\nX-Key: "+keyOf(shard)+"\r\nTE: trailers\r\n\r\n")
				if strings.Contains(got, "Stateful-") || !strings.Contains(got, "421") || !strings.Contains(got, "103 Early") {
					t.Errorf("shard %d: %q", shard, got)
				}
				continue
			}
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, a.entry+"/", nil)
			req.Header.Set("X-Key", keyOf(shard))
			resp, err := h2c().RoundTrip(req)
			if err != nil {
				t.Error(err)
				continue
			}
			_, _ = io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			for name := range resp.Trailer {
				if key.Reserved(name) {
					t.Errorf("shard %d, HTTP/2: %v", shard, resp.Trailer)
				}
			}
			if resp.Trailer.Get("X-Fine") == "" {
				t.Errorf("shard %d, HTTP/2: %v", shard, resp.Trailer)
			}
		}
	}
}
