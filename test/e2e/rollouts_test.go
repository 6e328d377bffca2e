// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	duckv1 "knative.dev/pkg/apis/duck/v1"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
	servingv1beta1 "knative.dev/serving/pkg/apis/serving/v1beta1"

	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// rollout is one way to change a Knative Service, with all events that it causes.
type rollout struct {
	// make modifies the Service before its creation.
	make func(*servingv1.Service)
	// onCreate lists the events of its creation; birth if it is nil.
	onCreate []string
	then     []change
	// reason is that of the last event, if it has one.
	reason string
}

// change is a change by a user, with the state to wait for and the events that it causes.
type change struct {
	do func(*servingv1.Service)
	// revision is the number of the latest Ready Revision after the change; 0 if it stays the same.
	revision int
	events   []string
	// act is done in addition to do, or instead.
	act func(ctx context.Context, s *scene, name string) error
}

// pinned splits the traffic between Revisions by number.
func pinned(percentAndRevision ...int) func(*servingv1.Service) {
	return func(svc *servingv1.Service) {
		var shares []kit.Share
		for i := 0; i < len(percentAndRevision); i += 2 {
			shares = append(shares, kit.Share{Revision: kit.RevisionName(svc.Name, percentAndRevision[i+1]), Percent: int64(percentAndRevision[i])})
		}
		kit.SetTraffic(svc, shares...)
	}
}

func version(v string) func(*servingv1.Service) {
	return func(svc *servingv1.Service) { kit.SetVersion(svc, v) }
}

func both(all ...func(*servingv1.Service)) func(*servingv1.Service) {
	return func(svc *servingv1.Service) {
		for _, f := range all {
			f(svc)
		}
	}
}

func latest(svc *servingv1.Service) { kit.SetTraffic(svc, kit.Share{Percent: 100}) }

func image(ref string) func(*servingv1.Service) {
	return func(svc *servingv1.Service) { svc.Spec.Template.Spec.Containers[0].Image = ref }
}

func named(suffix string) func(*servingv1.Service) {
	return func(svc *servingv1.Service) { svc.Spec.Template.Name = svc.Name + "-" + suffix }
}

func tagged(svc *servingv1.Service) { svc.Spec.Traffic[0].Tag = "current" }

func twoTags(svc *servingv1.Service) { svc.Spec.Traffic[0].Tag, svc.Spec.Traffic[1].Tag = "a", "b" }

func clusterLocal(svc *servingv1.Service) {
	svc.Labels = map[string]string{"networking.knative.dev/visibility": "cluster-local"}
}

