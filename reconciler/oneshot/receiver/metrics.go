// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Results of a ring in metrics. What is refused, its sender gives up; what failed, it sends again.
const (
	answered = "answered"
	refused  = "refused"
	failed   = "failed"
)

// bounds of the durations, in seconds: from a look that finds nothing to the longest time that a sender waits.
var bounds = []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 45, 90}

// Instruments are the metrics of rings. A nil one counts nothing.
type Instruments struct {
	rings    metric.Int64Counter
	duration metric.Float64Histogram
}

// NewInstruments registers the instruments.
func NewInstruments() (*Instruments, error) {
	meter := otel.Meter("knative-cdevents.dev/core")
	rings, err := meter.Int64Counter("cdevents_core_rings", metric.WithDescription(
		"Rings of allowed senders, by kind (change or sweep) and result (answered, refused for good, or failed)."))
	if err != nil {
		return nil, fmt.Errorf("making the counter cdevents_core_rings: %w", err)
	}
	duration, err := meter.Float64Histogram("cdevents_core_ring_duration", metric.WithUnit("s"),
		metric.WithDescription("Time from a ring to its answer, by kind."), metric.WithExplicitBucketBoundaries(bounds...))
	if err != nil {
		return nil, fmt.Errorf("making the histogram cdevents_core_ring_duration: %w", err)
	}
	i := &Instruments{rings, duration}
	for _, kind := range []string{change, sweepKind} {
		for _, result := range []string{answered, refused, failed} {
			i.add(context.Background(), kind, result, 0) // so that Prometheus sees the first one as an increase
		}
	}
	return i, nil
}

// Kinds of rings in metrics. One that cannot be read counts as a change.
const (
	change    = "change"
	sweepKind = "sweep"
)

func (i *Instruments) add(ctx context.Context, kind, result string, n int64) {
	i.rings.Add(ctx, n, metric.WithAttributes(attribute.String("kind", kind), attribute.String("result", result)))
}

// count counts a ring.
func (i *Instruments) count(ctx context.Context, kind, result string, took time.Duration) {
	if i == nil {
		return
	}
	i.add(ctx, kind, result, 1)
	i.duration.Record(ctx, took.Seconds(), metric.WithAttributes(attribute.String("kind", kind)))
}
