// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func ask(t *testing.T, c *carts, path string, headers map[string]string) (int, answer) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	c.handler().ServeHTTP(w, r)
	var a answer
	if err := json.NewDecoder(w.Body).Decode(&a); err != nil {
		t.Fatal(err)
	}
	return w.Code, a
}

func with(more map[string]string) map[string]string {
	all := map[string]string{
		"Stateful-Key": "a%20b", "Stateful-Shard": "7", "Stateful-Epoch": "1795400000124", "Stateful-Entry-Revision": "cart-00001", "X-Request-Id": "r",
	}
	for name, value := range more {
		all[name] = value
	}
	return all
}

func TestTheAnswerSaysWhatBroke(t *testing.T) {
	self := place{Revision: "cart-00002", Pod: "pod"}
	c := newCarts(self, "", 0)
	status, got := ask(t, c, "/cart/a%20b?for=1ms", with(nil))
	want := answer{Request: "r", Shard: "7", Entered: place{Revision: "cart-00001"}, Outcome: "ok", Handled: self}
	if status != http.StatusOK || got != want {
		t.Errorf("%d, %+v", status, got)
	}
	for says, headers := range map[string]map[string]string{
		"the key of cart": {"Stateful-Key": "other"}, "the shard is": {"Stateful-Shard": ""},
		`is "1795400000123" after "1795400000124"`: {"Stateful-Epoch": "1795400000123"}, "the epoch of shard": {"Stateful-Epoch": ""},
	} {
		if status, got := ask(t, c, "/cart/a%20b?for=1ms", with(headers)); status != http.StatusInternalServerError || !strings.Contains(got.Outcome, says) {
			t.Errorf("%s: %d, %+v", says, status, got)
		}
	}
}
