// SPDX-License-Identifier: Apache-2.0

package cdevents

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

func TestEnvironmentID(t *testing.T) {
	for want, c := range map[string]struct {
		s     v1alpha1.CDEventSubjectSpec
		given string
	}{
		"cluster.cluster.x-k8s.io/fleet/prod": {prod, ""},
		"prod-eu":                             {prod, "prod-eu"},
		"a%2Fb%0D":                            {prod, "a/b\r"},
		"kubernetescluster.containerservice.azure.upbound.io/prod": {v1alpha1.CDEventSubjectSpec{APIVersion: "containerservice.azure.upbound.io/v1beta2", Kind: "KubernetesCluster", Name: "prod"}, ""},
		"cluster/prod": {v1alpha1.CDEventSubjectSpec{APIVersion: "v1", Kind: "Cluster", Name: "prod"}, ""},
	} {
		if got := EnvironmentID(c.s, c.given); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	next := prod
	next.APIVersion = "cluster.x-k8s.io/v1"
	if EnvironmentID(next, "") != EnvironmentID(prod, "") {
		t.Error("another version of the kind is another environment")
	}
}

// What CDEvents allows in the content differs by version and predicate.
func TestContentOfEnvironmentEvents(t *testing.T) {
	for typ, want := range map[lifecycle.Type]map[string]string{
		lifecycle.EnvironmentCreated:  {Version05: `{"name":"prod","uri":"https://prod.fleet.example.com:6443"}`, Version04: `{"name":"prod","url":"https://prod.fleet.example.com:6443"}`},
		lifecycle.EnvironmentModified: {Version05: `{"name":"prod","uri":"https://prod.fleet.example.com:6443"}`, Version04: `{"name":"prod","url":"https://prod.fleet.example.com:6443"}`},
		lifecycle.EnvironmentDeleted:  {Version05: `{"name":"prod"}`, Version04: `{"name":"prod"}`},
		lifecycle.ClusterAPIClusterCreated: {
			Version05: `{"environment":{"id":"cluster.cluster.x-k8s.io/fleet/prod","source":"https://eu-1.example.com/knative-cdevents"}}`,
			Version04: `{"environment":{"id":"cluster.cluster.x-k8s.io/fleet/prod","source":"https://eu-1.example.com/knative-cdevents"}}`,
		},
	} {
		for version, content := range want {
			e := render(t, profile(version), transitionOf(t, typ))
			var body struct {
				Subject struct{ Content json.RawMessage }
			}
			if err := json.Unmarshal(e.Data(), &body); err != nil {
				t.Fatal(err)
			}
			if got := string(body.Subject.Content); got != content {
				t.Errorf("%s in %s: got %s, want %s", typ, version, got, content)
			}
			if e.Subject() != "cluster.cluster.x-k8s.io/fleet/prod" {
				t.Errorf("%s has subject %s", typ, e.Subject())
			}
		}
	}
}

// An environment is not in the one that its namespace or the configuration names.
func TestEnvironmentRefersToItself(t *testing.T) {
	p := profile(Version05)
	p.Environment = v1alpha1.Environment{}
	w := read(t, render(t, p, transitionOf(t, lifecycle.CrossplaneClusterCreated)))
	if want := (v1alpha1.Environment{ID: "staging", Source: p.Source}); w.Subject.Content.Environment != want || w.Subject.ID != "staging" {
		t.Errorf("got %+v of %s", w.Subject.Content.Environment, w.Subject.ID)
	}
	if len(w.CustomData.Notes) > 0 {
		t.Errorf("notes %v", w.CustomData.Notes)
	}
}

// Events about Services and about environments share one type of custom data.
func TestCustomDataIsAboutAServiceOrAnEnvironment(t *testing.T) {
	for _, tr := range story() {
		d := read(t, render(t, profile(Version05), tr)).CustomData
		if about := tr.Environment != nil; (d.Environment != nil) != about || (d.Knative != nil) == about {
			t.Errorf("%s: knative %v, environment %v", tr.Type, d.Knative, d.Environment)
		}
	}
}

func environmentOfModified(t *testing.T, change func(*lifecycle.EnvironmentDetails)) (w written, size int) {
	t.Helper()
	tr := transitionOf(t, lifecycle.EnvironmentModified)
	change(tr.Environment)
	e := render(t, profile(Version05), tr)
	return read(t, e), len(e.Data())
}

func TestEndpointsThatEventsCannotCarry(t *testing.T) {
	for _, wrong := range []string{
		"prod.example.com:6443/a", "//prod.example.com", "https://a b", "https://x\r\ny",
		"https://" + strings.Repeat("x", maxProvenance),
	} {
		w, _ := environmentOfModified(t, func(d *lifecycle.EnvironmentDetails) { d.URL = wrong; d.Previous.URL = wrong })
		e := w.CustomData.Environment
		if e.URL != "" || e.Previous.URL != "" || !w.noted("customData.environment.url") || !w.noted("customData.environment.previous.url") {
			t.Errorf("%q: got %q, notes %v", clip(wrong), e.URL, w.CustomData.Notes)
		}
	}
}

func TestEndpointsLoseTheirCredentials(t *testing.T) {
	w, _ := environmentOfModified(t, func(d *lifecycle.EnvironmentDetails) {
		d.URL, d.Previous.URL = "https://user:password@prod.example.com", "https://prod.example.com/?token=password"
	})
	if e := w.CustomData.Environment; e.URL != "https://prod.example.com" || e.Previous.URL != "https://prod.example.com/?token=REDACTED" {
		t.Errorf("%q, %q", e.URL, e.Previous.URL)
	}
}

func TestEnvironmentDataIsBounded(t *testing.T) {
	w, _ := environmentOfModified(t, func(d *lifecycle.EnvironmentDetails) {
		d.Version, d.Region, d.Class = strings.Repeat("v", maxProvenance+1), "a\nb", "\xff"
		d.Note = strings.Repeat("n", 2*maxProvenance)
		d.Pools = append(slices.Repeat([]string{"pool"}, maxPools), "one-more", strings.Repeat("p", maxName+1))
	})
	e := w.CustomData.Environment
	if e.Version != "" || e.Region != "" || e.Class != "" || len(e.Pools) != maxPools || len(e.Note) > maxProvenance+len("…") {
		t.Errorf("got %+v", e)
	}
	for _, field := range []string{"version", "region", "class", "pools"} {
		if !w.noted("customData.environment." + field) {
			t.Errorf("no note on %s", field)
		}
	}
}

func TestLargestEnvironment(t *testing.T) {
	long := strings.Repeat(`"`, maxProvenance)
	w, size := environmentOfModified(t, func(d *lifecycle.EnvironmentDetails) {
		d.Environment = lifecycle.Environment{
			Version: long, Region: long, URL: "https://x.example.com/" + strings.Repeat("'", maxProvenance-50), Class: long,
			Pools: slices.Repeat([]string{strings.Repeat(`"`, maxName)}, maxPools), Note: long,
		}
		previous := d.Environment
		d.Previous = &previous
	})
	if size > maxEvent {
		t.Errorf("the event has %d bytes", size)
	}
	for _, field := range []string{"previous.pools", "previous", "pools"} {
		if !w.noted("customData.environment." + field) {
			t.Errorf("no note on %s", field)
		}
	}
	if e := w.CustomData.Environment; e.Version != long || e.Note != long || e.Name != "prod" {
		t.Errorf("what says most was dropped: %+v", e)
	}
	t.Logf("%d bytes", size)
}

func TestIncidentsOfEnvironments(t *testing.T) {
	for kind, want := range map[lifecycle.Incident][3]string{
		lifecycle.EnvironmentOutage: {
			"Cluster fleet/prod has not been available since 2026-11-21T09:32:00Z: NotReachable: no answer",
			"Cluster fleet/prod, which was not available since 2026-11-21T09:32:00Z, is available again",
			"Cluster fleet/prod is gone, and with it what was wrong with it since 2026-11-21T09:32:00Z",
		},
		lifecycle.EnvironmentDegraded: {
			"Cluster fleet/prod has been degraded since 2026-11-21T09:32:00Z: NotReachable: no answer",
			"Cluster fleet/prod, which was degraded since 2026-11-21T09:32:00Z, has recovered",
			"Cluster fleet/prod is gone, and with it what was wrong with it since 2026-11-21T09:32:00Z",
		},
		lifecycle.EnvironmentNotCreated: {
			"Cluster fleet/prod has not become ready since 2026-11-21T09:32:00Z: NotReachable: no answer",
			"Cluster fleet/prod, which did not become ready since 2026-11-21T09:32:00Z, is ready",
			"Cluster fleet/prod is gone, and with it what was wrong with it since 2026-11-21T09:32:00Z",
		},
	} {
		for _, version := range []string{Version05, Version04} {
			for i, typ := range []lifecycle.Type{lifecycle.IncidentDetected, lifecycle.IncidentResolved, lifecycle.IncidentResolved} {
				tr := lifecycle.Transition{
					Type: typ, Sequence: 3, Time: after(3), Chain: 3, Environment: &lifecycle.EnvironmentDetails{Environment: provisioned()},
					Incident: &lifecycle.IncidentDetails{Kind: kind, Opened: 3, Since: after(2), Trouble: lifecycle.Trouble{Reason: "NotReachable", Message: "no answer"}},
				}
				if i == 2 {
					tr.Reason = lifecycle.ReasonEnvironmentDeleted
				}
				e := render(t, profile(version), tr)
				if err := conforms(version, e); err != nil {
					t.Error(err)
				}
				var w struct {
					Subject struct {
						Content struct {
							Description string
							Environment v1alpha1.Environment
							Service     any
							ArtifactID  string
						}
					}
				}
				if err := json.Unmarshal(e.Data(), &w); err != nil {
					t.Fatal(err)
				}
				if c := w.Subject.Content; c.Description != want[i] || c.Service != nil || c.ArtifactID != "" || c.Environment.ID != "cluster.cluster.x-k8s.io/fleet/prod" || c.Environment.Source != profile(version).Source {
					t.Errorf("got %+v\nwant %s", c, want[i])
				}
				if prefix := "incident/fleet/prod/" + string(kind) + "/"; !strings.HasPrefix(e.Subject(), prefix) {
					t.Errorf("subject %s", e.Subject())
				}
			}
		}
	}
	scoped := prod
	scoped.Namespace = ""
	tr := lifecycle.Transition{Type: lifecycle.IncidentDetected, Incident: &lifecycle.IncidentDetails{Since: after(2)}}
	if got := describeEnvironment(scoped, tr); !strings.HasPrefix(got, "Cluster prod has") {
		t.Errorf("a cluster-scoped kind: %s", got)
	}
}

func TestOnlyEnvironmentsHaveEnvironmentDetails(t *testing.T) {
	details := &lifecycle.EnvironmentDetails{}
	with := transitionOf(t, lifecycle.Deployed)
	with.Environment = details
	without := transitionOf(t, lifecycle.EnvironmentCreated)
	without.Environment = nil
	ofService := transitionOf(t, lifecycle.IncidentDetected)
	ofService.Environment = details
	ofEnvironment := transitionOf(t, lifecycle.IncidentDetected)
	ofEnvironment.Incident = &lifecycle.IncidentDetails{Kind: lifecycle.EnvironmentOutage}
	for _, tr := range []lifecycle.Transition{with, without, ofService, ofEnvironment} {
		if _, err := Render(profile(Version05), prod, tr); err == nil || !strings.Contains(err.Error(), "environment details") {
			t.Errorf("%s: %v", tr.Type, err)
		}
	}
}

// A value that an event lacks counts, whichever part of it lacks it.
func TestIncompleteEventsAreMarked(t *testing.T) {
	tr := transitionOf(t, lifecycle.Upgraded)
	tr.Revision.Annotations = map[string]string{AnnotationBranch: "a\nb"}
	e, err := Render(profile(Version05), cart, tr)
	if err != nil {
		t.Fatal(err)
	}
	if !e.Incomplete {
		t.Error("an event without its branch is complete")
	}
}
