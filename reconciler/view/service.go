// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/canary/gaterun"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// Service returns the state of a Service for gates: nil if it does not exist. The second
// result is false until the caches are complete.
func (v *View) Service(key types.NamespacedName) (*gaterun.Service, bool) {
	services := v.watched()
	if services == nil || !services.Active() {
		return nil, false
	}
	uid, snapshot, exists := services.Snapshot(key)
	if !exists {
		return nil, true
	}
	return v.seen(key, uid, snapshot), true
}

// Split returns a Service whose traffic is known and effective, otherwise nil.
func (v *View) Split(key types.NamespacedName) *gaterun.Service {
	services := v.watched()
	if services == nil {
		return nil
	}
	uid, snapshot, exists := services.Snapshot(key)
	if !exists || snapshot.Route == nil || !snapshot.Route.Effective {
		return nil
	}
	for _, share := range snapshot.Route.Traffic {
		if _, ok := snapshot.Revisions[share.Revision]; !ok {
			return nil // the Revision informer lags behind the Route informer
		}
	}
	return v.seen(key, uid, snapshot)
}

func (v *View) seen(key types.NamespacedName, uid types.UID, snapshot lifecycle.Snapshot) *gaterun.Service {
	out := &gaterun.Service{UID: uid, Settled: snapshot.Ready, Moving: v.moving(key), Misplaced: v.misplaced(key, uid, snapshot.Route), Plan: v.plan(key, uid, snapshot.Route)}
	percent := map[string]int64{}
	if route := snapshot.Route; route != nil {
		out.Effective, out.Rollout = route.Effective, route.Rollout
		for _, share := range route.Traffic {
			percent[share.Revision] += share.Percent
		}
	}
	for name, r := range snapshot.Revisions {
		out.Revisions = append(out.Revisions, gaterun.Revision{
			Name: name, UID: types.UID(r.UID), Generation: r.Generation, Percent: percent[name], Stateful: r.Stateful != "",
		})
	}
	return out
}

// plan returns the placement plan for the split that the members of a cluster follow; nil if there is none, or if the coordinator does
// not follow plans.
func (v *View) plan(key types.NamespacedName, uid types.UID, route *lifecycle.Route) *v1alpha1.ShardPlacementStatus {
	v.mu.Lock()
	c, plans := v.clusters[key], v.plans
	v.mu.Unlock()
	if plans == nil || route == nil || c == nil || c.Placement == nil || c.Placement.Mode != lifecycle.PlacementEnforce || c.Placement.Coordinator != "" {
		return nil
	}
	if !slices.Equal(c.Placement.Split, lifecycle.Split(route.Traffic)) {
		return nil
	}
	stored := plans(uid)
	if stored == nil || stored.Status.Mode != v1alpha1.PlacementEnforce {
		return nil
	}
	return &stored.Status
}

// moving reports whether the cluster is known to be moving shards.
func (v *View) moving(key types.NamespacedName) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	c := v.clusters[key]
	return c != nil && c.State != lifecycle.ClusterUnknown && !c.Settled
}

// misplaced says what the cluster lacks to follow its plan. It is empty while the split changes step by step, and if the
// coordinator does not follow plans: no wait would help.
func (v *View) misplaced(key types.NamespacedName, uid types.UID, route *lifecycle.Route) string {
	if route == nil || route.Rollout {
		return ""
	}
	v.mu.Lock()
	c := v.clusters[key]
	v.mu.Unlock()
	switch {
	case c != nil && c.State == lifecycle.ClusterScaledToZero:
		return ""
	case c == nil || c.Placement == nil:
		if v.enforces(key, uid) {
			return "where the shards are is not known yet"
		}
		return ""
	case c.Placement.Mode != lifecycle.PlacementEnforce || c.Placement.Coordinator != "":
		return ""
	case !slices.Equal(c.Placement.Split, lifecycle.Split(route.Traffic)):
		return "there is no plan for this split yet"
	}
	switch n := c.Placement.Pending; {
	case n == 1:
		return "1 shard is not where the plan wants it"
	case n > 1:
		return fmt.Sprintf("%d shards are not where the plan wants them", n)
	}
	return ""
}

// enforces reports whether members must follow a plan, as their pods declare. A leader that has just taken over knows no more. There
// is no plan while a pod cannot be asked for its shards.
func (v *View) enforces(key types.NamespacedName, uid types.UID) bool {
	members, _ := v.members(key)
	mode, newest := v1alpha1.PlacementMode(""), int64(-1)
	for _, pod := range members {
		declared, ok, err := pod.Declared()
		if !ok || err != nil || pod.ServiceUID != uid || pod.Over() {
			continue
		}
		if declared.ManagementPort == 0 && pod.Deleting.IsZero() {
			return false
		}
		if pod.Generation > newest {
			newest, mode = pod.Generation, declared.Placement
		}
	}
	return mode == v1alpha1.PlacementEnforce
}
