// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestAnswerNamesRevisionAndFailsAsOftenAsAsked(t *testing.T) {
	for name, c := range map[string]struct {
		bad  shares
		fate float64
		want int
	}{
		"never, when the share is zero": {shares{}, 0, http.StatusOK},
		"an error":                      {shares{errors: 0.5}, 0.4, http.StatusInternalServerError},
		"none above the share":          {shares{errors: 0.5}, 0.6, http.StatusOK},
		"not found":                     {shares{errors: 0.1, missing: 0.5}, 0.4, http.StatusNotFound},
		"late":                          {shares{slow: 1}, 0.4, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			w, began := httptest.NewRecorder(), time.Now()
			h := answer("app-00002", "two", c.bad, func(*http.Request) float64 { return c.fate })
			h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
			if took := time.Since(began); w.Code != c.want || took < slow && c.bad.slow > 0 {
				t.Errorf("got status %d after %s, want %d", w.Code, took, c.want)
			}
			if got := w.Body.String(); !strings.Contains(got, "app-00002") || !strings.Contains(got, "two") {
				t.Errorf("the answer does not name its Revision and version: %s", got)
			}
		})
	}
}

// A request with an id is treated alike wherever it goes, and the share of bad ones is what was asked for.
func TestFateOfAnID(t *testing.T) {
	const n = 20000
	bad := 0
	for i := range n {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Header.Set("X-Request-Id", fmt.Sprintf("request-%d", i))
		one := fate(r)
		if one != fate(r) {
			t.Fatalf("request %d has two fates", i)
		}
		if one < 0.05 {
			bad++
		}
	}
	if bad < n*4/100 || bad > n*6/100 {
		t.Errorf("%d of %d requests are bad, want 5 %%", bad, n)
	}
}

// A request that hangs ends when its client gives up.
func TestHanging(t *testing.T) {
	ctx, giveUp := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, giveUp)
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	shares{hanging: 1}.status(r, 0.5)
	if ctx.Err() == nil {
		t.Error("it ended by itself")
	}
}

func TestFailures(t *testing.T) {
	s := httptest.NewUnstartedServer(answer("r", "v", shares{}, func(*http.Request) float64 { return 1 }))
	s.Config.Protocols = &http.Protocols{}
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	get := func(path, contentType string) (status int, trailer string, err error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", contentType)
		response, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		_, err = io.ReadAll(response.Body)
		return response.StatusCode, response.Trailer.Get("Grpc-Status"), err
	}
	if status, _, err := get(pathAbort, "text/plain"); err == nil || status != http.StatusOK {
		t.Errorf("the response was not aborted: status %d", status)
	}
	if status, trailer, err := get("/", grpc); err != nil || status != http.StatusOK || trailer != "13" {
		t.Errorf("no gRPC error: %d, %q, %v", status, trailer, err)
	}
	if status, _, err := get(pathDepends, "text/plain"); err != nil || status != http.StatusServiceUnavailable {
		t.Errorf("what it needs is not away: %d, %v", status, err)
	}
	if status, _, err := get("/", "text/plain"); err != nil || status != http.StatusOK {
		t.Errorf("an ordinary request failed: %d, %v", status, err)
	}
}
