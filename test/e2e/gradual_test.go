// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// TestGradualRollout lets Serving move the traffic in many steps. They are reported in a few events, at least ten
// seconds apart, and the last step always is.
func TestGradualRollout(t *testing.T) {
	sideBySide(t)
	s := newScene(t)
	s.source("source", service("sink"))
	app := kit.App(s.ns, "shop", suite.app, "one")
	app.Annotations = map[string]string{"serving.knative.dev/rollout-duration": "25s"}
	s.must(suite.Services.Create(t.Context(), app))
	_, err := suite.Services.Wait(t.Context(), s.ns, "shop", "")
	s.must(err)
	s.sink.exactly(t, birth)

	s.must(suite.Services.Update(t.Context(), s.ns, "shop", func(svc *servingv1.Service) { kit.SetVersion(svc, "two") }))
	_, err = suite.Services.Wait(t.Context(), s.ns, "shop", kit.RevisionName("shop", 2))
	s.must(err)
	time.Sleep(still)
	events, err := s.sink.events(t.Context())
	s.must(err)
	steps := events[len(birth):]
	if n := len(steps); n < 3 || n > 5 || typesOf(steps)[0] != revisionReady || typesOf(steps)[n-1] != upgraded {
		t.Fatalf("received %q after birth, want ready, one to three steps, and upgraded", typesOf(steps))
	}
	for i, e := range steps[1 : len(steps)-1] {
		if e.Header.Get("Ce-Type") != shifted {
			t.Errorf("step %d is %s", i, e)
		}
		if before := steps[i]; i > 0 && e.Time.Sub(before.Time) < 9*time.Second {
			t.Errorf("two steps of one rollout are %s apart", e.Time.Sub(before.Time))
		}
	}
	for _, e := range events {
		conforms(t, e, "0.5.1")
	}
}

// TestSilence: standalone Routes and Configurations, and scaling to zero, cause no events.
func TestSilence(t *testing.T) {
	sideBySide(t)
	s := newScene(t)
	ctx := t.Context()
	s.source("source", service("sink"))
	app := kit.App(s.ns, "alone", suite.app, "one")
	configuration := &servingv1.Configuration{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "alone"}}
	configuration.Spec.Template = app.Spec.Template
	_, err := suite.Serving.ServingV1().Configurations(s.ns).Create(ctx, configuration, metav1.CreateOptions{})
	s.must(err)
	all, yes := int64(100), true
	route := &servingv1.Route{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "alone"}}
	route.Spec.Traffic = []servingv1.TrafficTarget{{ConfigurationName: "alone", LatestRevision: &yes, Percent: &all}}
	_, err = suite.Serving.ServingV1().Routes(s.ns).Create(ctx, route, metav1.CreateOptions{})
	s.must(err)
	s.must(suite.WaitReady(ctx, servingv1.SchemeGroupVersion.WithResource("routes"), s.ns, "alone"))

	s.deploy("sleeps")
	expected := birth
	s.sink.exactly(t, expected)
	if !suite.full {
		return // scaling to zero takes more than a minute
	}
	s.must(suite.Workloads.WaitGone(ctx, s.ns, "serving.knative.dev/service=sleeps"))
	s.must(suite.Workloads.WaitGone(ctx, s.ns, "serving.knative.dev/configuration=alone"))
	s.sink.exactly(t, expected)
	s.must(suite.Services.Update(ctx, s.ns, "sleeps", version("two")))
	_, err = suite.Services.Wait(ctx, s.ns, "sleeps", kit.RevisionName("sleeps", 2))
	s.must(err)
	s.sink.exactly(t, slices.Concat(expected, []string{revisionReady, upgraded}))
}
