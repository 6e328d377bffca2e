// SPDX-License-Identifier: Apache-2.0

// Package trace makes a trace of each rollout: a span for each step that is journaled, and one for each attempt to
// deliver its event.
//
// Its invariant: ids follow from what is stored, so all controllers that ever lead for an object add to the same
// trace. Nothing here decides anything, and a span that cannot be sent delays nothing.
package trace

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"knative.dev/pkg/observability/tracing"

	"github.com/knative-cdevents/knative-cdevents/api/sanitize"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// Tracer makes spans of what is journaled and sent.
type Tracer struct {
	tracer  trace.Tracer
	sampler sdktrace.Sampler
	always  bool
}

var _ ledger.Tracer = (*Tracer)(nil)

// New returns a Tracer as config-observability says, and a function that sends the last spans. It returns nil if
// nothing is to be traced. Further options are for tests.
func New(ctx context.Context, c tracing.Config, options ...sdktrace.TracerProviderOption) (*Tracer,
	func(context.Context) error, error,
) {
	if c.Protocol == tracing.ProtocolNone || c.Protocol == "" {
		return nil, func(context.Context) error { return nil }, nil
	}
	provider, err := tracing.NewTracerProvider(ctx, c, append(options, sdktrace.WithIDGenerator(ids{}))...)
	if err != nil {
		return nil, nil, fmt.Errorf("making the %s exporter for traces to %s: %w", c.Protocol, c.Endpoint, err)
	}
	return &Tracer{
		tracer:  provider.Tracer("knative-cdevents.dev/emitter"),
		sampler: sdktrace.TraceIDRatioBased(c.SamplingRate),
		always:  c.SamplingRate >= 1 || c.Protocol == tracing.ProtocolStdout,
	}, provider.Shutdown, nil
}

// place is where a transition is in a trace.
type place struct {
	trace trace.TraceID
	// rollout is the span of the whole rollout, and span that of the transition.
	rollout, span trace.SpanID
	// pipeline is the span of the pipeline, if it passed one on.
	pipeline trace.SpanContext
	flags    trace.TraceFlags
}

func (t *Tracer) placeOf(subject v1alpha1.CDEventSubjectSpec, tr lifecycle.Transition) place {
	p := place{
		rollout: spanID("rollout", subject, tr.Chain),
		span:    spanID("transition", subject, tr.Sequence, tr.Time.UTC().Format(time.RFC3339Nano)),
	}
	if p.pipeline = parse(given(tr)); p.pipeline.IsValid() {
		p.trace, p.flags = p.pipeline.TraceID(), p.pipeline.TraceFlags()&trace.FlagsSampled
	} else {
		sum := hash("trace", subject, tr.Chain)
		copy(p.trace[:], sum[:])
		if t.sampler.ShouldSample(sdktrace.SamplingParameters{
			ParentContext: context.Background(),
			TraceID:       p.trace,
		}).Decision == sdktrace.RecordAndSample {
			p.flags = trace.FlagsSampled
		}
	}
	if t.always {
		p.flags = trace.FlagsSampled
	}
	return p
}

func spanID(kind string, subject v1alpha1.CDEventSubjectSpec, parts ...any) (id trace.SpanID) {
	sum := hash(kind, subject, parts...)
	copy(id[:], sum[:])
	return id
}

func hash(kind string, subject v1alpha1.CDEventSubjectSpec, parts ...any) [sha256.Size]byte {
	return sha256.Sum256([]byte(fmt.Sprintln(append([]any{kind, subject.Kind, subject.UID}, parts...)...)))
}

// Mark implements ledger.Tracer: the event of the transition carries its span as traceparent.
func (t *Tracer) Mark(subject v1alpha1.CDEventSubjectSpec, tr lifecycle.Transition) lifecycle.Transition {
	p := t.placeOf(subject, tr)
	return withParent(tr, fmt.Sprintf("00-%s-%s-%s", p.trace, p.span, p.flags))
}

// Journaled implements ledger.Tracer. The transitions are those that Mark has not changed.
func (t *Tracer) Journaled(subject v1alpha1.CDEventSubjectSpec, history []v1alpha1.PastTransition,
	all []lifecycle.Transition,
) {
	for _, tr := range all {
		if tr.Reason == lifecycle.ReasonReplay {
			continue // nothing happened
		}
		p := t.placeOf(subject, tr)
		if p.flags.IsSampled() {
			t.step(subject, p, steps(history, tr), tr)
		}
	}
}

// step makes the span of one transition, and those of the rollout that begins or ends with it.
func (t *Tracer) step(subject v1alpha1.CDEventSubjectSpec, p place, before []v1alpha1.PastTransition,
	tr lifecycle.Transition,
) {
	first, from := tr.Time, tr.Time
	if len(before) > 0 {
		first, from = before[0].Time.Time, before[len(before)-1].Time.Time
	}
	built, known := started(tr)
	if known && built.Before(first) && len(before) == 0 && begins(tr.Type) {
		t.span(p.under(p.rollout), spanID("build", subject, tr.Chain), "build", built, tr.Time, subject, tr)
	}
	parent := p.under(p.rollout)
	if !inRollout(tr) {
		parent = p.root()
	}
	switch {
	case tr.Verdict != nil:
		from, parent = tr.Verdict.Started, p.under(p.rollout)
		t.span(parent, p.span, name(tr), from, tr.Verdict.Completed, subject, tr)
		return
	case tr.Type == lifecycle.IncidentResolved && tr.Incident != nil:
		from = tr.Incident.Since
	}
	t.span(parent, p.span, name(tr), from, tr.Time, subject, tr)
	if ends(tr.Type) && inRollout(tr) && !ended(before) {
		if known && built.Before(first) {
			first = built
		}
		t.span(p.root(), p.rollout, "rollout of "+rolledOut(tr), first, tr.Time, subject, tr)
	}
}

// span makes one span.
func (t *Tracer) span(ctx context.Context, id trace.SpanID, name string, from, to time.Time,
	subject v1alpha1.CDEventSubjectSpec, tr lifecycle.Transition,
) {
	_, s := t.tracer.Start(withSpan(ctx, id), name, trace.WithTimestamp(from),
		trace.WithAttributes(attributes(subject, tr)...))
	if why := failure(tr); why != "" && name != "build" {
		s.SetStatus(codes.Error, sanitize.WithoutCredentials(why))
	}
	s.End(trace.WithTimestamp(to))
}

// Attempt begins the span of an attempt to deliver an event. The returned function ends it.
func (t *Tracer) Attempt(tr lifecycle.Transition, event, source string) func(transport.Outcome) {
	parent := parse(given(tr))
	if !parent.IsSampled() {
		return func(transport.Outcome) {}
	}
	_, s := t.tracer.Start(trace.ContextWithRemoteSpanContext(context.Background(), parent), "send to "+source,
		trace.WithSpanKind(trace.SpanKindProducer),
		trace.WithAttributes(attribute.String("cloudevents.event_type", event), attribute.String("cdevents.source", source)))
	return func(out transport.Outcome) {
		if out.Status > 0 {
			s.SetAttributes(attribute.Int("http.response.status_code", out.Status))
		}
		if out.Class != transport.Acknowledged {
			s.SetStatus(codes.Error, "the sink did not accept the event: "+strconv.Itoa(out.Status))
		}
		s.End()
	}
}