// rollouts returns every kind of change that Knative has. The keys are the names of the Services.
func rollouts() map[string]rollout {
	return map[string]rollout{
		"configuration": {then: []change{{do: version("two"), revision: 2, events: []string{revisionReady, upgraded}}}, reason: "ConfigurationChanged"},
		"latest":        {then: []change{{do: image(suite.next), revision: 2, events: []string{revisionReady, upgraded}}}},
		"pinned": {then: []change{
			{do: both(version("two"), pinned(100, 1)), revision: 2, events: []string{revisionReady}},
			{do: pinned(100, 2), events: []string{upgraded}},
		}, reason: "ConfigurationChanged"},
		"back": {then: []change{
			{do: version("two"), revision: 2, events: []string{revisionReady, upgraded}},
			{do: pinned(100, 1), events: []string{rolledBack}},
		}, reason: "TrafficMoved"},
		"reverted": {then: []change{
			{do: version("two"), revision: 2, events: []string{revisionReady, upgraded}},
			{do: version("one"), revision: 3, events: []string{revisionReady, rolledBack}},
		}, reason: "TemplateReapplied"},
		"withdrawn": {then: []change{
			{do: both(version("two"), pinned(90, 1, 10, 2)), revision: 2, events: []string{revisionReady, shifted}},
			{do: pinned(100, 1), events: []string{rolledBack}},
		}, reason: "CanaryWithdrawn"},
		"canary": {then: []change{
			{do: both(image(suite.next), pinned(90, 1, 10, 2)), revision: 2, events: []string{revisionReady, shifted}},
			{do: pinned(50, 1, 50, 2), events: []string{shifted}},
			{do: pinned(100, 2), events: []string{upgraded}},
		}},
		// Two targets for one Revision count as one share. Without tags Serving merges them, and then never reports the
		// requested traffic.
		"several-targets": {then: []change{{do: both(pinned(60, 1, 40, 1), twoTags), events: []string{published}}}},
		"tag":             {then: []change{{do: both(latest, tagged), events: []string{published}}}},
		"own-names": {
			make: named("blue"),
			then: []change{
				{do: both(version("two"), named("azure")), act: waitLatest("azure"), events: []string{revisionReady, upgraded}},
				// The first template is applied again under its name, so no new Revision is created.
				{do: both(version("one"), named("blue")), act: waitLatest("blue"), events: []string{rolledBack}},
			},
			reason: "TrafficMoved",
		},
		"cluster-local": {
			make: clusterLocal, onCreate: []string{created, revisionReady, deployed},
			then: []change{{do: func(svc *servingv1.Service) { svc.Labels = nil }, act: waitPublic, events: []string{published}}},
		},
		"domain": {then: []change{
			{act: mapDomain, events: []string{published}},
			{act: unmapDomain, events: []string{published}},
		}},
		"again": {then: []change{{act: remake, events: slices.Concat([]string{removed}, birth)}}},
		// Changes to the Service's labels and annotations are not releases.
		"touched": {then: []change{{do: func(svc *servingv1.Service) { svc.Annotations["example.com/touched"] = "true" }}}},
	}
}

// TestRollouts covers every kind of change, in parallel.
func TestRollouts(t *testing.T) {
	s := newScene(t)
	s.source("source", service("sink"))
	all := rollouts()
	want := map[string][]string{}
	var mu sync.Mutex
	t.Run("go", func(t *testing.T) {
		// With more at once, each would exceed Serving's own time limits.
		turn := make(chan struct{}, 4)
		for name, r := range all {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				turn <- struct{}{}
				defer func() { <-turn }()
				expected := r.play(t, s, name)
				mu.Lock()
				defer mu.Unlock()
				want[name] = expected
			})
		}
	})
	if t.Failed() {
		return
	}
	for name, types := range want {
		events := s.sink.exactly(t, types, about(name))
		for _, e := range events {
			conforms(t, e, "0.5.1")
		}
		if last := events[len(events)-1]; last.cd.CustomData.Reason != all[name].reason {
			t.Errorf("%s: the last event has the reason %q, want %q", name, last.cd.CustomData.Reason, all[name].reason)
		}
		s.counted(t, name, all[name].reason, types)
	}
}

