// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"knative.dev/pkg/observability/tracing"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/cdevents"
	"github.com/knative-cdevents/knative-cdevents/emitter/dora"
	"github.com/knative-cdevents/knative-cdevents/emitter/transport"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

var (
	noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	cart = v1alpha1.CDEventSubjectSpec{
		APIVersion: "serving.knative.dev/v1", Kind: "Service", Namespace: "shop",
		Name: "cart", UID: "u1",
	}
)

const pipeline = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// rollout is a canary whose rollout began with transition 7. It gets all traffic, or is withdrawn.
func rollout(withdrawn bool, annotations map[string]string) []lifecycle.Transition {
	at := func(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }
	old, canary := &lifecycle.Revision{Name: "cart-1"}, &lifecycle.Revision{Name: "cart-2", Annotations: annotations}
	all := []lifecycle.Transition{
		{Sequence: 7, Time: at(0), Type: lifecycle.RevisionReady, Revision: canary},
		{
			Sequence: 8, Time: at(1), Type: lifecycle.TrafficShifted, Revision: canary, Previous: old,
			Traffic: []lifecycle.Share{{Revision: "cart-1", Percent: 90}, {Revision: "cart-2", Percent: 10}},
		},
		{
			Sequence: 9, Time: at(5), Type: lifecycle.Judged, Revision: canary, Previous: old,
			Verdict: &lifecycle.Verdict{Gate: "cart-gate", Verdict: "Pass", Started: at(1), Completed: at(5)},
		},
		{Sequence: 10, Time: at(6), Type: lifecycle.Upgraded, Revision: canary, Previous: old},
	}
	if withdrawn {
		all[2].Verdict.Verdict, all[2].Verdict.Reasons = "Fail", []string{"Harmful"}
		all[3] = lifecycle.Transition{
			Sequence: 10, Time: at(6), Type: lifecycle.RolledBack,
			Reason: lifecycle.ReasonWithdrawn, Revision: old, Previous: canary,
		}
	}
	for i := range all {
		all[i].Chain = 7
	}
	return all
}

func past(all []lifecycle.Transition) []v1alpha1.PastTransition {
	out := []v1alpha1.PastTransition{{
		Sequence: 1, Time: metav1.NewMicroTime(noon.Add(-time.Hour)),
		Type: string(lifecycle.Deployed), Chain: 1,
	}}
	for _, tr := range all {
		out = append(out, v1alpha1.PastTransition{
			Sequence: tr.Sequence, Time: metav1.NewMicroTime(tr.Time),
			Type: string(tr.Type), Chain: tr.Chain,
		})
	}
	return out
}

