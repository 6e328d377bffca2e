// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"sync/atomic"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Counters record how the polling of clusters goes.
type Counters interface {
	// Polled counts a poll by outcome: complete, partial, unanswered or failed.
	Polled(outcome string)
	// Refused counts a pod that a poll skipped because its owner is not verified.
	Refused()
	// Misdeclared sets the number of Services with annotations that are not valid.
	Misdeclared(services int)
}

// Instruments implements Counters with the meter that Knative's observability sets up. No
// label holds the name of a user's object.
type Instruments struct {
	polls, refused metric.Int64Counter
	wrong          atomic.Int64
}

var _ Counters = (*Instruments)(nil)

// NewInstruments registers the instruments.
func NewInstruments() (*Instruments, error) {
	meter := otel.Meter("knative-cdevents.dev/stateful")
	i := &Instruments{}
	for _, c := range []struct {
		to         *metric.Int64Counter
		name, says string
	}{
		{&i.polls, "cdevents_cluster_polls", "Polls of stateful clusters, by outcome (complete, partial, unanswered, failed)."},
		{
			&i.refused, "cdevents_cluster_pods_refused",
			"Pods that have the labels of a Service but do not belong to it, and are not polled.",
		},
	} {
		var err error
		if *c.to, err = meter.Int64Counter(c.name, metric.WithDescription(c.says)); err != nil {
			return nil, fmt.Errorf("creating the counter %s: %w", c.name, err)
		}
	}
	_, err := meter.Int64ObservableGauge(
		"cdevents_cluster_declarations_wrong",
		metric.WithDescription(
			"Services whose newest Revision declares a stateful cluster with annotations that are not valid.",
		),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(i.wrong.Load())
			return nil
		}),
	)
	if err != nil {
		return nil, fmt.Errorf("creating the gauge cdevents_cluster_declarations_wrong: %w", err)
	}
	return i, nil
}

// Watch reports the states of the clusters that p polls, and their pods without a sidecar.
func (*Instruments) Watch(p *Poller) error {
	meter := otel.Meter("knative-cdevents.dev/stateful")
	_, err := meter.Int64ObservableGauge("cdevents_cluster_pods_without_sidecar",
		metric.WithDescription("Pods that declare a sidecar and have none, so that their requests are not sharded."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(int64(p.LackSidecar()))
			return nil
		}))
	if err != nil {
		return fmt.Errorf("creating the gauge cdevents_cluster_pods_without_sidecar: %w", err)
	}
	_, err = meter.Int64ObservableGauge("cdevents_clusters",
		metric.WithDescription("Stateful clusters that this replica polls, by state."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			for state, n := range p.States() {
				o.Observe(int64(n), metric.WithAttributes(attribute.String("state", string(state))))
			}
			return nil
		}))
	if err != nil {
		return fmt.Errorf("creating the gauge cdevents_clusters: %w", err)
	}
	return nil
}

// Polled implements Counters.
func (i *Instruments) Polled(outcome string) {
	i.polls.Add(context.Background(), 1, metric.WithAttributes(attribute.String("outcome", outcome)))
}

// Refused implements Counters.
func (i *Instruments) Refused() { i.refused.Add(context.Background(), 1) }

// Misdeclared implements Counters.
func (i *Instruments) Misdeclared(services int) { i.wrong.Store(int64(services)) }
