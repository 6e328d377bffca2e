//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// provisioned are the events of an environment of Crossplane that becomes ready.
var provisioned = []string{"dev.cdeventsx.crossplane-cluster.created.0.1.0", environmentCreated}

// platform is a namespace with clusters of Crossplane, and cluster-scoped ones beside it.
type platform struct{ *scene }

// The annotations that let the composition's function do harm.
const (
	trouble = "platform.example.com/trouble"
	broken  = "platform.example.com/broken"
	paused  = "crossplane.io/paused"
)

// TestCrossplane follows claims and composites of Crossplane from their creation to their deletion. Crossplane and the kinds
// are installed while the controller runs, and removed while it watches them.
func TestCrossplane(t *testing.T) {
	if !suite.full || !suite.Own() {
		t.Skip("it installs Crossplane on the cluster made by test/cluster: make e2e-full")
	}
	grantEnvironments(t)
	p := platform{newScene(t)}
	p.source("source", service("sink"), production)
	p.operator()
	t.Cleanup(func() {
		if err := suite.RemoveCrossplane(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	p.must(suite.InstallCrossplane(t.Context()))
	p.must(suite.InstallCrossplaneKinds(t.Context()))
	// What a composite consists of is of a chosen kind too, and is not announced beside it.
	p.must(suite.LabelCRDs(t.Context(), "knative-cdevents.dev/environment=true", kit.NopResources, kit.ClusterNopResources))

	p.create()
	p.change()
	p.trouble()
	p.broken()
	p.pause()
	p.remove()
	p.many(500)
	p.controllerDown()
	p.removeKinds()
	p.onlyReads()
}

// operator creates a source in the controller's namespace, which receives the events of cluster-scoped objects.
func (p platform) operator() {
	p.Helper()
	source := &v1alpha1.CDEventSource{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.SourceKind.Kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: kit.Namespace, Name: p.ns},
	}
	source.Spec.Sink = uri("http://sink." + p.ns + ".svc.cluster.local/operator")
	sources := suite.Ours.CDEventSources(kit.Namespace)
	_, err := sources.Create(p.Context(), source, metav1.CreateOptions{})
	p.must(err)
	p.Cleanup(func() {
		if err := sources.Delete(context.WithoutCancel(p.Context()), p.ns, metav1.DeleteOptions{}); err != nil {
			p.Error(err)
		}
	})
	own := *p.scene
	own.ns = kit.Namespace
	own.waitSource(p.ns)
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
			if f == claimed {
				capture(p.T, e)
			}
		}
		ready := events[1]
		endpoint, _, _ := unstructured.NestedString(o.Object, "status", "endpoint") // checked below
		if env := ready.cd.CustomData.Environment; env.Version != "1.32" || endpoint == "" || ready.cd.Subject.Content.URI != endpoint {
			p.Errorf("environment.created of %s says %s, and the URI is %q, not %q", f.name, compact(env), ready.cd.Subject.Content.URI, endpoint)
		}
	}
	p.onlyDeclared()
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
	p.configure(map[string]string{"incident-environment-outage-after": "15s", "incident-environment-degraded-after": "15s"})
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
		if kind := incident.cd.CustomData.Incident.Kind; kind != "environment-outage" || incident.Time.Sub(began) < 15*time.Second {
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
	time.Sleep(25 * time.Second) // longer than the limits of incidents
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
		if f == claimed {
			capture(p.T, gone)
		}
	}
	p.onlyDeclared()
}

