// SPDX-License-Identifier: Apache-2.0

package cdevents

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

func TestSameTransitionSameBytes(t *testing.T) {
	each(t, func(t *testing.T, version string, tr lifecycle.Transition) {
		p := profile(version)
		p.Extensions = map[string]string{"team": "checkout", "Tier": "1", "tier": "2", "region": "eu"}
		first := render(t, p, tr)

		// The ledger stores the profile and the transition as JSON.
		var stored lifecycle.Transition
		var storedProfile v1alpha1.Profile
		through(t, tr, &stored)
		through(t, p, &storedProfile)
		stored.Time = stored.Time.In(time.FixedZone("elsewhere", -7*3600))
		for range 20 {
			same(t, first, render(t, storedProfile, stored))
		}
	})
}

func through(t *testing.T, in, out any) {
	t.Helper()
	b, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, out); err != nil {
		t.Fatal(err)
	}
}

func TestIDChangesWithEverythingThatShapesTheEvent(t *testing.T) {
	const sequence = int64(7)
	base := ID(profile(Version05), cart, sequence, started)
	if u, err := uuid.Parse(base); err != nil || u.Version() != 5 {
		t.Fatalf("%q is not a UUID of version 5", base)
	}

	seen := map[string]string{base: "the original"}
	differs := func(what, id string) {
		t.Helper()
		if other, ok := seen[id]; ok {
			t.Errorf("%s has the id of %s", what, other)
		}
		seen[id] = what
	}
	changed := func(what string, change func(*v1alpha1.Profile, *v1alpha1.CDEventSubjectSpec)) {
		t.Helper()
		p, s := profile(Version05), cart
		change(&p, &s)
		differs(what, ID(p, s, sequence, started))
	}
	changed("another cluster", func(p *v1alpha1.Profile, _ *v1alpha1.CDEventSubjectSpec) { p.Source += "2" })
	changed("another kind", func(_ *v1alpha1.Profile, s *v1alpha1.CDEventSubjectSpec) { s.Kind = "Cluster" })
	changed("another object", func(_ *v1alpha1.Profile, s *v1alpha1.CDEventSubjectSpec) { s.UID += "2" })
	changed("another version", func(p *v1alpha1.Profile, _ *v1alpha1.CDEventSubjectSpec) { p.SpecVersion = Version04 })
	changed("another environment", func(p *v1alpha1.Profile, _ *v1alpha1.CDEventSubjectSpec) { p.Environment.ID = "staging" })
	changed("another environment source", func(p *v1alpha1.Profile, _ *v1alpha1.CDEventSubjectSpec) { p.Environment.Source = "" })
	changed("an override", func(p *v1alpha1.Profile, _ *v1alpha1.CDEventSubjectSpec) {
		p.Extensions = map[string]string{"team": "a"}
	})
	changed("another override", func(p *v1alpha1.Profile, _ *v1alpha1.CDEventSubjectSpec) {
		p.Extensions = map[string]string{"team": "b"}
	})
	changed("two overrides", func(p *v1alpha1.Profile, _ *v1alpha1.CDEventSubjectSpec) {
		p.Extensions = map[string]string{"team": "a", "x": ""}
	})
	changed("a replay", func(p *v1alpha1.Profile, _ *v1alpha1.CDEventSubjectSpec) { p.Replay = "a" })
	changed("a replay to another source", func(p *v1alpha1.Profile, _ *v1alpha1.CDEventSubjectSpec) { p.Replay = "b" })
	changed("an environment moved into its source", func(p *v1alpha1.Profile, _ *v1alpha1.CDEventSubjectSpec) {
		p.Environment = v1alpha1.Environment{Source: p.Environment.ID + p.Environment.Source}
	})
	differs("another transition", ID(profile(Version05), cart, sequence+1, started))
	differs("another time", ID(profile(Version05), cart, sequence, started.Add(time.Microsecond)))

	same := map[string]string{
		"the default version":                  ID(profile(""), cart, sequence, started),
		"the time in another zone":             ID(profile(Version05), cart, sequence, started.In(time.FixedZone("", 3600))),
		"digits that the ledger does not keep": ID(profile(Version05), cart, sequence, started.Add(999*time.Nanosecond)),
	}
	for what, id := range same {
		if id != base {
			t.Errorf("%s changes the id", what)
		}
	}
}

