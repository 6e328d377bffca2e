// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

var (
	outcomes = [...]string{"ok", "error", "timeout"}
	// buckets are those that the neutral contract asks for, in seconds.
	buckets = [...]float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
)

const (
	ok = iota
	failed
	timedOut
	// slow is what the neutral contract counts as slow.
	slow = 500 * time.Millisecond
	// nearly is the last part of the request time-out that is as good as all of it: queue-proxy's began before.
	nearly = 10
	// mostRevisions limits the values of a label. All of them come from the controller.
	mostRevisions = 100
)

// Metrics are what a member has done, in the neutral contract of knative-cdevents.
type Metrics struct {
	kind string
	// began is when the process did, nearly.
	began time.Time

	started, keyless, forwarded, waited atomic.Int64
	handling                            atomic.Int64

	mu      sync.Mutex
	refuses map[string]int64
	// byEntry counts what was finished, by the Revision where it entered.
	byEntry map[string]*[len(outcomes)]int64
	byShard [][len(outcomes)]int64
	slow    []int64
	seconds [len(buckets) + 1]int64
	sum     float64
}

// NewMetrics returns metrics of an entity type with a number of shards.
func NewMetrics(kind string, shards int) *Metrics {
	return &Metrics{
		kind: kind, began: time.Now(), refuses: map[string]int64{}, byEntry: map[string]*[len(outcomes)]int64{},
		byShard: make([][len(outcomes)]int64, shards), slow: make([]int64, shards),
	}
}

func (m *Metrics) refused(why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refuses[why]++
}

// Handling returns how many requests the container handles now, wherever they entered.
func (m *Metrics) Handling() int64 { return m.handling.Load() }

// finished counts a request that the container has handled, and that may take a time at most. It is not complete if the
// client or the container ended it early.
func (m *Metrics) finished(s *request, w *recorder, r *http.Request, complete bool, most time.Duration) {
	took := time.Since(s.begun)
	outcome := outcomeOf(w, r, complete, took < most-most/nearly)
	m.mu.Lock()
	defer m.mu.Unlock()
	from := cmp.Or(s.from, "other")
	if m.byEntry[from] == nil && len(m.byEntry) >= mostRevisions {
		from = "other"
	}
	if m.byEntry[from] == nil {
		m.byEntry[from] = &[len(outcomes)]int64{}
	}
	m.byEntry[from][outcome]++
	if s.shard >= 0 {
		m.byShard[s.shard][outcome]++
		if took > slow {
			m.slow[s.shard]++
		}
	}
	m.seconds[sort.SearchFloat64s(buckets[:], took.Seconds())]++
	m.sum += took.Seconds()
}

// outcomeOf says how a request ended. Only a client can have ended one early that was not complete.
func outcomeOf(w *recorder, r *http.Request, complete, early bool) int {
	grpc := cmp.Or(w.Header().Get("Grpc-Status"), w.Header().Get(http.TrailerPrefix+"Grpc-Status"))
	switch {
	case w.status == http.StatusSwitchingProtocols:
		return ok // however the connection ends
	case w.status == http.StatusGatewayTimeout, grpc == "4":
		return timedOut
	case !complete || w.status >= http.StatusInternalServerError:
		gone := r.Context().Err() != nil // the client, or queue-proxy, did not wait any longer
		switch {
		case gone && early && w.status > 0 && w.status < http.StatusInternalServerError && w.Header().Get("Content-Length") == "":
			return ok // as a browser that leaves a page ends its stream of events
		case gone:
			return timedOut
		}
		return failed
	case grpc == "2", grpc == "12", grpc == "13", grpc == "14", grpc == "15":
		return failed // UNKNOWN, UNIMPLEMENTED, INTERNAL, UNAVAILABLE, DATA_LOSS
	}
	return ok
}