// many creates and deletes that many environments at once: managed resources without a composite.
func (p platform) many(n int) {
	p.Helper()
	of := suite.Dynamic.Resource(kit.NopResources).Namespace(p.ns)
	ready := []any{map[string]any{"time": "1s", "conditionType": "Ready", "conditionStatus": "True", "conditionReason": "Available"}}
	began := time.Now()
	var all errgroup.Group
	all.SetLimit(20)
	for i := range n {
		all.Go(func() error {
			spec := map[string]any{"forProvider": map[string]any{"conditionAfter": ready}}
			_, err := of.Create(p.Context(), kit.NewObject(kit.NopResources, "NopResource", p.ns, fmt.Sprintf("many-%03d", i), spec), metav1.CreateOptions{})
			return err
		})
	}
	p.must(all.Wait())
	p.counted(n, provisioned)
	say("%d environments were created and announced in %s", n, took(began))

	began = time.Now()
	p.must(of.DeleteCollection(p.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	p.counted(n, append(provisioned, environmentDeleted))
	say("%d environments were deleted and announced in %s", n, took(began))
}

// counted waits until each of the many environments has told exactly these events, in this order.
func (p platform) counted(n int, want []string) {
	p.Helper()
	told := func(ctx context.Context) (map[string][]string, error) {
		all, err := p.sink.events(ctx)
		if err != nil {
			return nil, err
		}
		by := map[string][]string{}
		for _, e := range choose(all, accepted, at("/")) {
			if env := e.cd.CustomData.Environment; env != nil && env.Kind == "NopResource" {
				by[env.Name] = append(by[env.Name], e.Header.Get("Ce-Type"))
			}
		}
		return by, nil
	}
	p.must(kit.Wait(p.Context(), 5*time.Minute, "the events of many environments", func(ctx context.Context) error {
		by, err := told(ctx)
		if err != nil {
			return err
		}
		done := 0
		for _, types := range by {
			if len(types) >= len(want) {
				done++
			}
		}
		if done < n {
			return kit.NotYet("%d of %d have told all", done, n)
		}
		return nil
	}))
	time.Sleep(still)
	by, err := told(p.Context())
	p.must(err)
	for name, types := range by {
		if !slices.Equal(types, want) {
			p.Errorf("%s has told %s", name, strings.Join(types, ", "))
		}
	}
	if len(by) != n {
		p.Errorf("%d environments told something, not %d", len(by), n)
	}
}

// controllerDown deletes a cluster, creates and changes others while no controller runs.
func (p platform) controllerDown() {
	p.Helper()
	for _, name := range []string{"old", "steady"} {
		p.declare(ofTeam, name, map[string]any{"version": "1.32"})
		p.exactly(ofTeam, name, provisioned)
	}
	d, err := suite.Controller(p.Context())
	p.must(err)
	back := func(ctx context.Context) error { return suite.Scale(ctx, int(*d.Spec.Replicas)) }
	p.Cleanup(func() {
		if err := back(context.WithoutCancel(p.Context())); err != nil {
			p.Error(err)
		}
	})
	p.must(suite.Scale(p.Context(), 0))
	p.delete(ofTeam, "old")
	p.must(suite.WaitGone(p.Context(), ofTeam.resource, p.ns, "old", time.Minute))
	p.declare(claimed, "young", map[string]any{"version": "1.32"})
	p.must(suite.WaitCondition(p.Context(), claimed.resource, p.ns, "young", "Ready", "True", time.Minute))
	p.must(back(p.Context()))
	p.must(suite.WaitController(p.Context()))
	p.must(suite.WaitLeader(p.Context()))

	p.exactly(claimed, "young", provisioned)
	p.exactly(ofTeam, "old", append(provisioned, environmentDeleted))
	p.exactly(ofTeam, "steady", provisioned)
	// A restart does not repeat what was told before.
	p.exactly(ofFleet, ofFleet.name, append(p.until(ofFleet), environmentModified, environmentDeleted))
}

// removeKinds removes the kinds, with the environments that still exist.
func (p platform) removeKinds() {
	p.Helper()
	p.declare(ofFleet, "last", map[string]any{"version": "1.32"})
	p.exactly(ofFleet, "last", provisioned)
	p.must(suite.RemoveCrossplaneKinds(p.Context()))
	gone := append(provisioned, environmentDeleted)
	p.exactly(ofFleet, "last", gone)
	p.exactly(ofTeam, "steady", gone)
	p.exactly(claimed, "young", gone)
	// All else goes on, and the kinds can come back.
	p.deploy("shop")
	p.sink.exactly(p.T, birth, about("shop"))
	p.must(suite.InstallCrossplaneKinds(p.Context()))
	p.declare(ofTeam, "again", map[string]any{"version": "1.32"})
	p.exactly(ofTeam, "again", provisioned)
}

// onlyReads reads the audit log: the controller only gets, lists and watches what belongs to Crossplane.
func (p platform) onlyReads() {
	p.Helper()
	user, err := suite.ServiceAccount(p.Context())
	p.must(err)
	all, err := suite.audit.of(user)
	p.must(err)
	verbs := map[string]int{}
	for _, e := range all {
		if e.ObjectRef == nil || e.ObjectRef.APIGroup != kit.TeamClusters.Group && !strings.HasSuffix(e.ObjectRef.APIGroup, "crossplane.io") {
			continue
		}
		verbs[e.Verb]++
		if !e.reads() {
			p.Errorf("the controller wrote: %s", e)
		}
	}
	if verbs["get"] == 0 || verbs["list"] == 0 || verbs["watch"] == 0 {
		p.Errorf("the audit log does not show that the controller reads composites: %v", verbs)
	}
}

// beneath is the kind of the resources that a family's clusters consist of.
func (f family) beneath() schema.GroupVersionResource {
	if f == ofTeam {
		return kit.NopResources
	}
	return kit.ClusterNopResources
}

// exactly waits for the events of an environment, and fails if more arrive. Those of cluster-scoped ones go to the
// operator's source only.
func (p platform) exactly(f family, name string, types []string) []event {
	p.Helper()
	path := "/operator"
	if f.namespaced {
		path = "/"
	}
	return p.sink.exactly(p.T, types, at(path), ofEnvironment(name))
}

func (p platform) declare(f family, name string, spec map[string]any) {
	p.Helper()
	_, err := suite.Dynamic.Resource(f.resource).Namespace(f.in(p.ns)).
		Create(p.Context(), kit.NewObject(f.resource, f.kind, f.in(p.ns), name, spec), metav1.CreateOptions{})
	p.must(err)
}

func (p platform) get(f family, name string) *unstructured.Unstructured {
	p.Helper()
	o, err := suite.Dynamic.Resource(f.resource).Namespace(f.in(p.ns)).Get(p.Context(), name, metav1.GetOptions{})
	p.must(err)
	return o
}

func (p platform) patch(f family, name, patch string) {
	p.Helper()
	p.must(suite.Merge(p.Context(), f.resource, f.in(p.ns), name, patch))
}

// annotate sets an annotation; an empty value removes it.
func (p platform) annotate(f family, name, key, value string) {
	p.Helper()
	var v any = value
	if value == "" {
		v = nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: v}}})
	p.must(err)
	p.patch(f, name, string(patch))
}

