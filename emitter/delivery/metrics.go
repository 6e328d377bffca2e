// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
)

// Instruments are the metrics of ledger and delivery, made with the meter that
// Knative's observability sets up. No label holds an event id or the name of a
// watched object.
type Instruments struct {
	delivered, incomplete, attempts, deadLetters, dropped, conflicts, refused, merged metric.Int64Counter
	latency                                                                           metric.Float64Histogram
}

var (
	_ Metrics        = (*Instruments)(nil)
	_ ledger.Metrics = (*Instruments)(nil)
)

// buckets of the time from observing to acknowledging, in seconds: from one
// write of the API server to an outage of an hour.
var buckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600}

// NewInstruments registers the instruments.
func NewInstruments() (*Instruments, error) {
	meter := otel.Meter("knative-cdevents.dev/emitter")
	i := &Instruments{}
	for _, c := range []struct {
		to         *metric.Int64Counter
		name, says string
	}{
		{&i.delivered, "cdevents_delivered", "Events that a sink accepted, by source and type."},
		{&i.incomplete, "cdevents_incomplete", "Accepted events that are incomplete, and say in customData.notes what " +
			"is missing, by source."},
		{&i.attempts, "cdevents_delivery_attempts", "Delivery attempts, by source and class of the answer (none if " +
			"there was no answer)."},
		{&i.deadLetters, "cdevents_dead_letters", "Events that the dead letter sink accepted, by source."},
		{&i.dropped, "cdevents_dropped", "Events that were dropped on purpose, by reason."},
		{&i.conflicts, "cdevents_ledger_conflicts", "Writes to the ledger that conflicted with another write and were " +
			"repeated."},
		{&i.refused, "cdevents_ledger_write_failures", "Writes to the ledger that the API server did not accept, or " +
			"did not confirm. They are retried."},
		{&i.merged, "cdevents_merged_snapshots", "Observed updates that were merged because a history was full."},
	} {
		var err error
		if *c.to, err = meter.Int64Counter(c.name, metric.WithDescription(c.says)); err != nil {
			return nil, fmt.Errorf("making the counter %s: %w", c.name, err)
		}
	}
	var err error
	i.latency, err = meter.Float64Histogram("cdevents_delivery_latency", metric.WithUnit("s"),
		metric.WithDescription("Time from the observation of a transition to the acknowledgement of its event, by source."),
		metric.WithExplicitBucketBoundaries(buckets...))
	if err != nil {
		return nil, fmt.Errorf("making the histogram cdevents_delivery_latency: %w", err)
	}
	i.begin()
	return i, nil
}

// begin creates the series that are known in advance. Prometheus sees no increase in a
// series that appears with its first event.
func (i *Instruments) begin() {
	for _, reason := range ledger.DroppedReasons() {
		i.Dropped(reason, 0)
	}
	for _, c := range []metric.Int64Counter{i.conflicts, i.refused, i.merged} {
		c.Add(context.Background(), 0)
	}
}

// Watch adds the gauges of pending events and breakers. Call it once.
func (*Instruments) Watch(d *Delivery, sources func() map[types.UID]string) error {
	err := WatchPending(func(observe func(source string, pending int64, oldest time.Time)) {
		backlogs := d.Ledger.Backlogs()
		for uid, name := range sources() {
			observe(name, backlogs[uid].Pending, backlogs[uid].Oldest)
		}
	})
	if err != nil {
		return err
	}
	meter := otel.Meter("knative-cdevents.dev/emitter")
	open, err := meter.Int64ObservableGauge("cdevents_breaker_open",
		metric.WithDescription("1 while the breaker of a source is open, and 0 otherwise. The replica that sends the "+
			"events reports it."))
	if err != nil {
		return fmt.Errorf("making the gauge cdevents_breaker_open: %w", err)
	}
	led, err := meter.Float64ObservableGauge("cdevents_leading_ratio", metric.WithUnit("1"),
		metric.WithDescription("Part of all names of objects that this replica leads for. The sum over the replicas "+
			"is 1, unless a leader is missing."))
	if err != nil {
		return fmt.Errorf("making the gauge cdevents_leading_ratio: %w", err)
	}
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		o.ObserveFloat64(led, leading(d.Leader))
		for name, isOpen := range d.Breakers() {
			value := int64(0)
			if isOpen {
				value = 1
			}
			o.ObserveInt64(open, value, source(name))
		}
		return nil
	}, open, led)
	if err != nil {
		return fmt.Errorf("registering the gauges of how sources stand: %w", err)
	}
	return nil
}

