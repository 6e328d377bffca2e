// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"testing"

	"go.opentelemetry.io/otel"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
)

// A counter must exist before its first event, or Prometheus sees no increase.
func TestKnownSeriesStartAtZero(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	was := otel.GetMeterProvider()
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	t.Cleanup(func() { otel.SetMeterProvider(was) })
	if _, err := NewInstruments(); err != nil {
		t.Fatal(err)
	}
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	series := map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			sum, ok := m.Data.(metricdata.Sum[int64])
			if !ok {
				continue
			}
			for _, p := range sum.DataPoints {
				reason, _ := p.Attributes.Value("reason")
				series[m.Name+" "+reason.AsString()] = p.Value
			}
		}
	}
	for _, reason := range ledger.DroppedReasons() {
		if n, ok := series["cdevents_dropped "+reason]; !ok || n != 0 {
			t.Errorf("%s: %d, exists: %v", reason, n, ok)
		}
	}
	for _, name := range []string{"cdevents_ledger_conflicts", "cdevents_ledger_write_failures", "cdevents_merged_snapshots"} {
		if n, ok := series[name+" "]; !ok || n != 0 {
			t.Errorf("%s: %d, exists: %v", name, n, ok)
		}
	}
}
