// SPDX-License-Identifier: Apache-2.0

package export

import (
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/resource"
	collector "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	otlp "go.opentelemetry.io/proto/otlp/metrics/v1"
	"knative.dev/pkg/observability/metrics"

	"github.com/knative-cdevents/knative-cdevents/test/telemetry"
)

// An OTLP receiver gets what Prometheus would scrape, including the histogram.
func TestPush(t *testing.T) {
	t.Parallel()
	received := make(chan *collector.ExportMetricsServiceRequest, 100)
	at := telemetry.Receive(t, func(m *collector.ExportMetricsServiceRequest) { received <- m })
	stop, err := Push(t.Context(), metrics.Config{
		Protocol: metrics.ProtocolHTTPProtobuf, Endpoint: at + "/v1/metrics", ExportInterval: 50 * time.Millisecond,
	}, NewCollector(sample()), resource.Empty())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]*otlp.Metric{}
	for _, r := range (<-received).ResourceMetrics {
		for _, s := range r.ScopeMetrics {
			for _, m := range s.Metrics {
				got[m.Name] = m
			}
		}
	}
	if err := stop(t.Context()); err != nil {
		t.Error(err)
	}
	handled := got["canary_handled_requests_total"].GetSum()
	if len(handled.GetDataPoints()) != 3 || !handled.GetIsMonotonic() || handled.DataPoints[0].GetAsDouble() != 2 {
		t.Errorf("%v", handled)
	}
	if n := len(handled.GetDataPoints()[0].GetAttributes()); n != 5 {
		t.Errorf("%d attributes", n)
	}
	if h := got["canary_handled_request_duration_seconds"].GetHistogram(); len(h.GetDataPoints()) != 1 ||
		h.DataPoints[0].GetCount() != 43 {
		t.Errorf("%v", h)
	}
	if got["canary_traffic_share_ratio"].GetGauge() == nil {
		t.Error("no gauges")
	}
}

func TestPushOnlyWhereItIsAskedFor(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{metrics.ProtocolPrometheus, metrics.ProtocolNone} {
		stop, err := Push(t.Context(), metrics.Config{Protocol: protocol}, NewCollector(sample()), resource.Empty())
		if err != nil || stop(t.Context()) != nil {
			t.Errorf("%s: %v", protocol, err)
		}
	}
	for endpoint, want := range map[string]string{
		"otel.example.com:4317":       "https://otel.example.com:4317",
		"http://otel:4318/v1/metrics": "http://otel:4318/v1/metrics",
	} {
		if got := endpointOf(metrics.Config{Endpoint: endpoint}); got != want {
			t.Errorf("%s became %s", endpoint, got)
		}
	}
}
