// SPDX-License-Identifier: Apache-2.0

package scrape

import (
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
)

// client_golang's output gives the same result in both formats.
func TestParseWhatClientGolangExposes(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	finished := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "stateful_requests_total", Help: "h"},
		[]string{"entity_type", "outcome", "cluster"})
	took := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "stateful_request_duration_seconds", Help: "h", Buckets: []float64{.5, 1}, NativeHistogramBucketFactor: 1.1,
	}, []string{"entity_type"})
	shards := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "stateful_shards", Help: "h"}, []string{"entity_type"})
	registry.MustRegister(finished, took, shards)
	finished.WithLabelValues("Cart", "ok", "a").Add(3)
	finished.WithLabelValues("Cart", "ok", "b").Add(4)
	finished.WithLabelValues("Cart", "error", "a").Inc()
	took.WithLabelValues("Cart").Observe(.25)
	took.WithLabelValues("Cart").Observe(2)
	shards.WithLabelValues("Cart").Set(34)
	want := map[mapping.Key]float64{
		{Figure: mapping.Finished, Entity: "Cart", Outcome: mapping.OK}:    7,
		{Figure: mapping.Finished, Entity: "Cart", Outcome: mapping.Error}: 1,
		{Figure: mapping.Duration, Entity: "Cart", Bound: .5}:              1,
		{Figure: mapping.Duration, Entity: "Cart", Bound: 1}:               1,
		{Figure: mapping.Duration, Entity: "Cart", Bound: math.Inf(1)}:     2,
		{Figure: mapping.DurationSum, Entity: "Cart"}:                      2.25,
		{Figure: mapping.Shards, Entity: "Cart"}:                           34,
	}
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	defer server.Close()
	for accepted, kind := range map[string]string{"text/plain;version=0.0.4": "text/plain", accept: openMetrics} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", accepted)
		resp, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Fatal(err)
		}
		if got := resp.Header.Get("Content-Type"); !strings.HasPrefix(got, kind) {
			t.Fatalf("asked for %s, got %s", kind, got)
		}
		e, err := Parse(body, resp.Header.Get("Content-Type"), mapping.NewReader(mapping.Neutral()), 100)
		if err != nil {
			t.Fatal(err)
		}
		if e.Start < 1e9 || e.Rejected != 0 || len(e.Sources) != 1 || e.Sources[0].Name != mapping.NeutralName {
			t.Fatalf("%s: %+v", kind, e)
		}
		if diff := cmp.Diff(want, e.Sources[0].Values); diff != "" {
			t.Errorf("%s: %s", kind, diff)
		}
	}
}

// One bad summand makes only its own sum unknown.
func TestParseOmitsInvalidCounts(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"NaN", "-1", "+Inf", "-Inf", "1.7e308", "1e19"} {
		e, err := Parse([]byte("stateful_requests_total{outcome=\"ok\",cluster=\"a\"} 3\n"+
			"stateful_requests_total{outcome=\"ok\",cluster=\"b\"} "+bad+"\n"+
			"stateful_requests_total{outcome=\"error\"} 2\n"+
			"other NaN\n"), "", mapping.NewReader(mapping.Neutral()), 10)
		if err != nil {
			t.Fatal(err)
		}
		want := map[mapping.Key]float64{{Figure: mapping.Finished, Outcome: mapping.Error}: 2}
		if diff := cmp.Diff(want, e.Sources[0].Values); diff != "" || e.Rejected != 1 {
			t.Errorf("%s: %d rejected, %s", bad, e.Rejected, diff)
		}
	}
}

// Series that no mapping names cost no memory and do not count against the limit.
func TestParsePassesOverTheRest(t *testing.T) {
	body := []byte(strings.Repeat("jvm_memory_bytes{area=\"heap\",pool=\"eden\"} 1\n", 20_000) +
		"stateful_requests_total{outcome=\"ok\"} 3\n")
	reader := mapping.NewReader(mapping.Neutral())
	allocated := testing.AllocsPerRun(3, func() {
		if e, err := Parse(body, "", reader, 1); err != nil || len(e.Sources) != 1 {
			t.Error(err)
		}
	})
	if allocated > 200 {
		t.Errorf("%.0f allocations for 20,000 series that mean nothing", allocated)
	}
}
