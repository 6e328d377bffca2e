// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/otlptranslator"
	"go.opentelemetry.io/otel"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
)

// exportMetrics has what is counted from now on exported to Prometheus, under the names that the controller's metrics
// have, and returns what serves it. There is no push, as the controller has it: that would take a core that lives for a
// minute more memory than anything else.
func exportMetrics() (http.Handler, error) {
	// As Knative's observability has it.
	names := otelprometheus.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes)
	reader, err := otelprometheus.New(names)
	if err != nil {
		return nil, fmt.Errorf("making the exporter for Prometheus: %w", err)
	}
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	return promhttp.Handler(), nil
}