func (p platform) conditioned(f family, condition, status string) {
	p.Helper()
	p.must(suite.WaitCondition(p.Context(), f.resource, f.in(p.ns), f.name, condition, status, time.Minute))
}

func (p platform) delete(f family, name string) {
	p.Helper()
	err := suite.Dynamic.Resource(f.resource).Namespace(f.in(p.ns)).Delete(p.Context(), name, metav1.DeleteOptions{})
	if !apierrors.IsNotFound(err) {
		p.must(err)
	}
}

// composed returns the resources that a cluster consists of.
func (p platform) composed(f family, name string) []unstructured.Unstructured {
	p.Helper()
	composite, ns := name, f.in(p.ns)
	if f == claimed {
		composite, _, _ = unstructured.NestedString(p.get(f, name).Object, "spec", "resourceRef", "name") // none is found without
		ns = ""
	}
	all, err := suite.Composed(p.Context(), f.beneath(), ns, composite)
	p.must(err)
	if len(all) == 0 {
		p.Fatalf("%s consists of nothing", name)
	}
	return all
}

// held is the finalizer that keeps resources in existence after their deletion, as a slow provider does.
const held = "example.com/held"

func (p platform) hold(f family) {
	p.Helper()
	for _, o := range p.composed(f, f.name) {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": append(o.GetFinalizers(), held)}})
		p.must(err)
		p.must(suite.Merge(p.Context(), f.beneath(), o.GetNamespace(), o.GetName(), string(patch)))
	}
}

// release lets all resources of the family's kind go that hold kept.
func (p platform) release(f family) {
	p.Helper()
	list, err := suite.Dynamic.Resource(f.beneath()).List(p.Context(), metav1.ListOptions{})
	p.must(err)
	for _, o := range list.Items {
		if slices.Contains(o.GetFinalizers(), held) && strings.HasPrefix(o.GetName(), f.name) {
			p.must(suite.Merge(p.Context(), f.beneath(), o.GetNamespace(), o.GetName(), `{"metadata":{"finalizers":null}}`))
		}
	}
}
