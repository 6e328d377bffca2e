// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestSink(t *testing.T) {
	s := &sink{}
	post := func(body string) int {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body))
		r.Header.Set("Ce-Type", "a.type")
		s.ServeHTTP(w, r)
		return w.Code
	}

	s.behave(20 * time.Millisecond)
	began := time.Now()
	if got := post("one"); got != http.StatusAccepted {
		t.Errorf("got %d", got)
	}
	if took := time.Since(began); took < 20*time.Millisecond {
		t.Errorf("answered after %v", took)
	}
	if all := s.since(0); len(all) != 1 || string(all[0].Body) != "one" || all[0].Type != "a.type" ||
		all[0].At.Sub(began) > 10*time.Millisecond {
		t.Errorf("got %+v", all)
	}

	s.fail(true)
	if got := post("two"); got != http.StatusServiceUnavailable {
		t.Errorf("broken: got %d", got)
	}
	s.fail(false)
	post("three")
	if taken, refused := s.counts(); taken != 2 || refused != 1 {
		t.Errorf("taken %d, refused %d", taken, refused)
	}
	if tail := s.since(1); len(tail) != 1 || string(tail[0].Body) != "three" {
		t.Errorf("since the first: %+v", tail)
	}
	s.behave(0)
	if len(s.since(0)) != 0 || len(s.since(5)) != 0 || s.quiet() > time.Second {
		t.Error("earlier requests were not deleted")
	}
}
