// SPDX-License-Identifier: Apache-2.0

package doorbell

import (
	"context"
	"encoding/pem"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// An API server ends HTTP/2 connections with GOAWAY, so that clients spread, and load balancers close them. However often
// that happens, there is a connection for the next request.
func TestConnectionsThatEnd(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch rand.N(4) {
		case 0:
			w.Header().Set("Connection", "close")
		case 1:
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write([]byte("{}"))
		_ = http.NewResponseController(w).Flush() // the client may have gone
		select {
		case <-time.After(rand.N(20 * time.Millisecond)):
		case <-r.Context().Done():
		}
	}))
	server.EnableHTTP2 = true
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.StartTLS()
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := newClient(Access{URL: server.URL, CAFile: ca}, 5)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 100 {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				r, _ := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
				began := time.Now()
				response, err := c.do(r)
				if err == nil {
					_, _ = io.Copy(io.Discard, response.Body)
					_ = response.Body.Close()
				}
				cancel()
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("request %d takes %s: %v", i, took, err)
					return
				}
			}
		})
		if rand.N(3) == 0 {
			go server.CloseClientConnections()
		}
	}
	all.Wait()
}