// Write writes the metrics in the text format of Prometheus. Shards is how many the member holds.
func (m *Metrics) Write(out io.Writer, shards int, age *float64) {
	// Who reads slowly must not hold what each request needs at its end, nor much memory. A client that has disconnected
	// is ignored.
	_, _ = io.WriteString(out, m.text(shards, age))
	kind := fmt.Sprintf("entity_type=%q", m.kind)
	m.writeShards(out, "stateful_shard_requests_total", "Requests that the container finished, by shard.",
		func(b *strings.Builder, s int) {
			for o, n := range m.byShard[s] {
				if n > 0 {
					fmt.Fprintf(b, "stateful_shard_requests_total{%s,shard=\"%d\",outcome=%q} %d\n", kind, s, outcomes[o], n)
				}
			}
		})
	m.writeShards(out, "stateful_shard_slow_requests_total", "Requests that took longer than 0.5 s, by shard.",
		func(b *strings.Builder, s int) {
			if n := m.slow[s]; n > 0 {
				fmt.Fprintf(b, "stateful_shard_slow_requests_total{%s,shard=\"%d\"} %d\n", kind, s, n)
			}
		})
}

// writeShards writes a counter of each shard, of which there may be many.
func (m *Metrics) writeShards(out io.Writer, name, help string, write func(*strings.Builder, int)) {
	b := &strings.Builder{}
	fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s counter\n", name, help, name)
	for s := 0; s < len(m.slow); {
		m.mu.Lock()
		for ; s < len(m.slow) && b.Len() < 32<<10; s++ {
			write(b, s)
		}
		m.mu.Unlock()
		if _, err := io.WriteString(out, b.String()); err != nil {
			return
		}
		b.Reset()
	}
}

func (m *Metrics) text(shards int, age *float64) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := &strings.Builder{}
	kind := fmt.Sprintf("entity_type=%q", m.kind)
	line := func(name, labels string, value any) { fmt.Fprintf(b, "%s{%s} %v\n", name, labels, value) }
	family := func(name, how, help string) { fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, how) }
	family("process_start_time_seconds", "gauge", "When the process began, in seconds since 1970.")
	fmt.Fprintf(b, "process_start_time_seconds %.3f\n", float64(m.began.UnixMilli())/1000)
	family("stateful_requests_started_total", "counter", "Requests that the container began to handle.")
	line("stateful_requests_started_total", kind, m.started.Load())
	family("stateful_requests_total", "counter", "Requests that the container finished, by the Revision where they entered.")
	for _, from := range slices.Sorted(maps.Keys(m.byEntry)) {
		for o, n := range m.byEntry[from] {
			line("stateful_requests_total", fmt.Sprintf("%s,entry_revision=%q,outcome=%q", kind, from, outcomes[o]), n)
		}
	}
	family("stateful_request_duration_seconds", "histogram", "Time of the requests that the container finished.")
	count := int64(0)
	for i, limit := range buckets {
		count += m.seconds[i]
		line("stateful_request_duration_seconds_bucket", fmt.Sprintf("%s,le=\"%v\"", kind, limit), count)
	}
	count += m.seconds[len(buckets)]
	line("stateful_request_duration_seconds_bucket", kind+`,le="+Inf"`, count)
	line("stateful_request_duration_seconds_sum", kind, m.sum)
	line("stateful_request_duration_seconds_count", kind, count)
	family("stateful_shards", "gauge", "Shards that this pod holds.")
	line("stateful_shards", kind, shards)
	family("stateful_handled_concurrency", "gauge", "Requests that the container handles now, wherever they entered.")
	line("stateful_handled_concurrency", kind, m.handling.Load())
	if age != nil {
		family("stateful_placement_plan_age_seconds", "gauge", "Time since the controller confirmed the plan.")
		line("stateful_placement_plan_age_seconds", kind, *age)
	}
	family("stateful_requests_without_key_total", "counter", "Requests that were handled where they entered.")
	line("stateful_requests_without_key_total", kind, m.keyless.Load())
	family("stateful_requests_forwarded_total", "counter", "Requests that entered here, and that another pod answered.")
	line("stateful_requests_forwarded_total", kind, m.forwarded.Load())
	family("stateful_request_waits_total", "counter", "Times that a request waited for its shard.")
	line("stateful_request_waits_total", kind, m.waited.Load())
	family("stateful_requests_refused_total", "counter", "Requests that no container handled.")
	for _, why := range slices.Sorted(maps.Keys(m.refuses)) {
		line("stateful_requests_refused_total", fmt.Sprintf("%s,reason=%q", kind, why), m.refuses[why])
	}
	return b.String()
}
