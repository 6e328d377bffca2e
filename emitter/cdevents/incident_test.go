// SPDX-License-Identifier: Apache-2.0

package cdevents

import (
	"strings"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

func failedRollout() lifecycle.Transition {
	return lifecycle.Transition{
		Type: lifecycle.IncidentDetected, Sequence: 3, Time: after(3), Chain: 3,
		Incident: &lifecycle.IncidentDetails{Kind: lifecycle.FailedRollout, Opened: 3, Since: after(2), Trouble: lifecycle.Trouble{Reason: "RevisionFailed"}},
	}
}

// The SDK requires an artifact, the specification does not, so the raw schema decides here.
func TestIncidentWithoutAnArtifact(t *testing.T) {
	for _, version := range []string{Version05, Version04} {
		e := render(t, profile(version), failedRollout())
		if err := conforms(version, e); err != nil {
			t.Error(err)
		}
		if data := string(e.Data()); strings.Contains(data, "artifactId") || !strings.Contains(data, "has not become Ready since 2026-11-21T09:32:00Z: RevisionFailed") {
			t.Errorf("%s", data)
		}
	}
}

func TestIncidentHasOneSubject(t *testing.T) {
	detected, resolved := transitionOf(t, lifecycle.IncidentDetected), transitionOf(t, lifecycle.IncidentResolved)
	id := func(tr lifecycle.Transition) string { return render(t, profile(Version05), tr).Subject() }
	if id(detected) != id(resolved) || !strings.HasPrefix(id(detected), "incident/shop/cart/outage/") {
		t.Errorf("%s, %s", id(detected), id(resolved))
	}
	for name, change := range map[string]func(*lifecycle.IncidentDetails){
		"another kind":   func(i *lifecycle.IncidentDetails) { i.Kind = lifecycle.FailedRollout },
		"another number": func(i *lifecycle.IncidentDetails) { i.Opened++ },
		"another time":   func(i *lifecycle.IncidentDetails) { i.Since = i.Since.Add(time.Second) },
	} {
		other := detected
		i := *other.Incident
		change(&i)
		other.Incident = &i
		if id(other) == id(detected) {
			t.Errorf("%s: same subject", name)
		}
	}
}

func TestIncidentDescriptions(t *testing.T) {
	gone := transitionOf(t, lifecycle.IncidentResolved)
	gone.Reason = lifecycle.ReasonRemoved
	over := failedRollout()
	over.Type = lifecycle.IncidentResolved
	for want, tr := range map[string]lifecycle.Transition{
		"is routed to again": transitionOf(t, lifecycle.IncidentResolved),
		"is gone":            gone,
		"is Ready":           over,
	} {
		if data := string(render(t, profile(Version05), tr).Data()); !strings.Contains(data, want) {
			t.Errorf("%s", data)
		}
	}
}

func TestOnlyIncidentsHaveIncidentDetails(t *testing.T) {
	without := failedRollout()
	without.Incident = nil
	with := transitionOf(t, lifecycle.Deployed)
	with.Incident = failedRollout().Incident
	for _, tr := range []lifecycle.Transition{without, with} {
		if _, err := Render(profile(Version05), cart, tr); err == nil || !strings.Contains(err.Error(), "incident") {
			t.Errorf("%s: %v", tr.Type, err)
		}
	}
}
