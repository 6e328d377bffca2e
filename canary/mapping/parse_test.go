// SPDX-License-Identifier: Apache-2.0

package mapping

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	t.Parallel()
	m, err := Parse("micrometer", `
runtimes: [custom]
rules:
- figure: finished
  family: http_server_requests_seconds
  value: count
  match: {uri: "/cart/*"}
  outcome: {label: outcome, values: {SUCCESS: ok, CLIENT_ERROR: ok}, other: error}
- figure: duration
  family: http_server_requests_seconds
`)
	if err != nil {
		t.Fatal(err)
	}
	if m.Rules[1].Value != Histogram || !m.Serves("custom") || m.Serves("pekko") {
		t.Errorf("%+v", m)
	}
}

// An error says where a mapping is wrong, what is wrong, and what would be right.
func TestParseRefuses(t *testing.T) {
	t.Parallel()
	const good = "rules:\n- {figure: finished, family: a_total}\n"
	for name, c := range map[string]struct {
		name, text string
		says       []string
	}{
		"the name of the contract": {NeutralName, good, []string{`"neutral"`, "lowercase letters"}},
		"a name with a space":      {"a b", good, []string{`"a b"`}},
		"no YAML":                  {"a", "rules: [", []string{"like the example"}},
		"an unknown field":         {"a", "rules:\n- {figure: finished, famly: a}\n", []string{"famly"}},
		"no rule":                  {"a", "runtimes: [pekko]\n", []string{"0 entries", "1 to 32"}},
		"an unknown runtime": {
			"a", "runtimes: [pekko, peko]\n" + good,
			[]string{"runtimes[1]", `"peko"`, "akka, pekko, cloudstate, protoactor, custom"},
		},
		"an unknown figure": {
			"a", good + "- {figure: errors, family: b}\n",
			[]string{"rules[1]", `"errors"`, "finished"},
		},
		"an entry figure": {"a", good + "- {figure: entryHTTP, family: b}\n", []string{"rules[1]", `"entryHTTP"`}},
		"no family":       {"a", good + "- {figure: started}\n", []string{"rules[1]", "family"}},
		"a wrong value": {
			"a", good + "- {figure: duration, family: b, value: sum}\n",
			[]string{`"sum"`, "histogram"},
		},
		"an outcome too many": {
			"a", good + "- {figure: started, family: b, outcome: {value: ok}}\n",
			[]string{"outcome", "remove it"},
		},
		"an unknown outcome": {
			"a", "rules:\n- {figure: finished, family: b, outcome: {value: fine}}\n",
			[]string{`"fine"`, "timeout"},
		},
		"no shard": {"a", good + "- {figure: shardSlow, family: b}\n", []string{"shard must be set"}},
		"label and value": {
			"a", "rules:\n- {figure: finished, family: b, entityType: {label: a, value: b}}\n",
			[]string{"entityType", "either"},
		},
		"a wrong label":   {"a", "rules:\n- {figure: finished, family: b, match: {a-b: c}}\n", []string{`"a-b"`}},
		"nothing handled": {"a", "rules:\n- {figure: started, family: b}\n", []string{"figure: finished"}},
	} {
		_, err := Parse(c.name, c.text)
		if err == nil {
			t.Errorf("%s was accepted", name)
			continue
		}
		for _, want := range c.says {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q does not say %q", name, err, want)
			}
		}
	}
}

func TestParseAllTellsWhich(t *testing.T) {
	t.Parallel()
	all, err := ParseAll(map[string]string{
		"b": "rules:\n- {figure: finished, family: b}\n",
		"a": "rules:\n- {figure: finished, family: a}\n",
	})
	if err != nil || len(all) != 2 || all[0].Name != "a" {
		t.Errorf("%v, %v", all, err)
	}
	_, err = ParseAll(map[string]string{
		"a": "rules: []", "b": "rules: 1",
		"c": "rules:\n- {figure: finished, family: a}\n",
	})
	if err == nil || !strings.Contains(err.Error(), "mapping a:") || !strings.Contains(err.Error(), "mapping b:") {
		t.Errorf("got %v", err)
	}
}

type labels map[string]string

func (l labels) Get(name string) string { return l[name] }

