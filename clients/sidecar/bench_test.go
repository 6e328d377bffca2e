// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestLatency logs how long a request takes: to the container alone, handled where it entered, and forwarded.
func TestLatency(t *testing.T) {
	f := newFleet(t)
	app := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/.stateful") {
			http.NotFound(w, r)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "hello")
	})
	a, b := f.start("stable", app), f.start("canary", app)
	f.together(2)
	f.enforce(func(s int) *pod { return []*pod{a, b}[s%2] })
	client := &http.Client{Transport: &http.Transport{}}
	alone := "http://" + a.config.PodIP + ":8080"
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		for _, to := range [][3]string{{"alone", alone, ""}, {"local", a.entry, keyOf(2)}, {"forwarded", a.entry, keyOf(3)}} {
			var took []time.Duration
			for range 300 {
				var body io.Reader
				if method == http.MethodPost {
					body = strings.NewReader("body")
				}
				req, _ := http.NewRequestWithContext(t.Context(), method, to[1]+"/", body)
				req.Header.Set("X-Key", to[2])
				begun := time.Now()
				resp, err := client.Do(req)
				if err != nil || resp.StatusCode != http.StatusOK {
					t.Fatal(resp, err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				took = append(took, time.Since(begun))
			}
			slices.Sort(took)
			t.Logf("%-4s %-9s p50 %s p99 %s", method, to[0], took[150], took[297])
		}
	}
}
