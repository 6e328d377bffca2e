// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
)

// Watch makes the gauge of acknowledgements that are not written.
func Watch(l *Ledger) error {
	meter := otel.Meter("knative-cdevents.dev/emitter")
	held, err := meter.Int64ObservableGauge("cdevents_held_acknowledgements", metric.WithDescription(fmt.Sprintf(
		"CDEventSubjects with acknowledgements that this replica has not written yet. "+
			"At %d, it sends no event until there are fewer.", l.maxHeld)))
	if err != nil {
		return fmt.Errorf("making the gauge cdevents_held_acknowledgements: %w", err)
	}
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		o.ObserveInt64(held, int64(l.Held()))
		return nil
	}, held)
	if err != nil {
		return fmt.Errorf("registering the gauge cdevents_held_acknowledgements: %w", err)
	}
	return nil
}
