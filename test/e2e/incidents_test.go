// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

const (
	detected = "dev.cdevents.incident.detected.0.3.0"
	resolved = "dev.cdevents.incident.resolved.0.3.0"
)

// configure changes config-cdevents until the end of the test.
func (s *scene) configure(values map[string]string) {
	s.Helper()
	s.must(suite.Controller.Configure(s.Context(), "config-cdevents", values))
	s.Cleanup(func() {
		defaults := map[string]string{}
		for name := range values {
			defaults[name] = ""
		}
		if err := suite.Controller.Configure(context.WithoutCancel(s.Context()), "config-cdevents", defaults); err != nil {
			s.Error(err)
		}
	})
}

// TestIncidents breaks a rollout, and then the traffic of a deployed Service.
func TestIncidents(t *testing.T) {
	s := newScene(t)
	ctx := t.Context()
	s.source("source", service("sink"), production)
	app := kit.App(s.ns, "cart", suite.app, "one")
	release(app, "41", "9fceb02d0ae598e95dc970b74767f19372d61af8")
	s.must(suite.Services.Create(ctx, app))
	expected := birth
	s.sink.exactly(t, expected)
	// Not earlier: a new Service needs some time.
	s.configure(map[string]string{"incident-failed-rollout-after": "10s", "incident-outage-after": "10s"})

	update := func(change func(*servingv1.Service)) {
		t.Helper()
		s.must(suite.Services.Update(ctx, s.ns, "cart", change))
	}
	// The order within a group depends on which condition Serving writes first.
	and := func(types ...string) []event {
		t.Helper()
		s.sink.atLeast(t, slices.Concat(expected, types)) //nolint:contextcheck // uses the test's context
		time.Sleep(still)
		events, err := s.sink.events(ctx)
		s.must(err)
		events = events[len(expected):]
		if got := slices.Sorted(slices.Values(typesOf(events))); !slices.Equal(got, slices.Sorted(slices.Values(types))) {
			t.Fatalf("received\n  %s\nwant, in some order\n  %s", strings.Join(typesOf(events), "\n  "), strings.Join(types, "\n  "))
		}
		for _, e := range events {
			conforms(t, e, "0.5.1")
			if typ := e.cd.Context.Type; typ == detected || typ == resolved {
				capture(t, e)
			}
		}
		expected = slices.Concat(expected, typesOf(events))
		return events
	}

	// A new Revision that cannot start: no upgrade is reported, and the deployed Revision keeps serving.
	repository, _, _ := strings.Cut(suite.app, "@")
	update(image(repository + ":which-is-not"))
	failed := and(detected)[0]
	if id := failed.cd.Subject.ID; !strings.HasPrefix(id, "incident/"+s.ns+"/cart/failed-rollout/") {
		t.Errorf("the incident has the id %s", id)
	}
	update(image(suite.next))
	for _, e := range and(revisionReady, upgraded, resolved) {
		if e.Header.Get("Ce-Type") == resolved && e.cd.Subject.ID != failed.cd.Subject.ID {
			t.Errorf("%s was resolved, but %s was detected", e.cd.Subject.ID, failed.cd.Subject.ID)
		}
	}

	// The Revision that all traffic is pinned to is deleted: an outage, and not a rollback.
	update(pinned(100, 1))
	and(rolledBack)
	s.must(suite.Serving.ServingV1().Revisions(s.ns).Delete(ctx, kit.RevisionName("cart", 1), metav1.DeleteOptions{}))
	if e := and(detected)[0]; !strings.Contains(e.cd.Subject.ID, "/outage/") {
		t.Errorf("the incident has the id %s", e.cd.Subject.ID)
	}
	update(latest)
	and(upgraded, resolved)
}
