// SPDX-License-Identifier: Apache-2.0

package servicestate

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/canary/gaterun"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
	"github.com/knative-cdevents/knative-cdevents/reconciler/pods"
)

func TestServiceForGates(t *testing.T) {
	t.Parallel()
	snapshot := lifecycle.Snapshot{
		Ready: true,
		Route: &lifecycle.Route{Effective: true, Rollout: true, Traffic: lifecycle.Split{{Revision: "cart-1", Percent: 90}, {Revision: "cart-2", Percent: 10}}},
		Revisions: map[string]*lifecycle.Revision{
			"cart-1": {Name: "cart-1", UID: "r1", Generation: 1, Stateful: "pekko"}, "cart-2": {Name: "cart-2", UID: "r2", Generation: 2}, "cart-3": {Name: "cart-3", UID: "r3", Generation: 3},
		},
	}
	v, _ := viewOf(&fakePods{}, snapshot)
	if _, known := v.Service(cartKey); known {
		t.Error("a Service is known before the caches are complete")
	}
	v.UpdateCluster(cartKey, observer.Part{Value: &lifecycle.Cluster{ClusterStatus: lifecycle.ClusterStatus{State: lifecycle.ClusterReady}}})
	got := v.state(cartKey, "u", snapshot)
	diff := cmp.Diff(snapshot.Revisions, got.Revisions) + cmp.Diff(snapshot.Route.Traffic, got.Traffic)
	if diff != "" || got.UID != "u" || !got.Settled || !got.Effective || !got.Rollout || !got.Moving || got.MovingUnknown {
		t.Errorf("%+v %s", got, diff)
	}
	v.UpdateCluster(cartKey, observer.Part{Value: &lifecycle.Cluster{ClusterStatus: lifecycle.ClusterStatus{State: lifecycle.ClusterUnknown}}})
	if got := v.state(cartKey, "u", snapshot); got.Moving || !got.MovingUnknown {
		t.Errorf("no pod answers: %+v", got)
	}
	v.UpdateCluster(cartKey, observer.Part{})
	if got := v.state(cartKey, "", lifecycle.Snapshot{}); got.Effective || got.Moving || !got.MovingUnknown {
		t.Errorf("without a Route: %+v", got)
	}
}

var none gaterun.Misplacement

func shards(n int) gaterun.Misplacement {
	return gaterun.Misplacement{Reason: gaterun.ShardsMisplaced, Shards: n}
}