// play journals and sends a rollout. A controller dies after half of it, and another continues.
func play(t *testing.T, config tracing.Config, all []lifecycle.Transition) (marked []lifecycle.Transition) {
	t.Helper()
	for _, part := range [][]int{{0, 2}, {2, len(all)}} {
		tracer, stop, err := New(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		for i := part[0]; i < part[1]; i++ {
			tr := tracer.Mark(cart, all[i])
			tracer.Journaled(cart, past(all[:i+1]), all[i:i+1])
			tracer.Attempt(tr, "dev.cdevents.service.upgraded.0.3.0",
				"shop/releases")(transport.Outcome{Class: transport.Acknowledged, Status: 202})
			marked = append(marked, tr)
		}
		if err := stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return marked
}

func TestOneTraceForEachRollout(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	marked := play(t, r.config(1), rollout(false, nil))
	spans := r.spans()
	want := []string{
		"gate cart-gate", "knative-revision.ready", "rollout of cart-2", "service.upgraded",
		"traffic shifted: 90 % cart-1, 10 % cart-2",
	}
	if got := slices.Sorted(maps.Keys(spans)); !slices.Equal(slices.DeleteFunc(got,
		func(s string) bool { return s == "send to shop/releases" }), want) {
		t.Fatalf("%q", got)
	}
	root := spans["rollout of cart-2"][0]
	if len(root.ParentSpanId) > 0 || !nanos(root.StartTimeUnixNano).Equal(noon) ||
		!nanos(root.EndTimeUnixNano).Equal(noon.Add(6*time.Minute)) {
		t.Errorf("the rollout: %v", root)
	}
	ids := map[string]bool{}
	for name, all := range spans {
		for _, s := range all {
			if string(s.TraceId) != string(root.TraceId) {
				t.Errorf("%s is in another trace", name)
			}
			if name != "send to shop/releases" && name != "rollout of cart-2" && string(s.ParentSpanId) != string(root.SpanId) {
				t.Errorf("%s is not part of the rollout", name)
			}
			ids[hex.EncodeToString(s.SpanId)] = true
		}
	}
	if len(spans["send to shop/releases"]) != 4 || len(ids) != 9 {
		t.Errorf("%d attempts, %d ids", len(spans["send to shop/releases"]), len(ids))
	}
	if shifted := spans["service.upgraded"][0]; !nanos(shifted.StartTimeUnixNano).Equal(noon.Add(5 * time.Minute)) {
		t.Errorf("a step begins with the end of the one before: %v", shifted)
	}
	for i, tr := range marked {
		parent := cdeventsTraceParent(t, tr)
		if !strings.HasPrefix(parent, "00-"+hex.EncodeToString(root.TraceId)+"-") || !strings.HasSuffix(parent, "-01") ||
			!ids[strings.Split(parent, "-")[2]] {
			t.Errorf("event %d carries %s", i, parent)
		}
	}
}

func cdeventsTraceParent(t *testing.T, tr lifecycle.Transition) string {
	t.Helper()
	e, err := cdevents.Render(v1alpha1.Profile{
		SpecVersion: "0.5", Source: "https://cluster.example.com",
		Environment: v1alpha1.Environment{ID: "e"},
	}, cart, tr)
	if err != nil {
		t.Fatal(err)
	}
	parent, _ := e.Extensions()["traceparent"].(string)
	return parent
}

func TestJoinedToThePipeline(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	given := map[string]string{
		cdevents.AnnotationTraceParent: pipeline,
		dora.AnnotationPipelineStarted: "2026-03-04T11:50:00Z",
	}
	all := rollout(true, given)
	marked := play(t, r.config(1), all)
	if all[0].Revision.Annotations[cdevents.AnnotationTraceParent] != pipeline {
		t.Error("the memory of the Service was changed")
	}
	spans := r.spans()
	root := spans["rollout of cart-2"]
	if len(root) != 1 || hex.EncodeToString(root[0].ParentSpanId) != "b7ad6b7169203331" ||
		root[0].Status.GetMessage() != "rolled back: CanaryWithdrawn" {
		t.Fatalf("the rollout: %v", root)
	}
	if build := spans["build"]; len(build) != 1 ||
		nanos(build[0].EndTimeUnixNano).Sub(nanos(build[0].StartTimeUnixNano)) != 10*time.Minute {
		t.Errorf("the build: %v", build)
	}
	if gate := spans["gate cart-gate"]; len(gate) != 1 || gate[0].Status.GetMessage() != "Harmful" {
		t.Errorf("the gate: %v", gate)
	}
	for name, all := range spans {
		for _, s := range all {
			if hex.EncodeToString(s.TraceId) != "0af7651916cd43dd8448eb211c80319c" {
				t.Errorf("%s is not in the pipeline's trace", name)
			}
		}
	}
	for i, tr := range marked {
		if parent := cdeventsTraceParent(t, tr); !strings.HasPrefix(parent, "00-0af7651916cd43dd8448eb211c80319c-") ||
			parent == pipeline {
			t.Errorf("event %d carries %s", i, parent)
		}
	}
}

// TestSampling shows that what is not sampled is not sent, and that receivers are told.
func TestSampling(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	for _, tr := range play(t, r.config(0), rollout(false, nil)) {
		if parent := cdeventsTraceParent(t, tr); !strings.HasSuffix(parent, "-00") {
			t.Errorf("an event carries %s", parent)
		}
	}
	if n := len(r.spans()); n != 0 {
		t.Errorf("%d kinds of spans were sent", n)
	}
}

// TestAlone shows a transition that belongs to no rollout.
func TestAlone(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	play(t, r.config(1), []lifecycle.Transition{
		{Sequence: 3, Chain: 3, Time: noon, Type: lifecycle.Published, Revision: &lifecycle.Revision{Name: "cart-1"}},
		{Sequence: 4, Chain: 4, Time: noon, Type: lifecycle.Removed, Revision: &lifecycle.Revision{Name: "cart-1"}},
	})
	for _, name := range []string{"service.published", "service.removed"} {
		if s := r.spans()[name]; len(s) != 1 || len(s[0].ParentSpanId) > 0 {
			t.Errorf("%s: %v", name, s)
		}
	}
}

func TestOff(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"", tracing.ProtocolNone} {
		tracer, stop, err := New(t.Context(), tracing.Config{Protocol: protocol})
		if tracer != nil || err != nil || stop(t.Context()) != nil {
			t.Errorf("%q: %v, %v", protocol, tracer, err)
		}
	}
}

// A span that began in the year 1 has no start in nanoseconds, and one of 1970 hides all others.
func TestPlaceholdersAreNoStartOfAPipeline(t *testing.T) {
	t.Parallel()
	for _, placeholder := range []string{"0001-01-01T00:00:00Z", "1970-01-01T00:00:00Z"} {
		r := newReceiver(t)
		play(t, r.config(1), rollout(true, map[string]string{
			cdevents.AnnotationTraceParent: pipeline,
			dora.AnnotationPipelineStarted: placeholder,
		}))
		for name, all := range r.spans() {
			for _, s := range all {
				if at := nanos(s.StartTimeUnixNano); at.Year() != 2026 {
					t.Errorf("%s: span %s begins at %s", placeholder, name, at)
				}
			}
		}
	}
}