// counted compares DORA's metrics of a Service with its events. All its rollbacks have the same reason.
func (s *scene) counted(t *testing.T, name, reason string, types []string) {
	t.Helper()
	want := map[string]float64{}
	for _, typ := range types {
		switch {
		case typ == removed:
			clear(want) // what has its name next begins at 0
		case typ == deployed, typ == upgraded:
			want["dora_deployments_total completed"]++
		case typ == rolledBack && reason == "CanaryWithdrawn":
			want["dora_deployments_total stopped"]++
			want["dora_change_failures_total stopped"]++
		case typ == rolledBack:
			want["dora_change_failures_total completed"]++
		}
	}
	if len(want) == 0 {
		return
	}
	err := kit.Wait(t.Context(), time.Minute, "DORA's metrics of "+name, func(ctx context.Context) error {
		measured, err := suite.Carts.MeasuredOf(ctx, s.ns, name)
		if err != nil {
			return err //nolint:wrapcheck // it says what was read
		}
		got := map[string]float64{}
		for _, family := range []string{"dora_deployments_total", "dora_change_failures_total"} {
			for _, sample := range measured[family] {
				got[family+" "+sample.Labels["outcome"]] += sample.Value
			}
		}
		if !maps.Equal(got, want) {
			return kit.NotYet("%v, want %v", got, want)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// play makes the changes in turn, and returns all expected events.
func (r rollout) play(t *testing.T, s *scene, name string) []string {
	t.Helper()
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	app := kit.App(s.ns, name, suite.app, "one")
	if r.make != nil {
		r.make(app)
	}
	must(suite.Services.Create(ctx, app))
	_, err := suite.Services.Wait(ctx, s.ns, name, "")
	must(err)
	expected := birth
	if r.onCreate != nil {
		expected = r.onCreate
	}
	s.sink.atLeast(t, expected, about(name))
	for _, c := range r.then {
		if c.do != nil {
			must(suite.Services.Update(ctx, s.ns, name, c.do))
		}
		revision := ""
		if c.revision > 0 {
			revision = kit.RevisionName(name, c.revision)
		}
		_, err := suite.Services.Wait(ctx, s.ns, name, revision)
		must(err)
		if c.act != nil {
			must(c.act(ctx, s, name))
		}
		expected = slices.Concat(expected, c.events)
		s.sink.atLeast(t, expected, about(name))
	}
	return expected
}

func waitLatest(suffix string) func(context.Context, *scene, string) error {
	return func(ctx context.Context, s *scene, name string) error {
		_, err := suite.Services.Wait(ctx, s.ns, name, name+"-"+suffix)
		return err
	}
}

func waitPublic(ctx context.Context, s *scene, name string) error {
	return kit.Wait(ctx, patience, "Service "+name+" to be public", func(ctx context.Context) error {
		svc, err := suite.Serving.ServingV1().Services(s.ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if u := svc.Status.URL; !svc.IsReady() || u == nil || strings.HasSuffix(u.URL().Hostname(), ".svc.cluster.local") {
			return kit.NotYet("the URL is %s", svc.Status.URL)
		}
		return nil
	})
}

func domainOf(s *scene) string { return "shop." + s.ns + ".example.org" }

func mapDomain(ctx context.Context, s *scene, name string) error {
	d := &servingv1beta1.DomainMapping{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: domainOf(s)}}
	d.Spec.Ref = duckv1.KReference{APIVersion: "serving.knative.dev/v1", Kind: "Service", Namespace: s.ns, Name: name}
	api := suite.Serving.ServingV1beta1().DomainMappings(s.ns)
	if err := suite.Services.ClaimDomain(ctx, d.Name, s.ns); err != nil {
		return err
	}
	if _, err := api.Create(ctx, d, metav1.CreateOptions{}); err != nil {
		return err
	}
	return kit.Wait(ctx, patience, "DomainMapping "+d.Name, func(ctx context.Context) error {
		d, err := api.Get(ctx, d.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if c := d.Status.GetCondition(servingv1beta1.DomainMappingConditionReady); c == nil || c.Status != corev1.ConditionTrue {
			return kit.NotYet("conditions: %s", compact(d.Status.Conditions))
		}
		return nil
	})
}

func unmapDomain(ctx context.Context, s *scene, _ string) error {
	if err := suite.Serving.ServingV1beta1().DomainMappings(s.ns).Delete(ctx, domainOf(s), metav1.DeleteOptions{}); err != nil {
		return err
	}
	return suite.Services.UnclaimDomain(ctx, domainOf(s))
}

func remake(ctx context.Context, s *scene, name string) error {
	if err := suite.Services.Delete(ctx, s.ns, name); err != nil {
		return err
	}
	if err := suite.Services.Create(ctx, kit.App(s.ns, name, suite.app, "one")); err != nil {
		return err
	}
	_, err := suite.Services.Wait(ctx, s.ns, name, "")
	return err
}
