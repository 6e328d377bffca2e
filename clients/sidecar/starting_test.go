// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A pod whose container does not accept connections yet gets no requests.
func TestContainerThatStarts(t *testing.T) {
	f := newFleet(t)
	f.configure = func(c *Config) { c.Placement.Patience = 2 * time.Second }
	a := f.start("stable", &echo{name: "a"})
	for shard := range 100 {
		f.do(a, http.MethodGet, "/", keyOf(shard), "")
	}
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("stable.9"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := a.config
	c.host = newHost()
	c.PodIP, c.Placement.TokenFile = c.host, token
	s, err := New(c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	defer func() { stop(); <-ended }()
	got := map[int]int{}
	for begun := time.Now(); time.Since(begun) < 4*time.Second; {
		for shard := range 100 {
			resp, _ := f.do(a, http.MethodGet, "/", keyOf(shard), "")
			got[resp.StatusCode]++
		}
	}
	if got[http.StatusOK] == 0 || len(got) > 1 {
		t.Errorf("the answers, by status: %v", got)
	}
}
