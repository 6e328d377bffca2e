// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/clients/placement"
)

// What is answered does not depend on where a request enters.
func TestLargeHeaders(t *testing.T) {
	f := newFleet(t)
	app := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/.stateful") {
			http.NotFound(w, r)
			return
		}
		if r.URL.Path == "/answer" {
			w.Header().Set("X-Large", strings.Repeat("x", 200<<10))
		}
	})
	a, b := f.start("stable", app), f.start("canary", app)
	f.together(2)
	f.enforce(func(s int) *pod { return []*pod{a, b}[s%2] })
	for _, shard := range []int{2, 3} {
		if resp, body := f.do(a, http.MethodGet, "/answer", keyOf(shard), ""); resp.StatusCode != http.StatusOK {
			t.Errorf("an answer with 200 KiB of headers, shard %d: %d %s", shard, resp.StatusCode, body)
		}
	}
	var long [2]string // keys of two shards, one here and one there
	for n := 0; long[0] == "" || long[1] == ""; n++ {
		k := fmt.Sprintf("%s%d", strings.Repeat("k", 1000), n)
		long[placement.ShardOf(k, 100)%2] = k
	}
	client := h2c()
	over2 := func(key, large string) int {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, a.entry+"/", nil)
		req.Header.Set("X-Key", key)
		req.Header.Set("X-Large", large)
		resp, err := client.RoundTrip(req)
		if err != nil {
			return 0 // it knows the limit
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	for size := 60 << 10; size < 72<<10; size += 256 {
		var got [4]int
		large := strings.Repeat("x", size)
		for i := range 2 {
			resp, _ := f.do(a, http.MethodGet, "/", long[i], "", "X-Large", large)
			got[i], got[2+i] = resp.StatusCode, over2(long[i], large)
		}
		if got[0] != got[1] || got[2] != got[3] {
			t.Errorf("a request with %d bytes of headers: %v", size, got)
			break
		}
	}
}

// Queue-proxy accepts larger headers than the sidecar. If it is a part of queue-proxy, members do so, too.
func TestLargeHeadersThroughQueueProxy(t *testing.T) {
	f := newFleet(t)
	f.configure = func(c *Config) { c.Embedded = true }
	a, b := f.start("stable", &echo{name: "a"}), f.start("canary", &echo{name: "b"})
	f.together(2)
	f.enforce(func(s int) *pod { return []*pod{a, b}[s%2] })
	queueProxy := httptest.NewServer(a.Entry())
	t.Cleanup(queueProxy.Close)
	a.entry = queueProxy.URL
	for _, size := range []int{100 << 10, 1000 << 10} {
		for _, shard := range []int{2, 3} {
			if resp, _ := f.do(a, http.MethodGet, "/", keyOf(shard), "", "X-Large", strings.Repeat("x", size)); resp.StatusCode != http.StatusOK {
				t.Errorf("%d bytes of headers, shard %d: %d", size, shard, resp.StatusCode)
			}
		}
	}
}