func TestMisplacedShards(t *testing.T) {
	t.Parallel()
	ten := lifecycle.Split{{Revision: "cart-1", Percent: 90}, {Revision: "cart-2", Percent: 10}}
	all := lifecycle.Split{{Revision: "cart-1", Percent: 100}}
	for name, c := range map[string]struct {
		placement *lifecycle.Placement
		rollout   bool
		want      gaterun.Misplacement
	}{
		"not known":              {},
		"no plan":                {placement: &lifecycle.Placement{}},
		"a plan to observe":      {placement: &lifecycle.Placement{Mode: lifecycle.PlacementObserve, Pending: 3, Split: ten}},
		"an older plan":          {placement: &lifecycle.Placement{Mode: lifecycle.PlacementEnforce, Split: all}, want: gaterun.Misplacement{Reason: gaterun.PlacementPlanMissing}},
		"shards move":            {placement: &lifecycle.Placement{Mode: lifecycle.PlacementEnforce, Split: ten, Pending: 3}, want: shards(3)},
		"a shard moves":          {placement: &lifecycle.Placement{Mode: lifecycle.PlacementEnforce, Split: ten, Pending: 1}, want: shards(1)},
		"in place":               {placement: &lifecycle.Placement{Mode: lifecycle.PlacementEnforce, Split: ten}},
		"nothing follows":        {placement: &lifecycle.Placement{Mode: lifecycle.PlacementEnforce, Split: ten, Pending: 3, Coordinator: "cart-1"}},
		"step by step, no waits": {placement: &lifecycle.Placement{Mode: lifecycle.PlacementEnforce, Split: all}, rollout: true},
	} {
		v, _ := viewOf(&fakePods{}, lifecycle.Snapshot{})
		v.UpdateCluster(cartKey, observer.Part{Value: &lifecycle.Cluster{ClusterStatus: lifecycle.ClusterStatus{State: lifecycle.ClusterReady, Placement: c.placement}}})
		snapshot := lifecycle.Snapshot{Route: &lifecycle.Route{Effective: true, Rollout: c.rollout, Traffic: ten}}
		if got := v.state(cartKey, "u", snapshot).Misplaced; got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// Gates compare what is handled with a plan only if it is for the split in effect and the cluster follows it.
func TestPlanForGates(t *testing.T) {
	t.Parallel()
	ten := lifecycle.Split{{Revision: "cart-1", Percent: 90}, {Revision: "cart-2", Percent: 10}}
	all := lifecycle.Split{{Revision: "cart-1", Percent: 100}}
	stored := &v1alpha1.ShardPlacement{Status: v1alpha1.ShardPlacementStatus{Version: 7, Mode: v1alpha1.PlacementEnforce}}
	observed := &v1alpha1.ShardPlacement{Status: v1alpha1.ShardPlacementStatus{Version: 8, Mode: v1alpha1.PlacementObserve}}
	for name, c := range map[string]struct {
		placement *lifecycle.Placement
		stored    *v1alpha1.ShardPlacement
		want      bool
	}{
		"followed":              {&lifecycle.Placement{Mode: lifecycle.PlacementEnforce, Split: ten, Pending: 3}, stored, true},
		"not stored":            {&lifecycle.Placement{Mode: lifecycle.PlacementEnforce, Split: ten}, nil, false},
		"stored for observing":  {&lifecycle.Placement{Mode: lifecycle.PlacementEnforce, Split: ten}, observed, false},
		"for observing":         {&lifecycle.Placement{Mode: lifecycle.PlacementObserve, Split: ten}, stored, false},
		"for another split":     {&lifecycle.Placement{Mode: lifecycle.PlacementEnforce, Split: all}, stored, false},
		"nothing follows":       {&lifecycle.Placement{Mode: lifecycle.PlacementEnforce, Split: ten, Coordinator: "cart-1"}, stored, false},
		"the cluster has none":  {&lifecycle.Placement{}, stored, false},
		"it is not known where": {nil, stored, false},
	} {
		v, _ := viewOf(&fakePods{}, lifecycle.Snapshot{})
		plans := &fakePlans{t: t}
		v.plans = plans
		snapshot := lifecycle.Snapshot{Route: &lifecycle.Route{Effective: true, Traffic: ten}}
		v.UpdateCluster(cartKey, observer.Part{Value: &lifecycle.Cluster{ClusterStatus: lifecycle.ClusterStatus{State: lifecycle.ClusterReady, Placement: c.placement}}})
		if got := v.state(cartKey, "u", snapshot).Plan; got != nil {
			t.Errorf("%s: a plan before plans are known", name)
		}
		plans.plan = c.stored
		if got := v.state(cartKey, "u", snapshot).Plan; (got != nil) != c.want || got != nil && got.Version != 7 {
			t.Errorf("%s: %+v", name, got)
		}
		if got := v.state(cartKey, "u", lifecycle.Snapshot{}).Plan; got != nil {
			t.Errorf("%s: a plan without a Route", name)
		}
	}
}

// Two pods name a shard that moves, or one that starts does not answer: then a poll cannot tell where the shards are.
func TestShardsStayMisplacedWhileAPollCannotTell(t *testing.T) {
	t.Parallel()
	ten := lifecycle.Split{{Revision: "cart-1", Percent: 90}, {Revision: "cart-2", Percent: 10}}
	snapshot := lifecycle.Snapshot{Route: &lifecycle.Route{Effective: true, Traffic: ten}}
	v, _ := viewOf(&fakePods{}, lifecycle.Snapshot{})
	saw := func(state lifecycle.ClusterState, p *lifecycle.Placement) gaterun.Misplacement {
		v.UpdateCluster(cartKey, observer.Part{Value: &lifecycle.Cluster{ClusterStatus: lifecycle.ClusterStatus{State: state, Placement: p}}})
		return v.state(cartKey, "u", snapshot).Misplaced
	}
	moving := saw(lifecycle.ClusterUpgrading, &lifecycle.Placement{Mode: lifecycle.PlacementEnforce, Split: ten, Pending: 3})
	for _, state := range []lifecycle.ClusterState{lifecycle.ClusterUpgrading, lifecycle.ClusterUnknown} {
		if got := saw(state, nil); got != moving || got != shards(3) {
			t.Errorf("%s: %v, want %v", state, got, moving)
		}
	}
	if got := saw(lifecycle.ClusterScaledToZero, nil); got != none {
		t.Errorf("without pods: %v", got)
	}
}

// A leader that has just taken over has not polled the cluster yet, or its first polls cannot tell where the shards
// are.
func TestShardsAreMisplacedUntilANewLeaderKnowsBetter(t *testing.T) {
	t.Parallel()
	ten := lifecycle.Split{{Revision: "cart-1", Percent: 90}, {Revision: "cart-2", Percent: 10}}
	snapshot := lifecycle.Snapshot{Route: &lifecycle.Route{Effective: true, Traffic: ten}}
	declares := func(placement string) map[string]string {
		return map[string]string{v1alpha1.AnnotationRuntime: "pekko", v1alpha1.AnnotationEntityTypes: "Cart", v1alpha1.AnnotationPlacement: placement}
	}
	older, newer := running("p1", "10.0.0.1", declares("observe")), running("p2", "10.0.0.2", declares("enforce"))
	older.ServiceUID, older.Generation, newer.ServiceUID, newer.Generation = "u", 1, "u", 2
	there := &fakePods{pods: []*pods.Pod{older, newer}}
	v, _ := viewOf(there, snapshot)
	misplaced := func() gaterun.Misplacement { return v.state(cartKey, "u", snapshot).Misplaced }
	if got := misplaced(); got != none {
		t.Errorf("pods that are not verified count: %v", got)
	}
	v.Targets(t.Context(), cartKey)
	want := gaterun.Misplacement{Reason: gaterun.PlacementUnknown}
	if got := misplaced(); got != want {
		t.Errorf("before the first poll: %v, want %v", got, want)
	}
	saw := func(state lifecycle.ClusterState, p *lifecycle.Placement) {
		v.UpdateCluster(cartKey, observer.Part{Value: &lifecycle.Cluster{ClusterStatus: lifecycle.ClusterStatus{State: state, Placement: p}}})
	}
	if saw(lifecycle.ClusterUnknown, nil); misplaced() != want {
		t.Errorf("after a poll without an answer: %v, want %v", misplaced(), want)
	}
	if saw(lifecycle.ClusterUpgrading, &lifecycle.Placement{Mode: lifecycle.PlacementEnforce, Split: ten}); misplaced() != none {
		t.Errorf("in place: %v", misplaced())
	}
	v.UpdateCluster(cartKey, observer.Part{})
	newer.Annotations = declares("observe")
	if got := misplaced(); got != none {
		t.Errorf("the newest Revision only observes: %v", got)
	}
	newer.Annotations = declares("enforce")
	older.Annotations = map[string]string{v1alpha1.AnnotationRuntime: "protoactor"} // without a port
	if got := misplaced(); got != none {
		t.Errorf("there can be no plan: %v", got)
	}
}

// A split counts only when the ingress has it, not when Serving has written it.
func TestSplitIsEffective(t *testing.T) {
	t.Parallel()
	traffic := lifecycle.Split{{Revision: "cart-1", Percent: 90}, {Revision: "cart-2", Percent: 10}}
	both := map[string]*lifecycle.Revision{"cart-1": {Name: "cart-1", UID: "r1"}, "cart-2": {Name: "cart-2", UID: "r2"}}
	for name, c := range map[string]struct {
		route     *lifecycle.Route
		revisions map[string]*lifecycle.Revision
		want      map[string]int64
		rollout   bool
	}{
		"no Route":      {revisions: both},
		"being changed": {route: &lifecycle.Route{Traffic: traffic}, revisions: both},
		"effective": {
			route: &lifecycle.Route{Effective: true, Traffic: traffic}, revisions: both, want: map[string]int64{"cart-1": 90, "cart-2": 10},
		},
		"gradual rollout":     {route: &lifecycle.Route{Effective: true, Rollout: true}, revisions: both, want: map[string]int64{}, rollout: true},
		"an unknown Revision": {route: &lifecycle.Route{Effective: true, Traffic: traffic}, revisions: map[string]*lifecycle.Revision{"cart-1": both["cart-1"]}},
	} {
		v, _ := viewOf(&fakePods{}, lifecycle.Snapshot{Route: c.route, Revisions: c.revisions})
		got := v.Effective(cartKey)
		if (got == nil) != (c.want == nil) || got != nil && (!slices.Equal(got.Traffic, v.Split(cartKey)) || !maps.Equal(got.Traffic.Percentages(), c.want) || got.Rollout != c.rollout || !got.Effective) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	early := New(&fakePods{}, fakeServices{none: true}, nil, nil)
	if early.Effective(cartKey) != nil || early.Split(cartKey) != nil {
		t.Error("a split is known before anything is watched")
	}
}