// Receivers keep ids, so they must not change with a release.
func TestIDIsStable(t *testing.T) {
	const want = "8004344a-5480-595d-8276-fd0238878b18"
	if got := ID(profile(Version05), cart, 7, started); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestTypes(t *testing.T) {
	for version, want := range map[string]map[lifecycle.Type]string{
		Version05: {
			lifecycle.Created:        "dev.cdeventsx.knative-service.created.0.1.0",
			lifecycle.Deployed:       "dev.cdevents.service.deployed.0.3.0",
			lifecycle.Published:      "dev.cdevents.service.published.0.3.0",
			lifecycle.RevisionReady:  "dev.cdeventsx.knative-revision.ready.0.1.0",
			lifecycle.TrafficShifted: "dev.cdeventsx.knative-traffic.shifted.0.1.0",
			lifecycle.Upgraded:       "dev.cdevents.service.upgraded.0.3.0",
			lifecycle.RolledBack:     "dev.cdevents.service.rolledback.0.3.0",
			lifecycle.Removed:        "dev.cdevents.service.removed.0.3.0",

			lifecycle.IncidentDetected: "dev.cdevents.incident.detected.0.3.0",
			lifecycle.IncidentResolved: "dev.cdevents.incident.resolved.0.3.0",
			lifecycle.Judged:           "dev.cdevents.testcaserun.finished.0.3.0",

			lifecycle.ClusterFormed:     "dev.cdeventsx.stateful-cluster.formed.0.1.0",
			lifecycle.ClusterSettled:    "dev.cdeventsx.stateful-cluster.settled.0.1.0",
			lifecycle.ClusterUnsettled:  "dev.cdeventsx.stateful-cluster.unsettled.0.1.0",
			lifecycle.ClusterRebalanced: "dev.cdeventsx.stateful-cluster.rebalanced.0.1.0",
			lifecycle.ClusterRemoved:    "dev.cdeventsx.stateful-cluster.removed.0.1.0",

			lifecycle.ClusterAPIClusterCreated: "dev.cdeventsx.clusterapi-cluster.created.0.1.0",
			lifecycle.CrossplaneClusterCreated: "dev.cdeventsx.crossplane-cluster.created.0.1.0",
			lifecycle.EnvironmentCreated:       "dev.cdevents.environment.created.0.3.0",
			lifecycle.EnvironmentModified:      "dev.cdevents.environment.modified.0.3.0",
			lifecycle.EnvironmentDeleted:       "dev.cdevents.environment.deleted.0.3.0",
		},
		Version04: {
			lifecycle.Created:        "dev.cdeventsx.knative-service.created.0.1.0",
			lifecycle.Deployed:       "dev.cdevents.service.deployed.0.2.0",
			lifecycle.Published:      "dev.cdevents.service.published.0.2.0",
			lifecycle.RevisionReady:  "dev.cdeventsx.knative-revision.ready.0.1.0",
			lifecycle.TrafficShifted: "dev.cdeventsx.knative-traffic.shifted.0.1.0",
			lifecycle.Upgraded:       "dev.cdevents.service.upgraded.0.2.0",
			lifecycle.RolledBack:     "dev.cdevents.service.rolledback.0.2.0",
			lifecycle.Removed:        "dev.cdevents.service.removed.0.2.0",

			lifecycle.IncidentDetected: "dev.cdevents.incident.detected.0.2.0",
			lifecycle.IncidentResolved: "dev.cdevents.incident.resolved.0.2.0",
			lifecycle.Judged:           "dev.cdevents.testcaserun.finished.0.2.0",

			lifecycle.ClusterFormed:     "dev.cdeventsx.stateful-cluster.formed.0.1.0",
			lifecycle.ClusterSettled:    "dev.cdeventsx.stateful-cluster.settled.0.1.0",
			lifecycle.ClusterUnsettled:  "dev.cdeventsx.stateful-cluster.unsettled.0.1.0",
			lifecycle.ClusterRebalanced: "dev.cdeventsx.stateful-cluster.rebalanced.0.1.0",
			lifecycle.ClusterRemoved:    "dev.cdeventsx.stateful-cluster.removed.0.1.0",

			lifecycle.ClusterAPIClusterCreated: "dev.cdeventsx.clusterapi-cluster.created.0.1.0",
			lifecycle.CrossplaneClusterCreated: "dev.cdeventsx.crossplane-cluster.created.0.1.0",
			lifecycle.EnvironmentCreated:       "dev.cdevents.environment.created.0.2.0",
			lifecycle.EnvironmentModified:      "dev.cdevents.environment.modified.0.2.0",
			lifecycle.EnvironmentDeleted:       "dev.cdevents.environment.deleted.0.2.0",
		},
	} {
		for typ, name := range want {
			if got, err := Type(version, typ); err != nil || got != name {
				t.Errorf("%s in %s is %q (%v), want %q", typ, version, got, err, name)
			}
		}
		if len(Types(version)) != len(want) {
			t.Errorf("version %s has %d types, the test knows %d", version, len(Types(version)), len(want))
		}
	}
	if got, err := Type("", lifecycle.Removed); err != nil || got != "dev.cdevents.service.removed.0.3.0" {
		t.Errorf("the default version is not 0.5: %q, %v", got, err)
	}
}

// What only this program can get wrong is an error that says what is expected.
func TestErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*v1alpha1.Profile, *lifecycle.Transition)
		want   string
	}{
		"version": {
			func(p *v1alpha1.Profile, _ *lifecycle.Transition) { p.SpecVersion = "0.6" },
			`rendering transition 2 of service/shop/cart: CDEvents version "0.6" is not supported; it must be "0.5" or "0.4"`,
		},
		"type": {
			func(_ *v1alpha1.Profile, tr *lifecycle.Transition) { tr.Type = "Sneezed" },
			`rendering transition 2 of service/shop/cart: no CDEvent of version 0.5 announces a transition of type "Sneezed"`,
		},
		"relative source": {
			func(p *v1alpha1.Profile, _ *lifecycle.Transition) { p.Source = "/cluster" },
			`rendering transition 2 of service/shop/cart: the event source "/cluster" must be an absolute URI, such as https://cluster.example.com`,
		},
		"time": {
			func(_ *v1alpha1.Profile, tr *lifecycle.Transition) { tr.Time = time.Time{} },
			`rendering transition 2 of service/shop/cart: transition ServiceDeployed has no time; it must be journaled before it is rendered`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, tr := profile(Version05), transitionOf(t, lifecycle.Deployed)
			tt.change(&p, &tr)
			if _, err := Render(p, cart, tr); err == nil || err.Error() != tt.want {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
	for _, source := range []string{"", "not a uri", "https://a b", "https://ä.example.com", "https://x\r\ny", "HTTPS://x"} {
		p := profile(Version05)
		p.Source = source
		if _, err := Render(p, cart, transitionOf(t, lifecycle.Deployed)); err == nil {
			t.Errorf("accepted source %q", source)
		}
	}
}
