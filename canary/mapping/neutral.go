package mapping

// Names of the two mappings that are not configured.
const (
	NeutralName = "neutral"
	EntryName   = "queue-proxy"
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

// Entry is what queue-proxy of Serving v0.50 exports on port 9091.
func Entry() Mapping {
	return Mapping{Name: EntryName, Rules: []Rule{
		{Figure: EntryHTTP, Family: "http_server_request_duration_seconds", Value: Count},
		{Figure: EntryServing, Family: "kn_serving_invocation_duration_seconds", Value: Count},
		{Figure: EntryDuration, Family: "http_server_request_duration_seconds", Value: Histogram},
	}}
}

// code is what queue-proxy says of how requests ended. An answer over HTTP/2 that
// looks well may be a gRPC error, whose status is in the trailer: that is Unknown.
// So is what OpenTelemetry folded because of too many Hosts. The family of Serving
// itself does not know the protocol.
func code(f Figure, l Labels) string {
	c := l.Get("http_response_status_code")
	if len(c) != 3 || c[0] < '1' || c[0] > '5' {
		return Unknown
	}
	if v := l.Get("network_protocol_version"); f == EntryHTTP && c[0] < '4' && (v == "2" || v == "2.0") {
		return Unknown
	}
	return c
}
