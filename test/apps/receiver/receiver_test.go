// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestRequestsAreKeptUnchanged(t *testing.T) {
	server := start(t)
	for _, body := range []string{`{"a":1}`, "", "not json \x00"} {
		if got := send(t, server, http.MethodPost, "/some/path?q=1", body); got != http.StatusAccepted {
			t.Fatalf("got status %d, want 202", got)
		}
	}

	all := requests(t, server, "")
	if len(all) != 3 {
		t.Fatalf("got %d requests, want 3", len(all))
	}
	for i, want := range []string{`{"a":1}`, "", "not json \x00"} {
		r := all[i]
		if r.Number != i+1 || string(r.Body) != want || r.Path != "/some/path?q=1" || r.Method != http.MethodPost {
			t.Errorf("request %d: got %+v, want body %q", i+1, r, want)
		}
		if r.Header.Get("Ce-Id") != "x" || r.Header.Get("Host") == "" || r.Time.IsZero() {
			t.Errorf("request %d lacks its headers or its time: %+v", i+1, r)
		}
	}
	if tail := requests(t, server, "?since=2"); len(tail) != 1 || tail[0].Number != 3 {
		t.Errorf("since=2: got %+v, want the third request", tail)
	}
	if tail := requests(t, server, "?since=99"); len(tail) != 0 {
		t.Errorf("since=99: got %+v, want none", tail)
	}
	if got := send(t, server, http.MethodGet, "/requests?since=x", ""); got != http.StatusBadRequest {
		t.Errorf("since=x: got status %d, want 400", got)
	}
}

func TestFaults(t *testing.T) {
	for name, c := range map[string]struct {
		fault string
		// response status by request; 0 is no response
		want []int
	}{
		"status, until it is removed": {`{"status":503}`, []int{503, 503, 503}},
		"status, for two requests":    {`{"status":429,"count":2}`, []int{429, 429, 202}},
		"delay alone accepts":         {`{"delay":20,"count":1}`, []int{202, 202}},
		"hang, for one request":       {`{"hang":true,"count":1}`, []int{0, 202}},
		"none":                        {`{}`, []int{202}},
	} {
		t.Run(name, func(t *testing.T) {
			server := start(t)
			if got := send(t, server, http.MethodPost, "/fault", c.fault); got != http.StatusNoContent {
				t.Fatalf("setting the fault: got status %d, want 204", got)
			}
			for i, want := range c.want {
				if got := send(t, server, http.MethodPost, "/", "event"); got != want {
					t.Errorf("request %d: got status %d, want %d", i+1, got, want)
				}
			}
			for i, r := range requests(t, server, "") {
				if r.Status != c.want[i] {
					t.Errorf("request %d: kept status %d, want %d", i+1, r.Status, c.want[i])
				}
			}
			if got := send(t, server, http.MethodPost, "/fault", "{}"); got != http.StatusNoContent {
				t.Errorf("ending the fault: got status %d, want 204", got)
			}
			if got := send(t, server, http.MethodPost, "/", "event"); got != http.StatusAccepted {
				t.Errorf("after the fault: got status %d, want 202", got)
			}
		})
	}
}

func TestInvalidFaultsAreRejected(t *testing.T) {
	server := start(t)
	for _, fault := range []string{`{"stauts":503}`, `{"status":99}`, `{"count":-1}`, `{"delay":-1}`, `nothing`} {
		if got := send(t, server, http.MethodPost, "/fault", fault); got != http.StatusBadRequest {
			t.Errorf("%s: got status %d, want 400", fault, got)
		}
	}
	if got := send(t, server, http.MethodPost, "/", "event"); got != http.StatusAccepted {
		t.Errorf("after refused faults: got status %d, want 202", got)
	}
}

func start(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(newReceiver(time.Now))
	t.Cleanup(server.Close)
	return server
}

// send returns the status, or 0 if there was no response in time.
func send(t *testing.T, server *httptest.Server, method, path, body string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, server.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Ce-Id", "x")
	resp, err := server.Client().Do(req)
	if errors.Is(err, context.DeadlineExceeded) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	return resp.StatusCode
}

func requests(t *testing.T, server *httptest.Server, query string) []Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/requests"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var all []Request
	if err := json.NewDecoder(resp.Body).Decode(&all); err != nil {
		t.Fatal(err)
	}
	return all
}