// WatchPending adds the gauges of pending events. The function observes how many are pending for each source, and the
// time of the oldest, zero if there is none. Call it once.
func WatchPending(standings func(observe func(source string, pending int64, oldest time.Time))) error {
	meter := otel.Meter("knative-cdevents.dev/emitter")
	pending, err := meter.Int64ObservableGauge("cdevents_pending",
		metric.WithDescription("Events that are pending, by source. Every replica reports the same value."))
	if err != nil {
		return fmt.Errorf("making the gauge cdevents_pending: %w", err)
	}
	oldest, err := meter.Float64ObservableGauge("cdevents_oldest_pending_age", metric.WithUnit("s"),
		metric.WithDescription("Age of the oldest pending event, by source; 0 if there is none. Every replica reports "+
			"the same value."))
	if err != nil {
		return fmt.Errorf("making the gauge cdevents_oldest_pending_age: %w", err)
	}
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		standings(func(name string, n int64, since time.Time) {
			age := 0.0
			if !since.IsZero() {
				age = time.Since(since).Seconds()
			}
			o.ObserveInt64(pending, n, source(name))
			o.ObserveFloat64(oldest, age, source(name))
		})
		return nil
	}, pending, oldest)
	if err != nil {
		return fmt.Errorf("registering the gauges of pending events: %w", err)
	}
	return nil
}

// asked is how many names leading asks for. With a few buckets, each has many of them.
const asked = 256

// leading returns the part of all names that a process leads for.
func leading(l Leader) float64 {
	if l == nil {
		return 1
	}
	n := 0
	for i := range asked {
		if l.IsLeaderFor(types.NamespacedName{Namespace: "sample", Name: strconv.Itoa(i)}) {
			n++
		}
	}
	return float64(n) / asked
}

func source(name string) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("source", name))
}

// Attempt implements Metrics.
func (i *Instruments) Attempt(name, class string) {
	i.attempts.Add(context.Background(), 1, source(name), metric.WithAttributes(attribute.String("code_class", class)))
}

// Delivered implements Metrics.
func (i *Instruments) Delivered(name, eventType string, took time.Duration) {
	i.delivered.Add(context.Background(), 1, source(name), metric.WithAttributes(attribute.String("type", eventType)))
	i.latency.Record(context.Background(), took.Seconds(), source(name))
}

// Incomplete implements Metrics.
func (i *Instruments) Incomplete(name string) {
	i.incomplete.Add(context.Background(), 1, source(name))
}

// DeadLetter implements Metrics.
func (i *Instruments) DeadLetter(name string) {
	i.deadLetters.Add(context.Background(), 1, source(name))
}

// Conflict implements ledger.Metrics.
func (i *Instruments) Conflict() { i.conflicts.Add(context.Background(), 1) }

// Refused implements ledger.Metrics.
func (i *Instruments) Refused() { i.refused.Add(context.Background(), 1) }

// Dropped implements ledger.Metrics.
func (i *Instruments) Dropped(reason string, n int64) {
	i.dropped.Add(context.Background(), n, metric.WithAttributes(attribute.String("reason", reason)))
}

// Merged counts updates that were merged in a full history.
func (i *Instruments) Merged(n int) { i.merged.Add(context.Background(), int64(n)) }
