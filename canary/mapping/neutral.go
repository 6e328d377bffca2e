package mapping

import "cmp"

// Names of the mappings that are not configured.
const (
	NeutralName  = "neutral"
	EntryName    = "queue-proxy"
	EntryOldName = "queue-proxy-opencensus"
)

// entryLabel of a counter of finished requests is the Revision where they entered.
const entryLabel = "entry_revision"

// Neutral is the contract that every application can fulfil, whatever it runs on.
// It is described in docs/canary.md.
func Neutral() Mapping {
	entity, outcome, shard := &From{Label: "entity_type"}, &From{Label: "outcome"}, &From{Label: "shard"}
	return Mapping{Name: NeutralName, Rules: []Rule{
		{Figure: Started, Family: "stateful_requests_started_total", Value: Counter, EntityType: entity},
		{Figure: Finished, Family: "stateful_requests_total", Value: Counter, EntityType: entity, Outcome: outcome},
		{Figure: EnteredAt, Family: "stateful_requests_total", Value: Counter},
		{Figure: Duration, Family: "stateful_request_duration_seconds", Value: Histogram, EntityType: entity},
		{Figure: ShardFinished, Family: "stateful_shard_requests_total", Value: Counter, EntityType: entity, Outcome: outcome, Shard: shard},
		{Figure: ShardSlow, Family: "stateful_shard_slow_requests_total", Value: Counter, EntityType: entity, Shard: shard},
		{Figure: Shards, Family: "stateful_shards", Value: Gauge, EntityType: entity},
	}}
}

// Entry is what queue-proxy exports on port 9091 of each pod: OpenTelemetry's names, and
// those of Serving before that.
func Entry() *Reader { return NewReader(entry(), entryOld()) }

// entry is queue-proxy of Serving from v1.19 on. Its own family had another name until
// v1.19.7, and in v1.20.0.
func entry() Mapping {
	return Mapping{Name: EntryName, Rules: []Rule{
		{Figure: EntryHTTP, Family: "http_server_request_duration_seconds", Value: Count},
		{Figure: EntryServing, Family: "kn_serving_invocation_duration_seconds", Value: Count},
		{Figure: EntryServing, Family: "kn_queueproxy_app_duration_seconds", Value: Count},
		{Figure: EntryDuration, Family: "http_server_request_duration_seconds", Value: Histogram},
	}}
}

// entryOld is queue-proxy of Serving up to v1.18, by OpenCensus: in milliseconds, and
// without the protocol, so that a gRPC error cannot be told from a success.
func entryOld() Mapping {
	return Mapping{Name: EntryOldName, Rules: []Rule{
		{Figure: EntryHTTP, Family: "revision_request_count", Value: Counter},
		{Figure: EntryServing, Family: "revision_app_request_count", Value: Counter},
		{Figure: EntryDuration, Family: "revision_request_latencies", Value: Histogram, milliseconds: true},
	}}
}

// The labels of the status code, by OpenTelemetry and by OpenCensus.
const (
	codeLabel    = "http_response_status_code"
	codeLabelOld = "response_code"
)

// status is the code of an answer as it is written; empty where none is.
func status(l Labels) string {
	c := cmp.Or(l.Get(codeLabel), l.Get(codeLabelOld))
	if len(c) != 3 || c[0] < '1' || c[0] > '5' || c[1] < '0' || c[1] > '9' || c[2] < '0' || c[2] > '9' {
		return ""
	}
	return c
}

// code is what queue-proxy says of how requests ended. An answer over HTTP/2 that
// looks well may be a gRPC error, whose status is in the trailer: that is Unknown.
// So is what OpenTelemetry folded because of too many Hosts. The family of Serving
// itself does not know the protocol.
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

// connection says that the series is not of requests: a 1xx is a connection that was
// switched to another protocol, and lasts as long as it is open.
func connection(l Labels) bool {
	c := status(l)
	return c != "" && c[0] == '1'
}
