// SPDX-License-Identifier: Apache-2.0

package web

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestAnswerNamesRevisionAndFailsAsOftenAsAsked(t *testing.T) {
	for name, c := range map[string]struct {
		rate, chance float64
		want         int
	}{
		"never, when the rate is zero": {0, 0, http.StatusOK},
		"below the rate":               {0.5, 0.4, http.StatusInternalServerError},
		"above the rate":               {0.5, 0.6, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			h := answer("app-00002", "two", c.rate, func() float64 { return c.chance })
			h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
			if w.Code != c.want {
				t.Errorf("got status %d, want %d", w.Code, c.want)
			}
			if got := w.Body.String(); !strings.Contains(got, "app-00002") || !strings.Contains(got, "two") {
				t.Errorf("the answer does not name its Revision and version: %s", got)
			}
		})
	}
}

func TestFailures(t *testing.T) {
	s := httptest.NewUnstartedServer(answer("r", "v", 0, func() float64 { return 1 }))
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
	if status, _, err := get("/", "text/plain"); err != nil || status != http.StatusOK {
		t.Errorf("an ordinary request failed: %d, %v", status, err)
	}
}
