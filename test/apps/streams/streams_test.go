// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/clients/sidecar"
	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// controller registers two members, and places shards evenly.
type controller struct {
	mu      sync.Mutex
	peers   []map[string]any
	changed chan struct{}
}

func (c *controller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	if r.Method == http.MethodPut {
		var one map[string]any
		if err := json.NewDecoder(r.Body).Decode(&one); err != nil {
			panic(err)
		}
		one["pod"], one["revision"] = fmt.Sprintf("pod-%d", len(c.peers)), "cart-00001"
		c.peers = append(c.peers, one)
		close(c.changed)
		c.changed = make(chan struct{})
	}
	version, changed := 1000+len(c.peers), c.changed
	plan, err := json.Marshal(map[string]any{
		"namespace": "shop", "service": "cart", "version": version, "mode": "observe", "atOnce": 10, "peers": c.peers,
	})
	c.mu.Unlock()
	if err != nil {
		panic(err)
	}
	if r.Header.Get("If-None-Match") == strconv.Quote(strconv.Itoa(version)) {
		select {
		case <-changed:
			c.ServeHTTP(w, r)
		case <-r.Context().Done():
		case <-time.After(time.Second):
			w.WriteHeader(http.StatusNotModified)
		}
		return
	}
	_, _ = w.Write(plan)
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// application runs the program in one pod, and returns its port.
func application(t *testing.T, pod string, grpc bool) int {
	t.Helper()
	s := newStreams(pod)
	if grpc {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		server := s.server()
		go func() { _ = server.Serve(l) }()
		t.Cleanup(server.Stop)
		return l.Addr().(*net.TCPAddr).Port //nolint:errcheck // it listens
	}
	server := httptest.NewServer(s.handler())
	t.Cleanup(server.Close)
	return server.Listener.Addr().(*net.TCPAddr).Port //nolint:errcheck // it listens
}

// cluster starts two pods, and returns where requests enter at the first one.
func cluster(t *testing.T, grpc bool) string {
	t.Helper()
	plans := httptest.NewServer(&controller{changed: make(chan struct{})})
	t.Cleanup(plans.Close)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("token"), 0o600); err != nil {
		t.Fatal(err)
	}
	entry, first := "", ""
	for i := range 2 {
		port, management := freePort(t), freePort(t)
		config, err := sidecar.FromEnvironment([]string{
			"STATEFUL_KEY=header:X-Key", "STATEFUL_POD_IP=127.0.0.1", "STATEFUL_NAMESPACE=shop", "STATEFUL_SERVICE=cart",
			"STATEFUL_CONTROLLER_URL=" + plans.URL, "STATEFUL_TOKEN_FILE=" + token,
			fmt.Sprint("STATEFUL_APPLICATION_PORT=", application(t, fmt.Sprintf("pod-%d", i), grpc)),
			fmt.Sprint("STATEFUL_PORT=", port), fmt.Sprint("STATEFUL_MANAGEMENT_PORT=", management),
			fmt.Sprint("STATEFUL_PEER_PORT=", freePort(t)),
		})
		if err != nil {
			t.Fatal(err)
		}
		one, err := sidecar.New(config, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
		ended := make(chan error, 1)
		go func() { ended <- one.Run(ctx) }()
		t.Cleanup(func() {
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
		at := fmt.Sprintf("http://127.0.0.1:%d/", management)
		says(t, at+"readyz", 0)
		if i == 0 {
			entry, first = fmt.Sprintf("127.0.0.1:%d", port), at
		}
	}
	says(t, first+"cluster/members", 2)
	return entry
}

// says waits until a sidecar says that it is ready, or how many members it knows.
func says(t *testing.T, url string, members int) {
	t.Helper()
	err := kit.Wait(t.Context(), 20*time.Second, "a member", func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return kit.NotYet("%v", err)
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		if n := strings.Count(string(body), `"Up"`); err != nil || resp.StatusCode != http.StatusOK || n < members {
			return kit.NotYet("it answers %s %s", resp.Status, body)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// owners returns a key of each pod.
func owners(t *testing.T, state func(ctx context.Context, key, id string) (kit.Seen, error)) map[string]string {
	t.Helper()
	keys := map[string]string{}
	for i := range 20 {
		key := fmt.Sprintf("key-%d", i)
		seen, err := state(t.Context(), key, "none")
		if err != nil || seen.Key != key || seen.Shard == "" {
			t.Fatalf("%+v, %v", seen, err)
		}
		keys[seen.Pod] = key
	}
	if len(keys) != 2 {
		t.Fatalf("one pod has all keys: %v", keys)
	}
	return keys
}

// Each kind of stream is handled where it enters, and forwarded.
func TestThroughTheSidecar(t *testing.T) {
	s := kit.NewStreams(cluster(t, false), "streams.example.com")
	for pod, key := range owners(t, s.State) {
		t.Run(pod, func(t *testing.T) {
			ctx := t.Context()
			id := func(what string) string { return what + "-" + key }
			for what, err := range map[string]error{
				"WebSocket": s.WebSocket(ctx, key, id("echo"), 5), "events": s.Events(ctx, key, id("events"), 5),
				"upload": s.Upload(ctx, key, id("upload"), 16<<20), "expect": s.Expect(ctx, key, id("expect")),
				"cancel": s.Cancel(ctx, key, id("cancel")),
			} {
				if err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
			if asked, err := s.Refused(ctx, key); asked || err != nil {
				t.Errorf("refused: %v, %v", asked, err)
			}
		})
	}
}

func TestCallsThroughTheSidecar(t *testing.T) {
	c, err := kit.NewCalls(cluster(t, true), "streams.example.com")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	for pod, key := range owners(t, c.State) {
		t.Run(pod, func(t *testing.T) {
			ctx := t.Context()
			id := func(what string) string { return what + "-" + key }
			if got, err := c.Both(ctx, key, id("both"), 5); err != nil || got != pod {
				t.Errorf("both: %q, %v", got, err)
			}
			for what, err := range map[string]error{
				"fails": c.Fails(ctx, key, id("fails"), false), "early": c.Fails(ctx, key, id("early"), true),
				"cancel":   c.Cancel(ctx, key, id("cancel")),
				"deadline": c.Deadline(ctx, key, id("deadline")),
			} {
				if err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
		})
	}
}

// The clients notice what a proxy may do wrong.
func TestClientsNotice(t *testing.T) {
	app := newStreams("pod")
	wrong := func(change func(w http.ResponseWriter, r *http.Request) bool) *kit.Streams {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Header.Set("Stateful-Key", r.Header.Get("X-Key"))
			if !change(w, r) {
				app.handler().ServeHTTP(w, r)
			}
		}))
		t.Cleanup(server.Close)
		return kit.NewStreams(strings.TrimPrefix(server.URL, "http://"), "streams.example.com")
	}
	ctx := t.Context()
	garbled := wrong(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut {
			answer(w, uploaded{Bytes: 2 << 20, SHA256: "other"})
			return true
		}
		return false
	})
	if err := garbled.Upload(ctx, "key", "garbled", 2<<20); err == nil {
		t.Error("another upload came, and this was not noticed")
	}
	if err := garbled.Expect(ctx, "key", "expect"); err == nil {
		t.Error("the body was not asked for, and this was not noticed")
	}
	refused := wrong(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusBadGateway); return true })
	if err := refused.WebSocket(ctx, "key", "refused", 1); err == nil {
		t.Error("there was no WebSocket, and this was not noticed")
	}
	if err := refused.Events(ctx, "key", "refused", 1); err == nil {
		t.Error("there were no events, and this was not noticed")
	}
}
