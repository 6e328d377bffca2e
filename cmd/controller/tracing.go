// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"knative.dev/pkg/injection/sharedmain"
	"knative.dev/pkg/logging"
	"knative.dev/pkg/observability/resource"

	"github.com/knative-cdevents/knative-cdevents/emitter/delivery"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/emitter/trace"
)

// serviceName is the name of this service in traces. Several controllers may send theirs to one place.
const serviceName = "knative-cdevents"

// lastSpans is how long the end of the process waits for the last spans to be sent.
const lastSpans = 500 * time.Millisecond

// trace starts tracing, if config-observability says so. Knative's own provider accepts no generator of ids, so this
// is another one.
func (e *emitting) trace(ctx context.Context) {
	observability, err := sharedmain.GetObservabilityConfig(ctx)
	must(ctx, "reading config-observability", err)
	tracer, stop, err := trace.New(ctx, observability.Tracing, sdktrace.WithResource(resource.Default(serviceName)))
	must(ctx, "starting to trace", err)
	if tracer == nil {
		return
	}
	e.tracer = tracer
	e.running.Go(func() {
		<-ctx.Done()
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSpans)
		defer cancel()
		if err := stop(last); err != nil {
			logging.FromContext(ctx).Warnw("The last spans were not sent", "error", err)
		}
	})
}

// traced are what ledger and delivery need to be traced: nothing, if they are not.
func (e *emitting) traced() (options []ledger.Option) {
	if e.tracer == nil {
		return nil
	}
	return []ledger.Option{ledger.WithTracer(e.tracer)}
}

// tracedDelivery adds spans of attempts to the options of the delivery.
func (e *emitting) tracedDelivery(o delivery.Options) delivery.Options {
	if e.tracer != nil {
		o.Tracer = e.tracer
	}
	return o
}
