// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/knative-cdevents/knative-cdevents/canary/attribution"
)

// seriesEach is the number of series at each port of a pod.
const seriesEach = 200

// exposition is the metrics of one port of a pod: a fixed set of series, whose values depend on the pod's number of
// requests.
type exposition struct {
	series []series
	// handled are the shares of the series that count handled requests.
	handled []float64
}

type series struct {
	// text is the line up to the value: name and labels, after the family's header for its first series.
	text string
	// The value is fixed plus share for every request.
	fixed, share float64
}

func (s series) at(requests uint64) float64 { return s.fixed + counted(s.share, requests) }

func counted(share float64, requests uint64) float64 { return math.Floor(share * float64(requests)) }

// text appends the exposition after that many requests, in the classic text format, like queue-proxy.
func (e *exposition) text(to []byte, requests uint64) []byte {
	for _, s := range e.series {
		to = append(to, s.text...)
		to = strconv.AppendFloat(to, s.at(requests), 'g', -1, 64)
		to = append(to, '\n')
	}
	return to
}

// truth is the number of handled requests in the exposition.
func (e *exposition) truth(requests uint64) float64 {
	sum := 0.0
	for _, share := range e.handled {
		sum += counted(share, requests)
	}
	return sum
}

// row is one series of a family; a suffix may be added to the family's name.
type row struct {
	suffix, labels string
	fixed, share   float64
}

func (e *exposition) family(name, kind, help string, rows ...row) {
	head := fmt.Sprintf("# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
	for _, r := range rows {
		labels := ""
		if r.labels != "" {
			labels = "{" + r.labels + "}"
		}
		e.series = append(e.series, series{text: head + name + r.suffix + labels + " ", fixed: r.fixed, share: r.share})
		head = ""
	}
}

// histogram returns the series of a histogram with the fixed buckets, for a share of all requests. Each bound halves
// the remaining requests, so every bucket grows.
func histogram(labels string, share float64) []row {
	var out []row
	with := func(le string) string { return strings.TrimPrefix(labels+`,le="`+le+`"`, ",") }
	left := share
	for _, bound := range attribution.Bounds() {
		left /= 2
		out = append(out, row{"_bucket", with(strconv.FormatFloat(bound, 'g', -1, 64)), 0, share - left})
	}
	return append(out, row{"_bucket", with("+Inf"), 0, share}, row{"_sum", labels, 0, share / 10}, row{"_count", labels, 0, share})
}

// started is the start time of all processes, in seconds since 1970.
const started = 1.7953e9

// shardsEach is the number of shards per pod; outcomes are the shares of the outcomes.
const shardsEach = 20

var outcomes = []struct {
	name  string
	share float64
}{{"ok", .96}, {"error", .03}, {"timeout", .01}}

// application exposes the neutral contract with counters by shard, and typical runtime metrics.
func application(pod int) *exposition {
	e := &exposition{}
	const entity = `entity_type="Cart"`
	e.family("process_start_time_seconds", "gauge", "Start time of the process since unix epoch in seconds.", row{fixed: started})
	e.family("stateful_requests_started_total", "counter", "Requests that an entity began to handle.", row{labels: entity, share: 1})
	var ends, shards, slow []row
	for _, o := range outcomes {
		ends = append(ends, row{labels: fmt.Sprintf("%s,outcome=%q", entity, o.name), share: o.share})
		e.handled = append(e.handled, o.share)
	}
	for i := range shardsEach {
		shard := fmt.Sprintf(`%s,shard="%d"`, entity, pod*shardsEach+i)
		for _, o := range outcomes {
			shards = append(shards, row{labels: fmt.Sprintf("%s,outcome=%q", shard, o.name), share: o.share / shardsEach})
		}
		slow = append(slow, row{labels: shard, share: .01 / shardsEach})
	}
	e.family("stateful_requests_total", "counter", "Requests that an entity is done with.", ends...)
	e.family("stateful_request_duration_seconds", "histogram", "How long they took.", histogram(entity, 1)...)
	e.family("stateful_shard_requests_total", "counter", "Requests by shard.", shards...)
	e.family("stateful_shard_slow_requests_total", "counter", "Requests above 0.5 s by shard.", slow...)
	e.family("stateful_shards", "gauge", "Shards that the pod holds.", row{labels: entity, fixed: shardsEach})
	e.fill()
	return e
}

// codes are the status codes at queue-proxy.
var codes = []struct {
	code  string
	share float64
}{{"200", .96}, {"404", .01}, {"500", .02}, {"503", .01}}

// queueProxy exposes queue-proxy's two families with the labels of Serving v0.50, and typical runtime metrics.
func queueProxy(address string) *exposition {
	e := &exposition{}
	e.family("process_start_time_seconds", "gauge", "Start time of the process since unix epoch in seconds.", row{fixed: started})
	var http, serving []row
	for _, c := range codes {
		http = append(http, histogram(fmt.Sprintf(`http_request_method="GET",http_response_status_code=%q,kn_route_tag="kn:disabled",`+
			`network_protocol_name="http",network_protocol_version="1.1",otel_scope_name="go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp",`+
			`otel_scope_schema_url="",otel_scope_version="0.69.0",server_address=%q,server_port="8012",url_scheme="http"`, c.code, address), c.share)...)
		serving = append(serving, histogram(fmt.Sprintf(`http_response_status_code=%q,kn_route_tag="kn:disabled",`+
			`otel_scope_name="knative.dev/serving/pkg/queue",otel_scope_schema_url="",otel_scope_version=""`, c.code), c.share)...)
	}
	e.family("http_server_request_duration_seconds", "histogram", "Duration of HTTP server requests.", http...)
	e.family("kn_serving_invocation_duration_seconds", "histogram", "The duration of task execution.", serving...)
	e.fill()
	return e
}

// fill adds irrelevant series, eight per family, up to seriesEach.
func (e *exposition) fill() {
	for n := 0; len(e.series) < seriesEach; n++ {
		var rows []row
		for i := range min(8, seriesEach-len(e.series)) {
			rows = append(rows, row{labels: fmt.Sprintf(`pool="worker-%d",state="running"`, i), share: float64(i+1) / 8})
		}
		e.family(fmt.Sprintf("runtime_%02d_tasks_total", n), "counter", "What the runtime did.", rows...)
	}
}