func TestRead(t *testing.T) {
	t.Parallel()
	custom, err := Parse("custom", `
rules:
- figure: finished
  family: requests
  value: sum
  match: {group: "shardRegion/*", kind: "*Envelope"}
  entityType: {label: group, trimPrefix: shardRegion/}
  outcome: {label: status, values: {"200": ok}, other: error}
`)
	if err != nil {
		t.Fatal(err)
	}
	r := NewReader(Neutral(), entry(), custom, entryOld())
	for name, c := range map[string]struct {
		series string
		labels labels
		source int
		want   *Key
	}{
		"neutral": {
			"stateful_requests_total",
			labels{"entity_type": "Cart", "outcome": "ok"},
			0,
			&Key{Figure: Finished, Entity: "Cart", Outcome: OK},
		},
		"an unheard outcome": {
			"stateful_requests_total",
			labels{"outcome": "meh"},
			0,
			&Key{Figure: Finished, Outcome: Unknown},
		},
		"a shard": {
			"stateful_shard_slow_requests_total",
			labels{"entity_type": "Cart", "shard": "7"},
			0,
			&Key{Figure: ShardSlow, Entity: "Cart", Shard: "7"},
		},
		"a bucket": {
			"stateful_request_duration_seconds_bucket",
			labels{"le": "0.5"},
			0,
			&Key{Figure: Duration, Bound: .5},
		},
		"a bucket of nothing": {"stateful_request_duration_seconds_bucket", labels{"le": "half"}, 0, nil},
		"a sum":               {"stateful_request_duration_seconds_sum", labels{}, 0, &Key{Figure: DurationSum}},
		"an entry": {
			"http_server_request_duration_seconds_count",
			labels{"http_response_status_code": "200", "network_protocol_version": "1.1"},
			1,
			&Key{Figure: EntryHTTP, Outcome: "200"},
		},
		"perhaps gRPC": {
			"http_server_request_duration_seconds_count",
			labels{"http_response_status_code": "200", "network_protocol_version": "2"},
			1,
			&Key{Figure: EntryHTTP, Outcome: Unknown},
		},
		"an error over h2": {
			"http_server_request_duration_seconds_count",
			labels{"http_response_status_code": "500", "network_protocol_version": "2"},
			1,
			&Key{Figure: EntryHTTP, Outcome: "500"},
		},
		"folded by OTel": {
			"http_server_request_duration_seconds_count",
			labels{"otel_metric_overflow": "true"},
			1,
			&Key{Figure: EntryHTTP, Outcome: Unknown},
		},
		"Serving's own": {
			"kn_serving_invocation_duration_seconds_count",
			labels{"http_response_status_code": "500"},
			1, &Key{Figure: EntryServing, Outcome: "500"},
		},
		"Serving 1.19.0": {
			"kn_queueproxy_app_duration_seconds_count",
			labels{"http_response_status_code": "200"},
			1,
			&Key{Figure: EntryServing, Outcome: "200"},
		},
		"Serving 1.18": {
			"revision_request_count",
			labels{"response_code": "404"},
			3,
			&Key{Figure: EntryHTTP, Outcome: "404"},
		},
		"in milliseconds": {
			"revision_request_latencies_bucket",
			labels{"response_code": "200", "le": "500"},
			3,
			&Key{Figure: EntryDuration, Bound: .5},
		},
		"no code": {
			"kn_serving_invocation_duration_seconds_count",
			labels{"http_response_status_code": "5xx"},
			1, &Key{Figure: EntryServing, Outcome: Unknown},
		},
		"a connection lasts": {
			"http_server_request_duration_seconds_bucket",
			labels{"http_response_status_code": "101", "le": "0.5"},
			1, nil,
		},
		"in all": {
			"http_server_request_duration_seconds_sum",
			labels{"http_response_status_code": "101"},
			1, nil,
		},
		"and before": {"revision_request_latencies_bucket", labels{"response_code": "101", "le": "500"}, 3, nil},
		"custom": {
			"requests_sum",
			labels{"group": "shardRegion/Cart", "status": "200", "kind": "*Envelope"},
			2,
			&Key{Figure: Finished, Entity: "Cart", Outcome: OK},
		},
		"custom, other": {
			"requests_sum",
			labels{"group": "shardRegion/Cart", "status": "404", "kind": "*Envelope"},
			2,
			&Key{Figure: Finished, Entity: "Cart", Outcome: Error},
		},
		"custom, no match":   {"requests_sum", labels{"group": "other/Cart", "kind": "*Envelope"}, 2, nil},
		"custom, other kind": {"requests_sum", labels{"group": "shardRegion/Cart", "kind": "x"}, 2, nil},
		"without labels":     {"requests", labels{}, 2, nil},
	} {
		var got []Key
		r.Read(c.series, c.labels, func(source int, k Key, _ float64) {
			if source == c.source {
				got = append(got, k)
			}
		})
		if c.want == nil && len(got) == 0 {
			continue
		}
		if c.want == nil || len(got) != 1 || got[0] != *c.want {
			t.Errorf("%s: got %+v", name, got)
		}
		if !r.Wants([]byte(c.series)) {
			t.Errorf("%s is not wanted", name)
		}
	}
}

// hinting is labels with their names.
type hinting map[string]string

func (h hinting) Get(name string) string { return h[name] }

func (h hinting) Map() map[string]string { return h }

// A hint shows which values or labels were seen, and which are known.
func TestHints(t *testing.T) {
	t.Parallel()
	custom, err := Parse("custom", `
rules:
- figure: finished
  family: calls_total
  entityType: {label: type}
  outcome: {label: status, values: {"200": ok, "500": error}}
`)
	if err != nil {
		t.Fatal(err)
	}
	r := NewReader(Neutral(), custom)
	long := strings.Repeat("x", 1000)
	for name, c := range map[string]struct {
		series string
		labels hinting
		want   string
	}{
		"another value": {
			"stateful_requests_total",
			hinting{"outcome": "success"},
			`stateful_requests_total has outcome="success"; known values are ok, error, timeout`,
		},
		"another label": {
			"stateful_requests_total",
			hinting{"__name__": "x", "status": "ok", "entity_type": "Cart"},
			`stateful_requests_total has no label outcome, but entity_type, status; known values are ok, error, timeout`,
		},
		"no label": {
			"stateful_requests_total",
			hinting{},
			`stateful_requests_total has no label outcome, but none at all; known values are ok, error, timeout`,
		},
		"translated": {"calls_total", hinting{"status": "404"}, `calls_total has status="404"; known values are 200, 500`},
		"as it must": {"stateful_requests_total", hinting{"outcome": "timeout"}, ""},
		"says so":    {"stateful_requests_total", hinting{"outcome": "unknown"}, ""},
		"no outcome": {"stateful_requests_started_total", hinting{}, ""},
		"a long one": {
			"stateful_requests_total",
			hinting{"outcome": long},
			`stateful_requests_total has outcome="` + long[:hintLength] + `…"; known values are ok, error, timeout`,
		},
	} {
		if got := r.Hint(c.series, c.labels); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
