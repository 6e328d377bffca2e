// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"context"
	"crypto/rand"

	"go.opentelemetry.io/otel/trace"
)

// ids generates the ids that the context names, and random ones for attempts to deliver.
type ids struct{}

type idsKey struct{}

type wanted struct {
	trace trace.TraceID
	span  trace.SpanID
}

// under returns a context in which spans are children of a span of the trace.
func (p place) under(parent trace.SpanID) context.Context {
	return trace.ContextWithRemoteSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: p.trace, SpanID: parent, TraceFlags: p.flags, Remote: true,
	}))
}

// root returns a context in which spans are children of the pipeline's, or begin the trace.
func (p place) root() context.Context {
	if p.pipeline.IsValid() {
		return p.under(p.pipeline.SpanID())
	}
	return context.WithValue(context.Background(), idsKey{}, wanted{trace: p.trace})
}

// withSpan names the id of the next span.
func withSpan(ctx context.Context, id trace.SpanID) context.Context {
	w, _ := ctx.Value(idsKey{}).(wanted)
	w.span = id
	return context.WithValue(ctx, idsKey{}, w)
}

// NewIDs implements sdktrace.IDGenerator.
func (g ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	w, _ := ctx.Value(idsKey{}).(wanted)
	if !w.trace.IsValid() {
		_, _ = rand.Read(w.trace[:])
	}
	return w.trace, g.NewSpanID(ctx, w.trace)
}

// NewSpanID implements sdktrace.IDGenerator.
func (ids) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	w, _ := ctx.Value(idsKey{}).(wanted)
	if !w.span.IsValid() {
		_, _ = rand.Read(w.span[:])
	}
	return w.span
}
