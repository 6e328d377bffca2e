// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestOwnersHandle(t *testing.T) {
	f, a, b, echoes := two(t)
	for shard := range 20 {
		for _, entry := range []*pod{a, b} {
			want := []string{"a", "b"}[shard%2]
			resp, body := f.do(entry, http.MethodPost, "/p%2Fq/r?x=1;y&%zz", keyOf(shard), "hello")
			if resp.StatusCode != http.StatusOK || body != want+" POST /p%2Fq/r hello" || resp.Header.Get("X-Query") != "x=1;y&%zz" {
				t.Fatalf("shard %d at %s: %d %q %v", shard, entry.name, resp.StatusCode, body, resp.Header)
			}
			if resp.Header.Get("Stateful-Elsewhere") != "" {
				t.Error("a header of the sidecar reached the client")
			}
			got := echoes[shard%2].last()
			if got.Get("Stateful-Shard") != fmt.Sprint(shard) || got.Get("Stateful-Key") != keyOf(shard) || got.Get("Stateful-Epoch") == "" ||
				got.Get("Stateful-Entry-Revision") != map[*pod]string{a: "stable", b: "canary"}[entry] || got.Get("Stateful-Forward") != "" || got.Get("Expect") != "" {
				t.Errorf("the application got %v", got)
			}
		}
	}
	if resp, body := f.do(a, http.MethodGet, "/", "", ""); resp.StatusCode != http.StatusOK || body != "a GET / " {
		t.Errorf("without a key: %d %q", resp.StatusCode, body)
	}
	f.until("all requests have ended", func() bool { return a.metrics.Handling() == 0 && a.member.Open() == 0 })
	metrics := a.scrape(t)
	for _, line := range []string{
		`stateful_requests_total{entity_type="Key",entry_revision="stable",outcome="ok"} 11`,
		`stateful_requests_total{entity_type="Key",entry_revision="canary",outcome="ok"} 10`,
		`stateful_requests_forwarded_total{entity_type="Key"} 10`, `stateful_requests_without_key_total{entity_type="Key"} 1`,
		`stateful_shard_requests_total{entity_type="Key",shard="4",outcome="ok"} 2`, `stateful_shards{entity_type="Key"} 10`,
		`stateful_handled_concurrency{entity_type="Key"} 0`,
	} {
		if !strings.Contains(metrics, line+"\n") {
			t.Errorf("the metrics lack %s:\n%s", line, metrics)
		}
	}
}

func (p *pod) scrape(t *testing.T) string {
	t.Helper()
	w := httptest.NewRecorder()
	p.Management().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

// A client can neither forge what the sidecar says to the application, nor reach the application's hooks.
func TestForgedHeaders(t *testing.T) {
	f, a, b, echoes := two(t)
	for _, entry := range []*pod{a, b} {
		for _, shard := range []int{2, 3} {
			f.do(entry, http.MethodGet, "/", keyOf(shard), "", "Stateful-Shard", "7", "stateful_key", "7", "Stateful-Forward", "eA== 1",
				"Stateful-Protocol", "1", "STATEFUL-EPOCH", "99999999999999", "Stateful-Elsewhere", "1 x", "Stateful-New", "1",
				"Stateful.Epoch", "7", "stateful~shard", "7",
				"Connection", "close, Stateful-Shard, Stateful-Key, Stateful-Forward, X-Key")
			got := echoes[shard%2].last()
			if got.Get("Stateful-Shard") != fmt.Sprint(shard) || got.Get("Stateful-Key") != keyOf(shard) || len(got.Get("Stateful-Epoch")) > 13 {
				t.Errorf("the application got %v", got)
			}
			for name := range got {
				if strings.ContainsAny(name, "_.~") || name == "Stateful-New" || name == "Stateful-Protocol" {
					t.Errorf("the application got %s", name)
				}
			}
		}
	}
	for _, path := range []string{
		"/.stateful/release", "/.stateful", "/.stateful/x", "/%2Estateful/release", "//.stateful/release",
		"/x/../.stateful/release", "/./.STATEFUL/release", "/x/%2e%2e/.stateful%2Frelease",
	} {
		if resp, _ := f.do(a, http.MethodPost, path, keyOf(2), ""); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
	}
	if resp, _ := f.do(a, http.MethodGet, "/", strings.Repeat("k", 1025), ""); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("a huge key: %d", resp.StatusCode)
	}
	if resp, _ := f.do(a, http.MethodGet, "/", "k", "", "X-Huge", strings.Repeat("h", 100<<10)); resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("huge headers: %d", resp.StatusCode)
	}
}
