// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// slow is the contract's limit for slow requests.
const slow = 500 * time.Millisecond

// mostEntries bounds the values of label entry_revision.
const mostEntries = 8

// counts implements this project's neutral contract: everything is counted where it was handled, after the last hop.
type counts struct {
	registry  *prometheus.Registry
	started   prometheus.Counter
	finished  *prometheus.CounterVec
	duration  prometheus.Observer
	byShard   *prometheus.CounterVec
	slowShard *prometheus.CounterVec
	shards    prometheus.Gauge
	asks      *prometheus.CounterVec

	reportEntry bool
	mu          sync.Mutex
	entries     map[string]bool
}

func newCounts(conf config) *counts {
	labels := []string{"entity_type", "outcome"}
	if conf.ReportEntry {
		labels = append(labels, "entry_revision")
	}
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	started := vec("stateful_requests_started_total", "Requests that began to be handled here.", "entity_type")
	duration := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "stateful_request_duration_seconds", Help: "Time from the start to the end of handling.",
		Buckets: prometheus.DefBuckets, // 5 ms to 10 s
	}, []string{"entity_type"})
	shards := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "stateful_shards", Help: "Shards that are active here.",
	}, []string{"entity_type"})
	c := &counts{
		registry: prometheus.NewRegistry(), reportEntry: conf.ReportEntry, entries: map[string]bool{},
		finished:  vec("stateful_requests_total", "Requests that were handled here, by outcome.", labels...),
		byShard:   vec("stateful_shard_requests_total", "Requests that were handled here, by shard and outcome.", "entity_type", "shard", "outcome"),
		slowShard: vec("stateful_shard_slow_requests_total", "Requests that took more than 0.5 s here, by shard.", "entity_type", "shard"),
		asks:      vec("stateful_asks_total", "Requests that entered here, by what became of their first attempt.", "entity_type", "outcome"),
		started:   started.WithLabelValues(entityType),
		duration:  duration.WithLabelValues(entityType),
		shards:    shards.WithLabelValues(entityType),
	}
	c.registry.MustRegister(started, c.finished, duration, c.byShard, c.slowShard, shards, c.asks)
	return c
}

func (c *counts) start() { c.started.Inc() }

// asked counts a request that entered here, as the client library for Pekko does.
func (c *counts) asked(attempts int, answered bool) {
	outcome := "answered"
	switch {
	case !answered:
		outcome = "given_up"
	case attempts > 1:
		outcome = "answered_after_retry"
	}
	c.asks.WithLabelValues(entityType, outcome).Inc()
}

func (c *counts) finish(a answer, took time.Duration) {
	labels := []string{entityType, a.Outcome}
	if c.reportEntry {
		labels = append(labels, c.bounded(a.Entered.Revision))
	}
	number := strconv.Itoa(a.Shard)
	c.finished.WithLabelValues(labels...).Inc()
	c.byShard.WithLabelValues(entityType, number, a.Outcome).Inc()
	c.duration.Observe(took.Seconds())
	if took > slow {
		c.slowShard.WithLabelValues(entityType, number).Inc()
	}
}

// bounded limits the number of series as more Revisions appear.
func (c *counts) bounded(revision string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.entries[revision] && len(c.entries) == mostEntries {
		return "other"
	}
	c.entries[revision] = true
	return revision
}

// handler serves the metrics, the member list, where shards are if the placement knows, and a way to crash: the
// container is then restarted in the same pod, and its counters start at zero.
func (c *counts) handler(m *member, crash func()) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(c.registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	mux.HandleFunc("GET /members", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(m.view()) // ignore a client that has disconnected
	})
	if m.placement != nil {
		mux.Handle("GET /cluster/", m.placement.Handler())
		mux.Handle("GET /placement", m.placement.Handler())
	}
	mux.HandleFunc("POST /crash", func(http.ResponseWriter, *http.Request) { crash() })
	return mux
}
