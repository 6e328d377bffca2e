// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// provisioned are the events of an environment of Crossplane that becomes ready.
var provisioned = []string{"dev.cdeventsx.crossplane-cluster.created.0.1.0", environmentCreated}

// families are all ways to declare a cluster of Crossplane.
var families = []family{claimed, ofTeam, ofFleet}

// platform is a namespace with clusters of Crossplane, and cluster-scoped ones beside it.
type platform struct{ *scene }

// The annotations that let the composition's function do harm.
const (
	trouble = "platform.example.com/trouble"
	broken  = "platform.example.com/broken"
	paused  = "crossplane.io/paused"
)

// Clusters of claims whose resources are not what is created and deleted with them.
const (
	orphaned  = "orphaned"
	observed  = "observed"
	undeleted = "undeleted"
)

// TestCrossplane follows claims and composites of Crossplane from their creation to their deletion. The kinds are
// installed while the controller runs, and removed while it watches them. Crossplane stays if it was installed before.
func TestCrossplane(t *testing.T) {
	environmentsBySide(t)
	if !suite.full || !suite.Own() {
		t.Skip("it installs Crossplane on the cluster made by test/cluster: make e2e-full")
	}
	grantEnvironments(t)
	p := platform{newScene(t)}
	p.source("source", service("sink"), production)
	p.operator()
	p.install()

	p.create()
	p.policies()
	p.change()
	p.trouble()
	p.broken()
	p.pause()
	p.remove()
	p.controllerDown()
	p.many(500)
	p.removeKinds()
	onlyReads(t, kit.TeamClusters.Group, "crossplane.io")
}

// create creates one cluster of each family. Only what a user declared is announced.
func (p platform) create() {
	p.Helper()
	for _, f := range families {
		p.declare(f, f.name, map[string]any{"version": "1.32", "resources": int64(2)})
	}
	for _, f := range families {
		events := p.exactly(f, f.name, provisioned)
		o := p.get(f, f.name)
		for _, e := range events {
			conforms(p.T, e, "0.5.1")
			env := e.cd.CustomData.Environment
			if env.UID != string(o.GetUID()) || env.Kind != f.kind || env.Namespace != f.in(p.ns) || env.Provider != "crossplane" {
				p.Errorf("%s of %s says %s", e.cd.Context.Type, f.name, compact(env))
			}
		}
		ready := events[1]
		endpoint, _, _ := unstructured.NestedString(o.Object, "status", "endpoint") // checked below
		if env := ready.cd.CustomData.Environment; env.Version != "1.32" || endpoint == "" || ready.cd.Subject.Content.URI != endpoint {
			p.Errorf("environment.created of %s says %s, and the URI is %q, not %q", f.name, compact(env), ready.cd.Subject.Content.URI, endpoint)
		}
	}
	p.onlyDeclared()
	p.staging()
}

// staging creates a cluster that names its own id and its Composition.
func (p platform) staging() {
	p.Helper()
	o := kit.NewObject(kit.TeamClusters, ofTeam.kind, p.ns, "staging", map[string]any{
		"region": "eu-north-1", "crossplane": map[string]any{"compositionRef": map[string]any{"name": "teamclusters"}},
	})
	o.SetLabels(map[string]string{"cdevents.knative-cdevents.dev/environment": "staging"})
	p.submit(ofTeam, o)
	for _, e := range p.exactly(ofTeam, "staging", provisioned) {
		conforms(p.T, e, "0.5.1")
		if e.cd.Subject.ID != "staging" {
			p.Errorf("%s of staging has the id %q", e.cd.Context.Type, e.cd.Subject.ID)
		}
		if e.cd.Context.Type == provisioned[0] {
			capture(p.T, e)
		}
	}
	p.delete(ofTeam, "staging")
	p.exactly(ofTeam, "staging", append(provisioned, environmentDeleted))
}

