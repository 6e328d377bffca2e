// SPDX-License-Identifier: Apache-2.0

package mapping

import "cmp"

// Names of the built-in mappings.
const (
	NeutralName  = "neutral"
	EntryName    = "queue-proxy"
	EntryOldName = "queue-proxy-opencensus"
)

// entryLabel is the label of a counter of finished requests for the Revision where they entered.
const entryLabel = "entry_revision"

// Neutral is the contract that every application can implement, on any runtime. docs/canary.md
// describes it.
func Neutral() Mapping {
	entity, outcome, shard := &From{Label: "entity_type"}, &From{Label: "outcome"}, &From{Label: "shard"}
	return Mapping{Name: NeutralName, Rules: []Rule{
		{Figure: Started, Family: "stateful_requests_started_total", Value: Counter, EntityType: entity},
		{Figure: Finished, Family: "stateful_requests_total", Value: Counter, EntityType: entity, Outcome: outcome},
		{Figure: EnteredAt, Family: "stateful_requests_total", Value: Counter},
		{Figure: Duration, Family: "stateful_request_duration_seconds", Value: Histogram, EntityType: entity},
		{
			Figure: ShardFinished, Family: "stateful_shard_requests_total", Value: Counter, EntityType: entity,
			Outcome: outcome, Shard: shard,
		},
		{Figure: ShardSlow, Family: "stateful_shard_slow_requests_total", Value: Counter, EntityType: entity, Shard: shard},
		{Figure: Shards, Family: "stateful_shards", Value: Gauge, EntityType: entity},
	}}
}

// Entry reads what queue-proxy exports on port 9091 of each pod: OpenTelemetry's names, and the older
// ones of Serving.
func Entry() *Reader { return NewReader(entry(), entryOld()) }

// entry is queue-proxy of Serving from v1.19 on. Its own family had another name until v1.19.7, and in
// v1.20.0.
func entry() Mapping {
	return Mapping{Name: EntryName, Rules: []Rule{
		{Figure: EntryHTTP, Family: "http_server_request_duration_seconds", Value: Count},
		{Figure: EntryServing, Family: "kn_serving_invocation_duration_seconds", Value: Count},
		{Figure: EntryServing, Family: "kn_queueproxy_app_duration_seconds", Value: Count},
		{Figure: EntryDuration, Family: "http_server_request_duration_seconds", Value: Histogram},
	}}
}

// entryOld is queue-proxy of Serving up to v1.18, by OpenCensus. It counts in milliseconds and has no
// protocol label, so a gRPC error looks like a success.
func entryOld() Mapping {
	return Mapping{Name: EntryOldName, Rules: []Rule{
		{Figure: EntryHTTP, Family: "revision_request_count", Value: Counter},
		{Figure: EntryServing, Family: "revision_app_request_count", Value: Counter},
		{Figure: EntryDuration, Family: "revision_request_latencies", Value: Histogram, milliseconds: true},
	}}
}

// The labels of the status code in OpenTelemetry and OpenCensus.
const (
	codeLabel    = "http_response_status_code"
	codeLabelOld = "response_code"
)

// status returns the status code as text; empty if there is none.
func status(l Labels) string {
	c := cmp.Or(l.Get(codeLabel), l.Get(codeLabelOld))
	if len(c) != 3 || c[0] < '1' || c[0] > '5' || c[1] < '0' || c[1] > '9' || c[2] < '0' || c[2] > '9' {
		return ""
	}
	return c
}

// code returns the outcome that queue-proxy exports. An HTTP/2 response that looks fine may be a gRPC
// error with its status in the trailer, so it is Unknown. So are series that OpenTelemetry folded
// because of too many Hosts. Serving's own family does not have the protocol.
func code(f Figure, l Labels) string {
	c := status(l)
	if c == "" {
		return Unknown
	}
	if v := l.Get("network_protocol_version"); f == EntryHTTP && c[0] < '4' && (v == "2" || v == "2.0") {
		return Unknown
	}
	return c
}

// connection reports whether the series counts connections, not requests: a 1xx switched to another
// protocol and lasts as long as the connection is open.
func connection(l Labels) bool {
	c := status(l)
	return c != "" && c[0] == '1'
}
