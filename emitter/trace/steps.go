// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/knative-cdevents/knative-cdevents/api/sanitize"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/emitter/cdevents"
	"github.com/knative-cdevents/knative-cdevents/emitter/dora"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// given returns the traceparent that a transition has: that of the rollout's pipeline, or what Mark wrote.
func given(tr lifecycle.Transition) string {
	of := tr.Revision
	if undoes(tr) {
		of = tr.Previous
	}
	if of != nil && of.Annotations[cdevents.AnnotationTraceParent] != "" {
		return strings.TrimSpace(of.Annotations[cdevents.AnnotationTraceParent])
	}
	return strings.TrimSpace(tr.Annotations[cdevents.AnnotationTraceParent])
}

// undoes reports whether a transition is part of the rollout of the Revision that it takes the traffic from.
func undoes(tr lifecycle.Transition) bool {
	return tr.Type == lifecycle.RolledBack && !tr.Reapplies()
}

// withParent returns the transition with another traceparent. What it shares with the memory does not change.
func withParent(tr lifecycle.Transition, parent string) lifecycle.Transition {
	for _, r := range []**lifecycle.Revision{&tr.Revision, &tr.Previous} {
		if *r != nil {
			c := **r
			c.Annotations = set(c.Annotations, parent)
			*r = &c
		}
	}
	tr.Annotations = set(tr.Annotations, parent)
	return tr
}

func set(annotations map[string]string, parent string) map[string]string {
	annotations = maps.Clone(annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[cdevents.AnnotationTraceParent] = parent
	return annotations
}

// parse reads a traceparent of W3C Trace Context. It is not valid if there is none.
func parse(parent string) trace.SpanContext {
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": parent})
	return trace.SpanContextFromContext(ctx)
}

// started returns when the pipeline began.
func started(tr lifecycle.Transition) (time.Time, bool) {
	of := tr.Revision
	if undoes(tr) {
		of = tr.Previous
	}
	all := tr.Annotations
	if of != nil && of.Annotations[dora.AnnotationPipelineStarted] != "" {
		all = of.Annotations
	}
	at, ok := dora.ParseTime(all[dora.AnnotationPipelineStarted])
	return at, ok && at.Before(tr.Time)
}

// steps returns the earlier steps of the same rollout.
func steps(history []v1alpha1.PastTransition, tr lifecycle.Transition) []v1alpha1.PastTransition {
	var out []v1alpha1.PastTransition
	for _, p := range history {
		if p.Chain == tr.Chain && p.Sequence < tr.Sequence {
			out = append(out, p)
		}
	}
	return out
}

// ends reports whether a rollout has come to its end.
func ends(t lifecycle.Type) bool {
	switch t {
	case lifecycle.Deployed, lifecycle.Upgraded, lifecycle.RolledBack, lifecycle.EnvironmentCreated:
		return true
	}
	return false
}

func ended(before []v1alpha1.PastTransition) bool {
	return slices.ContainsFunc(before, func(p v1alpha1.PastTransition) bool { return ends(lifecycle.Type(p.Type)) })
}

// begins reports whether a rollout may begin with a transition. Others that are the first of their chain are alone in
// it.
func begins(t lifecycle.Type) bool {
	switch t {
	case lifecycle.Created, lifecycle.RevisionReady, lifecycle.IncidentDetected, lifecycle.ClusterAPIClusterCreated,
		lifecycle.CrossplaneClusterCreated:
		return true
	}
	return false
}

func inRollout(tr lifecycle.Transition) bool { return tr.Chain != tr.Sequence || begins(tr.Type) }

// rolledOut is the name of what a rollout brings.
func rolledOut(tr lifecycle.Transition) string {
	switch {
	case undoes(tr) && tr.Previous != nil:
		return tr.Previous.Name
	case tr.Revision != nil:
		return tr.Revision.Name
	}
	return "an environment"
}

// name is what the span of a transition is called.
func name(tr lifecycle.Transition) string {
	switch {
	case tr.Verdict != nil && tr.Verdict.Gate != "":
		return "gate " + tr.Verdict.Gate
	case tr.Verdict != nil:
		return "gate"
	case tr.Type == lifecycle.TrafficShifted:
		return "traffic shifted: " + split(tr.Traffic)
	}
	typ, err := cdevents.Type(cdevents.Version05, tr.Type)
	if err != nil {
		return string(tr.Type)
	}
	parts := strings.Split(typ, ".")
	return strings.Join(parts[2:min(4, len(parts))], ".")
}

// split says who gets which part of the traffic, for the largest shares.
func split(of lifecycle.Split) string { return of[:min(len(of), 4)].String() }

// failure says what failed; it is empty if nothing did.
func failure(tr lifecycle.Transition) string {
	switch {
	case tr.Type == lifecycle.RolledBack:
		return "rolled back: " + tr.Reason
	case tr.Verdict != nil && tr.Verdict.Verdict == verdict.Fail:
		return strings.Join(tr.Verdict.Reasons, ", ")
	case tr.Type == lifecycle.IncidentDetected && tr.Incident != nil:
		return tr.Incident.Reason
	}
	return ""
}

func attributes(subject v1alpha1.CDEventSubjectSpec, tr lifecycle.Transition) []attribute.KeyValue {
	out := []attribute.KeyValue{
		attribute.Int64("cdevents.sequence", tr.Sequence),
		attribute.String("k8s.namespace.name", subject.Namespace),
	}
	add := func(key, value string) {
		if value != "" {
			out = append(out, attribute.String(key, sanitize.WithoutCredentials(value)))
		}
	}
	if subject.Kind == "Service" {
		add("kn.service.name", subject.Name)
	} else {
		add("cdevents.environment.name", subject.Name)
	}
	if tr.Revision != nil {
		add("kn.revision.name", tr.Revision.Name)
	}
	if tr.Previous != nil {
		add("kn.revision.previous", tr.Previous.Name)
	}
	add("cdevents.reason", tr.Reason)
	add("cdevents.traffic", split(tr.Traffic))
	if tr.Verdict != nil {
		add("cdevents.verdict", string(tr.Verdict.Verdict))
		add("cdevents.verdict.reasons", strings.Join(tr.Verdict.Reasons, ", "))
	}
	if tr.Incident != nil {
		add("cdevents.incident", string(tr.Incident.Kind))
	}
	return out
}
