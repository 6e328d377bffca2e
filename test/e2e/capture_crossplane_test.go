// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// crossplaneStory records what the watches deliver of one environment: of its claim, its composite, and the resources
// below, merged in the order of their arrival.
type crossplaneStory struct {
	*scene
	name  string
	began time.Time

	mu  sync.Mutex
	all []seen
}

// TestCaptureCrossplane records the states of Crossplane's clusters, for the tests of reconciler/environment:
// make capture-environments. It needs no controller.
func TestCaptureCrossplane(t *testing.T) {
	dir := os.Getenv("E2E_CAPTURE_ENVIRONMENTS")
	if dir == "" {
		t.Skip("make capture-environments records the states of clusters")
	}
	dir = filepath.Join(dir, "crossplane-2.1")
	scene := emptyScene(t)
	scene.must(os.MkdirAll(dir, 0o755)) //nolint:gosec // the developer names the folder
	t.Cleanup(func() {
		if err := suite.Environments.RemoveCrossplane(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	scene.must(suite.Environments.InstallCrossplane(t.Context()))
	scene.must(suite.Environments.InstallCrossplaneKinds(t.Context()))
	t.Run("stories", func(t *testing.T) {
		for name, tell := range map[string]func(*crossplaneStory){
			"claim":          func(s *crossplaneStory) { s.life(claimed, kit.ClusterNopResources) },
			"namespaced":     func(s *crossplaneStory) { s.life(ofTeam, kit.NopResources) },
			"cluster-scoped": func(s *crossplaneStory) { s.life(ofFleet, kit.ClusterNopResources) },
			"managed":        (*crossplaneStory).managed,

			"claim-trouble":      func(s *crossplaneStory) { s.trouble(claimed) },
			"namespaced-trouble": func(s *crossplaneStory) { s.trouble(ofTeam) },
			"claim-broken":       func(s *crossplaneStory) { s.broken(claimed) },
			"namespaced-broken":  func(s *crossplaneStory) { s.broken(ofTeam) },
			"claim-paused":       func(s *crossplaneStory) { s.paused(claimed) },
			"namespaced-paused":  func(s *crossplaneStory) { s.paused(ofTeam) },
			"never-ready":        (*crossplaneStory).neverReady,
			"no-composition":     (*crossplaneStory).noComposition,
			"foreground":         (*crossplaneStory).foreground,
			"recreated":          (*crossplaneStory).recreated,

			"orphan": func(s *crossplaneStory) { s.policy(`{"deletionPolicy":"Orphan"}`) },
			"without-delete": func(s *crossplaneStory) {
				s.policy(`{"managementPolicies":["Observe","Create","Update","LateInitialize"]}`)
			},
			"observe-only": func(s *crossplaneStory) { s.policy(`{"managementPolicies":["Observe"]}`) },
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				own := *scene
				own.T = t
				story := &crossplaneStory{scene: &own, name: "xp-" + name, began: time.Now()}
				story.watch()
				tell(story)
				time.Sleep(2 * time.Second) // watches that lag
				story.mu.Lock()
				defer story.mu.Unlock()
				writeStory(&own, filepath.Join(dir, name+".json"), story.all)
			})
		}
	})
}

// family is one way to declare a cluster.
type family struct {
	resource   schema.GroupVersionResource
	kind       string
	namespaced bool
	// name is that of the test's own cluster.
	name string
}

var (
	claimed = family{kit.ClusterClaims, "ClusterClaim", true, "claimed"}
	ofTeam  = family{kit.TeamClusters, "TeamCluster", true, "of-team"}
	ofFleet = family{kit.FleetClusters, "FleetCluster", false, "of-fleet"}
)

// in returns the namespace of a family's objects.
func (f family) in(ns string) string {
	if f.namespaced {
		return ns
	}
	return ""
}

func (s *crossplaneStory) watch() {
	s.Helper()
	for _, of := range []schema.GroupVersionResource{
		kit.ClusterClaims, kit.CompositeClusters, kit.TeamClusters, kit.FleetClusters, kit.NopResources, kit.ClusterNopResources,
	} {
		w, err := suite.Dynamic.Resource(of).Watch(s.Context(), metav1.ListOptions{})
		s.must(err)
		s.Cleanup(w.Stop)
		go func() {
			for e := range w.ResultChan() {
				s.add(e)
			}
		}()
	}
}

// add keeps an update of the environment, or of what it consists of.
func (s *crossplaneStory) add(e watch.Event) {
	o, ok := e.Object.(*unstructured.Unstructured)
	if !ok {
		return
	}
	claim := o.GetLabels()["crossplane.io/claim-name"]
	if composite := o.GetLabels()["crossplane.io/composite"]; o.GetName() != s.name && claim != s.name && composite != s.name {
		return
	}
	o.SetManagedFields(nil)
	data, err := o.MarshalJSON()
	if err != nil {
		s.Error(err)
		return
	}
	var object map[string]any
	if err := json.Unmarshal([]byte(strings.ReplaceAll(string(data), s.ns, "team")), &object); err != nil {
		s.Error(err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, seen{time.Since(s.began).Round(10 * time.Millisecond).Seconds(), e.Type, object})
}

// declare creates the environment.
func (s *crossplaneStory) declare(f family, spec string) {
	s.Helper()
	var values map[string]any
	s.must(json.Unmarshal([]byte(spec), &values))
	if values["version"] == nil && f.kind != "ClusterNopResource" {
		values["version"] = "1.32"
	}
	o := kit.NewObject(f.resource, f.kind, f.in(s.ns), s.name, values)
	_, err := suite.Dynamic.Resource(f.resource).Namespace(f.in(s.ns)).Create(s.Context(), o, metav1.CreateOptions{})
	s.must(err)
}

// wait waits for a condition, and then for those that lag.
func (s *crossplaneStory) wait(f family, kind, status string) {
	s.Helper()
	s.must(suite.WaitCondition(s.Context(), f.resource, f.in(s.ns), s.name, kind, status, 5*time.Minute))
	time.Sleep(3 * time.Second)
}

func (s *crossplaneStory) change(f family, patch string) {
	s.Helper()
	s.must(suite.Merge(s.Context(), f.resource, f.in(s.ns), s.name, patch))
}

func (s *crossplaneStory) remove(f family) {
	s.Helper()
	s.must(suite.Dynamic.Resource(f.resource).Namespace(f.in(s.ns)).Delete(s.Context(), s.name, metav1.DeleteOptions{}))
}

func (s *crossplaneStory) gone(f family) {
	s.Helper()
	s.must(suite.WaitGone(s.Context(), f.resource, f.in(s.ns), s.name, 3*time.Minute))
}

// composed returns the resources that the environment consists of.
func (s *crossplaneStory) composed(of schema.GroupVersionResource) []unstructured.Unstructured {
	s.Helper()
	ns := s.ns
	if of == kit.ClusterNopResources {
		ns = ""
	}
	list, err := suite.Dynamic.Resource(of).Namespace(ns).List(s.Context(), metav1.ListOptions{})
	s.must(err)
	var own []unstructured.Unstructured
	for _, o := range list.Items {
		labels := o.GetLabels()
		if labels["crossplane.io/claim-name"] == s.name || labels["crossplane.io/composite"] == s.name {
			own = append(own, o)
		}
	}
	return own
}

// hold keeps the resources of the environment in existence after their deletion, as a slow provider does.
func (s *crossplaneStory) hold(of schema.GroupVersionResource) {
	s.Helper()
	for _, o := range s.composed(of) {
		finalizers := append(o.GetFinalizers(), "example.com/hold")
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": finalizers}})
		s.must(err)
		s.must(suite.Merge(s.Context(), of, o.GetNamespace(), o.GetName(), string(patch)))
	}
}

// release ends hold for the first n resources that are being deleted, and returns when they are gone.
func (s *crossplaneStory) release(of schema.GroupVersionResource, n int) {
	s.Helper()
	s.must(kit.Wait(s.Context(), 2*time.Minute, "the end of what was held", func(ctx context.Context) error {
		for _, o := range s.composed(of) { //nolint:contextcheck // uses the test's context
			if o.GetDeletionTimestamp() == nil {
				continue
			}
			s.must(suite.Merge(ctx, of, o.GetNamespace(), o.GetName(), `{"metadata":{"finalizers":null}}`))
			s.must(suite.WaitGone(ctx, of, o.GetNamespace(), o.GetName(), time.Minute))
			n--
		}
		if n > 0 {
			return kit.NotYet("%d are not being deleted", n)
		}
		return nil
	}))
}

// life is what happens to a cluster that is well. Its resources outlive it.
func (s *crossplaneStory) life(f family, below schema.GroupVersionResource) {
	s.declare(f, `{"resources":2}`)
	s.wait(f, "Ready", "True")
	s.change(f, `{"spec":{"version":"1.33"}}`)
	s.wait(f, "Ready", "False")
	s.wait(f, "Ready", "True")
	s.change(f, `{"spec":{"resources":3}}`)
	s.wait(f, "Ready", "False")
	s.wait(f, "Ready", "True")
	s.change(f, `{"spec":{"region":"eu-2"}}`) // changes without a time that is not Ready
	time.Sleep(10 * time.Second)
	s.hold(below)
	s.remove(f)
	s.gone(f)
	time.Sleep(10 * time.Second)
	s.release(below, 3)
}

// trouble is a cluster whose resources stop being ready for a while.
func (s *crossplaneStory) trouble(f family) {
	s.declare(f, `{}`)
	s.wait(f, "Ready", "True")
	s.change(f, `{"metadata":{"annotations":{"platform.example.com/trouble":"Unavailable"}}}`)
	s.wait(f, "Ready", "False")
	time.Sleep(15 * time.Second)
	s.change(f, `{"metadata":{"annotations":{"platform.example.com/trouble":null}}}`)
	s.wait(f, "Ready", "True")
	s.remove(f)
	s.gone(f)
}

// broken is a cluster whose composition fails for a while.
func (s *crossplaneStory) broken(f family) {
	s.declare(f, `{}`)
	s.wait(f, "Ready", "True")
	s.change(f, `{"metadata":{"annotations":{"platform.example.com/broken":"the quota is used up"}}}`)
	time.Sleep(20 * time.Second)
	s.change(f, `{"metadata":{"annotations":{"platform.example.com/broken":null}}}`)
	s.wait(f, "Synced", "True")
	s.wait(f, "Ready", "True")
	time.Sleep(10 * time.Second)
	s.remove(f)
	s.gone(f)
}

// paused is a cluster that is changed while it is paused.
func (s *crossplaneStory) paused(f family) {
	s.declare(f, `{}`)
	s.wait(f, "Ready", "True")
	s.change(f, `{"metadata":{"annotations":{"crossplane.io/paused":"true"}}}`)
	s.wait(f, "Synced", "False")
	s.change(f, `{"spec":{"version":"1.33"}}`)
	time.Sleep(10 * time.Second)
	s.change(f, `{"metadata":{"annotations":{"crossplane.io/paused":null}}}`)
	s.wait(f, "Ready", "False")
	s.wait(f, "Ready", "True")
	s.remove(f)
	s.gone(f)
}

// neverReady is a cluster that is deleted before it was ready.
func (s *crossplaneStory) neverReady() {
	s.declare(ofTeam, `{"readyAfter":"10h"}`)
	s.wait(ofTeam, "Ready", "False")
	time.Sleep(20 * time.Second)
	s.remove(ofTeam)
	s.gone(ofTeam)
}

// noComposition is a claim whose composition is missing at first.
func (s *crossplaneStory) noComposition() {
	s.declare(claimed, `{"compositionRef":{"name":"missing"}}`)
	time.Sleep(20 * time.Second)
	s.change(claimed, `{"spec":{"compositionRef":{"name":"compositeclusters"}}}`)
	s.wait(claimed, "Ready", "True")
	s.remove(claimed)
	s.gone(claimed)
}

// foreground is a claim that is gone only after what it consists of.
func (s *crossplaneStory) foreground() {
	s.declare(claimed, `{"compositeDeletePolicy":"Foreground"}`)
	s.wait(claimed, "Ready", "True")
	s.hold(kit.ClusterNopResources)
	s.remove(claimed)
	time.Sleep(10 * time.Second)
	s.release(kit.ClusterNopResources, 1)
	s.gone(claimed)
}

// recreated is a cluster that is created again while the resources of the first one are still being deleted.
func (s *crossplaneStory) recreated() {
	s.declare(ofTeam, `{}`)
	s.wait(ofTeam, "Ready", "True")
	s.hold(kit.NopResources)
	s.remove(ofTeam)
	s.gone(ofTeam)
	s.declare(ofTeam, `{}`)
	s.wait(ofTeam, "Ready", "True")
	s.release(kit.NopResources, 1)
	s.wait(ofTeam, "Ready", "True")
	s.remove(ofTeam)
	s.gone(ofTeam)
}

// policy is a claim whose resources have a policy other than the default.
func (s *crossplaneStory) policy(spec string) {
	s.declare(claimed, spec)
	time.Sleep(30 * time.Second) // a resource whose policy the provider does not know is not Synced
	s.remove(claimed)
	s.gone(claimed)
	time.Sleep(10 * time.Second)
}

// managed is a resource without a composite.
func (s *crossplaneStory) managed() {
	f := family{resource: kit.ClusterNopResources, kind: "ClusterNopResource"}
	s.declare(f, `{"forProvider":{"conditionAfter":[
		{"time":"0s","conditionType":"Ready","conditionStatus":"False","conditionReason":"Creating"},
		{"time":"8s","conditionType":"Ready","conditionStatus":"True","conditionReason":"Available"}]}}`)
	s.wait(f, "Ready", "True")
	s.change(f, `{"spec":{"forProvider":{"fields":{"version":"1.33"}}}}`)
	time.Sleep(10 * time.Second)
	s.change(f, `{"metadata":{"annotations":{"crossplane.io/paused":"true"}}}`)
	s.wait(f, "Synced", "False")
	s.change(f, `{"metadata":{"annotations":{"crossplane.io/paused":null}}}`)
	s.wait(f, "Synced", "True")
	s.change(f, `{"spec":{"managementPolicies":["Observe"]}}`)
	s.wait(f, "Synced", "False")
	s.change(f, `{"spec":{"managementPolicies":["*"]}}`)
	s.wait(f, "Synced", "True")
	s.change(f, `{"spec":{"forProvider":{"conditionAfter":[{"time":"0s","conditionType":"Ready","conditionStatus":"False","conditionReason":"Unavailable"}]}}}`)
	s.wait(f, "Ready", "False")
	s.change(f, `{"spec":{"forProvider":{"conditionAfter":[{"time":"0s","conditionType":"Ready","conditionStatus":"True","conditionReason":"Available"}]}}}`)
	s.wait(f, "Ready", "True")
	s.change(f, `{"metadata":{"finalizers":["finalizer.managedresource.crossplane.io","example.com/hold"]}}`)
	s.remove(f)
	time.Sleep(8 * time.Second)
	s.change(f, `{"metadata":{"finalizers":null}}`)
	s.gone(f)
}
