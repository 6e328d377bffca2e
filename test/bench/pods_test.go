// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestDuring(t *testing.T) {
	start := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		at           []int // seconds
		read, missed int
	}{
		"all":                     {[]int{-1, 14, 29, 44}, 3, 0},
		"a little late":           {[]int{-1, 16, 31, 44}, 3, 0},
		"late, and so fewer":      {[]int{-8, 7, 22, 37, 52}, 3, 0},
		"one in the middle":       {[]int{-1, 14, 44}, 2, 1},
		"not late yet at the end": {[]int{-1, 14}, 1, 1},
		"none at all":             {nil, 0, 2},
		"stopped before":          {[]int{-1}, 0, 2},
	} {
		var at []time.Time
		for _, s := range c.at {
			at = append(at, start.Add(time.Duration(s)*time.Second))
		}
		read, missed := during(at, start, start.Add(45*time.Second), 15*time.Second)
		if read != c.read || missed != c.missed {
			t.Errorf("%s: %d read, %d missed", name, read, missed)
		}
	}
}

// Pods expose the truth to every program, record the scrapes, and can be frozen.
func TestPodsRecordScrapes(t *testing.T) {
	p := &pods{ports: map[string]*port{}, began: time.Now().Add(-time.Minute)}
	at := &port{exposition: application(0), perSecond: 10, by: map[string]*readings{}}
	local := &net.TCPAddr{IP: net.IPv4(198, 18, 0, 1), Port: applicationPort}
	p.ports[local.String()] = at
	ask := func(agent, path string) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, local))
		r.Header.Set("User-Agent", agent)
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		return strings.Count(w.Body.String(), "\n")
	}
	if lines := ask("Prometheus/2.42", "/metrics"); lines < seriesEach {
		t.Errorf("%d lines", lines)
	}
	ask("Prometheus/2.42", "/else")
	p.began = p.began.Add(-time.Minute) // one minute later
	since := p.freeze()
	ask("Prometheus/2.42", "/metrics")
	ask("ours", "/metrics")
	one, all := p.exposed("Prometheus")
	if again, same := p.exposed("ours"); again != 0 || same != all || one < 590 || all < 1190 {
		t.Errorf("one program read %v of %v, the other %v of %v", one, all, again, same)
	}
	if p.least("Prometheus", time.Time{}) != 2 || p.least("ours", since) != 1 || p.least("nobody", since) != 0 {
		t.Error("the readings were not recorded")
	}
	p.thaw()
	if p.least("ours", time.Time{}) != 0 {
		t.Error("earlier readings were not deleted")
	}
}

func TestPodAddresses(t *testing.T) {
	seen := map[string]bool{}
	for pod := range whole.Targets / 2 {
		seen[podAddress(pod)] = true
	}
	if len(seen) != whole.Targets/2 || !seen["198.18.0.1"] || !seen["198.18.1.250"] {
		t.Errorf("%d addresses", len(seen))
	}
}
