// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestEventsArePrinted(t *testing.T) {
	t.Parallel()
	binary := map[string]string{
		"Ce-Id": "1", "Ce-Source": "https://cluster.example", "Ce-Specversion": "1.0", "Ce-Type": "dev.cdevents.service.deployed.0.3.0",
		"Ce-Subject": "service/shop/cart", "Ce-Time": "2026-05-04T12:00:00.5Z", "Content-Type": "application/json",
	}
	const want = "2026-05-04T12:00:00Z dev.cdevents.service.deployed.0.3.0 service/shop/cart\n  id 1, source https://cluster.example\n  {\n    \"a\": 1\n  }\n"
	structured := `{"specversion":"1.0","id":"1","source":"https://cluster.example","type":"dev.cdevents.service.deployed.0.3.0","subject":"service/shop/cart",` +
		`"time":"2026-05-04T12:00:00.5Z","datacontenttype":"application/json","data":{"a":1}}`
	for name, c := range map[string]struct {
		method, body string
		header       map[string]string
		status       int
		printed      string
	}{
		"binary":     {http.MethodPost, `{"a":1}`, binary, http.StatusAccepted, want},
		"structured": {http.MethodPost, structured, map[string]string{"Content-Type": "application/cloudevents+json"}, http.StatusAccepted, want},
		"no event":   {http.MethodPost, `{"a":1}`, map[string]string{"Content-Type": "application/json"}, http.StatusBadRequest, ""},
		"too long":   {http.MethodPost, `"` + strings.Repeat("a", maxBody) + `"`, binary, http.StatusBadRequest, ""},
		"a probe":    {http.MethodGet, "", nil, http.StatusNoContent, ""},
	} {
		var out bytes.Buffer
		r := httptest.NewRequestWithContext(t.Context(), c.method, "/", strings.NewReader(c.body))
		for key, value := range c.header {
			r.Header.Set(key, value)
		}
		w := httptest.NewRecorder()
		(&display{out: &out}).ServeHTTP(w, r)
		if w.Code != c.status || out.String() != c.printed {
			t.Errorf("%s: %d %s, printed %q", name, w.Code, w.Body, out.String())
		}
	}
}

// What an event says is printed on a terminal, which must not obey it.
func TestControlCharactersAreEscaped(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	const body = `{"specversion":"1.0","id":"1\u001b[2J\n9","source":"/s\u202e","type":"t\r\nfaked","subject":"s\u0007","datacontenttype":"application/json","data":{"a":"` + "\u009b31m\u202e" + `"}}`
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/cloudevents+json")
	w := httptest.NewRecorder()
	(&display{out: &out}).ServeHTTP(w, r)
	if strings.ContainsAny(out.String(), "\x1b\r\a\u009b\u202e") || strings.Count(out.String(), "\n") != 5 {
		t.Errorf("status %d, printed %q", w.Code, out.String())
	}
}
