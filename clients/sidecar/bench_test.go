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

// BenchmarkLatency shows what the sidecar adds to a request: p50/alone is the median of its time, as a ratio to that of
// the container alone in the same run.
func BenchmarkLatency(b *testing.B) {
	f := newFleet(b)
	app := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/.stateful") {
			http.NotFound(w, r)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "hello")
	})
	stable, canary := f.start("stable", app), f.start("canary", app)
	f.together(2)
	f.enforce(func(s int) *pod { return []*pod{stable, canary}[s%2] })
	client := &http.Client{Transport: &http.Transport{}}
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		var alone time.Duration
		for _, to := range []struct{ name, url, key string }{
			{"alone", "http://" + stable.config.PodIP + ":8080/", ""},
			{"local", stable.entry + "/", keyOf(2)},
			{"forwarded", stable.entry + "/", keyOf(3)},
		} {
			b.Run(method+"/"+to.name, func(b *testing.B) {
				var took []time.Duration
				for b.Loop() {
					took = append(took, exchange(b, client, method, to.url, to.key))
				}
				slices.Sort(took)
				median := took[len(took)/2]
				if to.name == "alone" {
					alone = median
				}
				b.ReportMetric(float64(median)/float64(alone), "p50/alone")
			})
		}
	}
}

// exchange sends a request and returns how long it took.
func exchange(b *testing.B, client *http.Client, method, url, key string) time.Duration {
	b.Helper()
	var body io.Reader
	if method == http.MethodPost {
		body = strings.NewReader("body")
	}
	req, err := http.NewRequestWithContext(b.Context(), method, url, body)
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("X-Key", key)
	begun := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // the answer was read
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		b.Fatal(resp.Status, err)
	}
	return time.Since(begun)
}
