// SPDX-License-Identifier: Apache-2.0

package wal

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
)

// Watch makes the gauge of what waits for a checkpoint.
func Watch(l *Log) error {
	behind, err := otel.Meter("knative-cdevents.dev/emitter").Int64ObservableGauge("cdevents_log_behind",
		metric.WithDescription("CDEventSubjects whose newest state is in the log only. Every replica reports the same value."))
	if err != nil {
		return fmt.Errorf("making the gauge cdevents_log_behind: %w", err)
	}
	_, err = otel.Meter("knative-cdevents.dev/emitter").RegisterCallback(func(_ context.Context, o metric.Observer) error {
		o.ObserveInt64(behind, int64(l.Behind()))
		return nil
	}, behind)
	if err != nil {
		return fmt.Errorf("observing the gauge cdevents_log_behind: %w", err)
	}
	return nil
}
