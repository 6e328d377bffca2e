// SPDX-License-Identifier: Apache-2.0

package export

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	"knative.dev/pkg/observability/metrics"
)

// Push sends a collector's metrics by OTLP if config-observability says so, to the same endpoint and at
// the same interval as Knative's own metrics. For other protocols it does nothing. It has its own
// pipeline, because Knative's accepts no other producer. stop sends the last metrics and ends it.
func Push(ctx context.Context, c metrics.Config, collector prometheus.Collector,
	of *resource.Resource,
) (stop func(context.Context) error, err error) {
	var exporter metric.Exporter
	switch c.Protocol {
	case metrics.ProtocolGRPC:
		var options []otlpmetricgrpc.Option
		if endpoint := endpointOf(c); endpoint != "" {
			options = append(options, otlpmetricgrpc.WithEndpointURL(endpoint))
		}
		exporter, err = otlpmetricgrpc.New(ctx, options...)
	case metrics.ProtocolHTTPProtobuf:
		var options []otlpmetrichttp.Option
		if endpoint := endpointOf(c); endpoint != "" {
			options = append(options, otlpmetrichttp.WithEndpointURL(endpoint))
		}
		exporter, err = otlpmetrichttp.New(ctx, options...)
	default:
		return func(context.Context) error { return nil }, nil
	}
	if err != nil {
		return nil, fmt.Errorf("making the %s exporter for canaries to %s: %w", c.Protocol, c.Endpoint, err)
	}
	registry := prometheus.NewRegistry()
	if err := registry.Register(collector); err != nil {
		return nil, fmt.Errorf("registering the collector of canaries: %w", err)
	}
	options := []metric.PeriodicReaderOption{metric.WithProducer(bridge.NewMetricProducer(bridge.WithGatherer(registry)))}
	if c.ExportInterval > 0 && os.Getenv("OTEL_METRIC_EXPORT_INTERVAL") == "" {
		options = append(options, metric.WithInterval(c.ExportInterval))
	}
	provider := metric.NewMeterProvider(metric.WithResource(of),
		metric.WithReader(metric.NewPeriodicReader(exporter, options...)))
	return provider.Shutdown, nil
}

// endpointOf returns where to send. It is empty if the environment sets the endpoint, which Knative
// prefers.
func endpointOf(c metrics.Config) string {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"} {
		if os.Getenv(name) != "" {
			return ""
		}
	}
	if !strings.Contains(c.Endpoint, "://") {
		return "https://" + c.Endpoint
	}
	return c.Endpoint
}
