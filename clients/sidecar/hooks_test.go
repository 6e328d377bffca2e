// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/clients/sidecar/key"
)

// What an application answers to a hook that it does not have.
func TestHooksThatAreAbsent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		http2  bool
		fails  bool
		calls  int64
	}{
		"found":           {func(http.ResponseWriter, *http.Request) {}, false, false, 2},
		"not found":       {http.NotFound, false, false, 1},
		"not implemented": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotImplemented) }, false, false, 1},
		"broken":          {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, false, true, 2},
		"gRPC":            {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Grpc-Status", "12") }, true, false, 1},
		"elsewhere":       {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) }, false, true, 2},
	} {
		var calls atomic.Int64
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			calls.Add(1)
			if r.Header.Get("Stateful-Hook") == "" || r.URL.Path != acquirePath || r.Method != http.MethodPost {
				t.Errorf("%s: %s %s %v", name, r.Method, r.URL, r.Header)
			}
			c.answer(w, r)
		}))
		server.Config.Protocols = new(http.Protocols)
		server.Config.Protocols.SetHTTP1(!c.http2)
		server.Config.Protocols.SetUnencryptedHTTP2(c.http2)
		server.Start()
		h := newHooks(strings.TrimPrefix(server.URL, "http://"), "Key")
		for range 2 {
			if err := h.Acquire(t.Context(), 7, 1, 2); (err != nil) != c.fails {
				t.Errorf("%s: %v", name, err)
			}
		}
		if calls.Load() != c.calls {
			t.Errorf("%s: %d calls, want %d", name, calls.Load(), c.calls)
		}
		server.Close()
		if err := h.Acquire(t.Context(), 7, 1, 2); (err != nil) != (c.calls == 2) {
			t.Errorf("%s, after the application has ended: %v", name, err)
		}
	}
}

// The container of a shard that cannot be acquired does not get its requests; others are not disturbed.
func TestHookFails(t *testing.T) {
	f := newFleet(t)
	f.configure = func(c *Config) { c.Placement.Patience = 300 * time.Millisecond }
	var broken atomic.Bool
	var handled atomic.Int64
	broken.Store(true)
	a := f.start("stable", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/.stateful/") && broken.Load() {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		handled.Add(1)
	}))
	if resp, _ := f.do(a, http.MethodGet, "/", keyOf(2), ""); resp.StatusCode != http.StatusServiceUnavailable || handled.Load() != 0 {
		t.Errorf("%d, and %d were handled", resp.StatusCode, handled.Load())
	}
	broken.Store(false)
	if resp, _ := f.do(a, http.MethodGet, "/", keyOf(2), ""); resp.StatusCode != http.StatusOK {
		t.Errorf("once the application works: %d", resp.StatusCode)
	}
}

// The key of a CloudEvent in structured mode is in the body, which is forwarded all the same.
func TestStructuredEvent(t *testing.T) {
	f := newFleet(t)
	f.configure = func(c *Config) {
		var err error
		if c.Key, err = key.Parse("event:subject"); err != nil {
			t.Fatal(err)
		}
	}
	echoes := [2]*echo{{name: "a"}, {name: "b"}}
	a, b := f.start("stable", echoes[0]), f.start("canary", echoes[1])
	f.together(2)
	f.enforce(func(s int) *pod { return []*pod{a, b}[s%2] })
	for shard := range 4 {
		event := `{"specversion":"1.0","id":"1","source":"s","type":"t","subject":"` + keyOf(shard) + `"}`
		_, body := f.do(a, http.MethodPost, "/", "", event, "Content-Type", "application/cloudevents+json")
		if want := echoes[shard%2].name + " POST / " + event; body != want {
			t.Errorf("%q, want %q", body, want)
		}
		_, body = f.do(a, http.MethodPost, "/", "", "data", "Ce-Subject", keyOf(shard), "Ce-Id", "1")
		if want := echoes[shard%2].name + " POST / data"; body != want {
			t.Errorf("%q, want %q", body, want)
		}
	}
}

// A strict member that is cut off refuses requests, and ends those that are open.
func TestStrict(t *testing.T) {
	f := newFleet(t)
	f.configure = func(c *Config) { c.Strict, c.Placement.Lease = true, 2*time.Second }
	ended := make(chan struct{})
	a := f.start("stable", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/wait":
			<-r.Context().Done()
			close(ended)
		case "/":
		default:
			http.NotFound(w, r)
		}
	}))
	go func() {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, a.entry+"/wait", nil)
		req.Header.Set("X-Key", "one")
		if resp, err := http.DefaultClient.Do(req); err == nil {
			_ = resp.Body.Close()
		}
	}()
	f.until("a request is open", func() bool { return a.metrics.Handling() == 1 })
	f.controller.mu.Lock()
	f.controller.away = true
	f.controller.mu.Unlock()
	f.until("it refuses", func() bool {
		resp, _ := f.do(a, http.MethodGet, "/", "two", "")
		return resp.StatusCode == http.StatusServiceUnavailable
	})
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Error("what is open goes on")
	}
	f.controller.mu.Lock()
	f.controller.away = false
	f.controller.mu.Unlock()
	f.until("it goes on", func() bool {
		resp, _ := f.do(a, http.MethodGet, "/", "two", "")
		return resp.StatusCode == http.StatusOK
	})
}