// policies creates and deletes claims whose resources outlive them, or exist without them.
func (p platform) policies() {
	p.Helper()
	p.declare(claimed, orphaned, map[string]any{"version": "1.32", "deletionPolicy": "Orphan"})
	p.declare(claimed, observed, map[string]any{"version": "1.32", "managementPolicies": []any{"Observe"}})
	p.declare(claimed, undeleted, map[string]any{"version": "1.32", "managementPolicies": []any{"Observe", "Create", "Update", "LateInitialize"}})
	told := map[string][]string{orphaned: provisioned, observed: nil, undeleted: provisioned[:1]} // the provider cannot do the last two
	p.exactly(claimed, orphaned, told[orphaned])
	for name := range told {
		p.delete(claimed, name)
		p.must(suite.WaitGone(p.Context(), claimed.resource, p.ns, name, time.Minute))
	}
	time.Sleep(5 * time.Second)
	for name, types := range told {
		p.exactly(claimed, name, types)
	}
}

// onlyDeclared fails if an event is about a composite of a claim, or about a composed resource.
func (p platform) onlyDeclared() {
	p.Helper()
	all, err := p.sink.events(p.Context())
	p.must(err)
	for _, e := range all {
		env := e.cd.CustomData.Environment
		if env != nil && !slices.ContainsFunc(families, func(f family) bool { return f.kind == env.Kind }) {
			p.Errorf("%s is about %s %s", e.cd.Context.Type, env.Kind, env.Name)
		}
	}
}

// change upgrades the clusters. The event must not come before every resource has the version and is ready.
func (p platform) change() {
	p.Helper()
	for _, f := range families {
		p.patch(f, f.name, `{"spec":{"version":"1.33"}}`)
	}
	want := slices.Concat(provisioned, []string{environmentModified})
	for _, f := range families {
		events := p.exactly(f, f.name, want)
		modified := events[len(events)-1]
		conforms(p.T, modified, "0.5.1")
		env := modified.cd.CustomData.Environment
		if env.Version != "1.33" || env.Previous == nil || env.Previous.Version != "1.32" {
			p.Errorf("environment.modified of %s says %s", f.name, compact(env))
		}
		for _, o := range p.composed(f, f.name) {
			version, _, _ := unstructured.NestedString(o.Object, "spec", "forProvider", "fields", "version") // absent: wrong
			if since := kit.ConditionSince(&o, "Ready"); version != "1.33" || since.After(modified.Time) {
				p.Errorf("environment.modified of %s came at %s; its resource %s has version %s, and is Ready since %s",
					f.name, modified.Time, o.GetName(), version, since)
			}
		}
	}
}

// trouble lets the resources fail for longer than the limit. A shorter failure is silent.
func (p platform) trouble() {
	p.Helper()
	before := slices.Concat(provisioned, []string{environmentModified})
	p.configure(map[string]string{"incident-environment-outage-after": "20s", "incident-environment-degraded-after": "20s"})
	for _, f := range families {
		p.annotate(f, f.name, trouble, "Unavailable")
	}
	began := time.Now()
	p.conditioned(ofTeam, "Ready", "False")
	p.annotate(ofTeam, ofTeam.name, trouble, "")
	for _, f := range []family{claimed, ofFleet} {
		events := p.exactly(f, f.name, append(before, detected))
		incident := events[len(events)-1]
		conforms(p.T, incident, "0.5.1")
		if kind := incident.cd.CustomData.Incident.Kind; kind != "environment-outage" || incident.Time.Sub(began) < 20*time.Second {
			p.Errorf("the incident of %s is %s, after %s", f.name, kind, incident.Time.Sub(began))
		}
		p.annotate(f, f.name, trouble, "")
	}
	for _, f := range []family{claimed, ofFleet} {
		p.exactly(f, f.name, append(before, detected, resolved))
	}
	p.exactly(ofTeam, ofTeam.name, before)
}

// broken lets the composition of two clusters fail. Their resources stay ready.
func (p platform) broken() {
	p.Helper()
	p.annotate(ofTeam, ofTeam.name, broken, "the quota is used up")
	events := p.exactly(ofTeam, ofTeam.name, slices.Concat(provisioned, []string{environmentModified, detected}))
	if kind := events[len(events)-1].cd.CustomData.Incident.Kind; kind != "environment-degraded" {
		p.Errorf("the incident is %s", kind)
	}
	p.annotate(ofTeam, ofTeam.name, broken, "")
	p.exactly(ofTeam, ofTeam.name, p.until(ofTeam))
}

// until returns the events of a family's cluster until it is paused.
func (platform) until(family) []string {
	return slices.Concat(provisioned, []string{environmentModified, detected, resolved})
}

// pause changes paused clusters. They are silent until they are not paused any more, and tell the change once.
func (p platform) pause() {
	p.Helper()
	for _, f := range families {
		p.annotate(f, f.name, paused, "true")
		p.conditioned(f, "Synced", "False")
		p.patch(f, f.name, `{"spec":{"version":"1.34"}}`)
	}
	time.Sleep(30 * time.Second) // longer than the limits of incidents
	for _, f := range families {
		p.exactly(f, f.name, p.until(f))
		p.annotate(f, f.name, paused, "")
	}
	for _, f := range families {
		p.exactly(f, f.name, append(p.until(f), environmentModified))
	}
}

// remove deletes the clusters. The event comes when the resources are gone too, which takes longer.
func (p platform) remove() {
	p.Helper()
	before := func(f family) []string { return append(p.until(f), environmentModified) }
	for _, f := range families {
		p.hold(f)
		p.delete(f, f.name)
	}
	for _, f := range families {
		p.must(suite.WaitGone(p.Context(), f.resource, f.in(p.ns), f.name, time.Minute))
	}
	time.Sleep(10 * time.Second)
	for _, f := range families {
		p.exactly(f, f.name, before(f))
		p.release(f)
	}
	for _, f := range families {
		events := p.exactly(f, f.name, append(before(f), environmentDeleted))
		gone := events[len(events)-1]
		conforms(p.T, gone, "0.5.1")
	}
	p.onlyDeclared()
}

// controllerDown creates, changes, deletes and replaces clusters while no controller runs. All is told once, after it.
func (p platform) controllerDown() {
	p.Helper()
	for _, name := range []string{"old", "changed", "steady", "again"} {
		p.declare(ofTeam, name, map[string]any{"version": "1.32"})
	}
	for _, name := range []string{"old", "changed", "steady", "again"} {
		p.exactly(ofTeam, name, provisioned)
	}
	p.withoutController(func() {
		p.patch(ofTeam, "changed", `{"spec":{"version":"1.33"}}`)
		for _, name := range []string{"old", "again"} {
			p.delete(ofTeam, name)
			p.must(suite.WaitGone(p.Context(), ofTeam.resource, p.ns, name, time.Minute))
		}
		p.declare(ofTeam, "again", map[string]any{"version": "1.32"})
		p.declare(claimed, "young", map[string]any{"version": "1.32"})
		time.Sleep(5 * time.Second) // conditions that still look as before
		p.must(suite.WaitCondition(p.Context(), ofTeam.resource, p.ns, "changed", "Ready", "True", time.Minute))
		p.must(suite.WaitCondition(p.Context(), ofTeam.resource, p.ns, "again", "Ready", "True", time.Minute))
		p.must(suite.WaitCondition(p.Context(), claimed.resource, p.ns, "young", "Ready", "True", time.Minute))
	})
	p.exactly(claimed, "young", provisioned)
	gone := append(provisioned, environmentDeleted)
	p.exactly(ofTeam, "old", gone)
	p.exactly(ofTeam, "again", slices.Concat(gone, provisioned))
	p.exactly(ofTeam, "changed", append(provisioned, environmentModified))
	// A restart does not repeat what was told before.
	p.exactly(ofTeam, "steady", provisioned)
	p.exactly(ofFleet, ofFleet.name, append(p.until(ofFleet), environmentModified, environmentDeleted))
}

// removeKinds removes the kinds, with the environments that still exist.
func (p platform) removeKinds() {
	p.Helper()
	p.declare(ofFleet, "last", map[string]any{"version": "1.32"})
	p.exactly(ofFleet, "last", provisioned)
	p.must(suite.Environments.RemoveCrossplaneKinds(p.Context()))
	gone := append(provisioned, environmentDeleted)
	p.exactly(ofFleet, "last", gone)
	p.exactly(ofTeam, "steady", gone)
	p.exactly(claimed, "young", gone)
	// All else goes on, and the kinds can come back.
	p.deploy("shop")
	p.sink.exactly(p.T, birth, about("shop"))
	p.must(suite.Environments.InstallCrossplaneKinds(p.Context()))
	p.declare(ofTeam, "back", map[string]any{"version": "1.32"})
	p.exactly(ofTeam, "back", provisioned)
}
