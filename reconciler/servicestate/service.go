// SPDX-License-Identifier: Apache-2.0

package servicestate

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
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
	return v.state(key, uid, snapshot), true
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
	return v.state(key, uid, snapshot)
}

func (v *View) state(key types.NamespacedName, uid types.UID, snapshot lifecycle.Snapshot) *gaterun.Service {
	out := &gaterun.Service{UID: uid, Settled: snapshot.Ready}
	v.place(out, key, snapshot.Route)
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

// place sets how the shards of a Service's cluster are placed, if its members follow a plan: the plan for the split in
// effect, and what the cluster lacks to follow it. Nothing is lacking while the split changes step by step, without
// pods, and if the coordinator does not follow plans, because no wait would help.
func (v *View) place(out *gaterun.Service, key types.NamespacedName, route *lifecycle.Route) {
	v.mu.Lock()
	c, plans := v.clusters[key], v.plans
	v.mu.Unlock()
	out.Moving = c != nil && c.State != lifecycle.ClusterUnknown && !c.Settled
	if route == nil {
		return
	}
	waits := !route.Rollout && (c == nil || c.State != lifecycle.ClusterScaledToZero)
	lacks := func(reason verdict.Reason, shards int) {
		if waits {
			out.Misplaced = gaterun.Misplacement{Reason: reason, Shards: shards}
		}
	}
	switch {
	case c == nil || c.Placement == nil:
		if waits && v.enforces(key, out.UID) {
			lacks(gaterun.PlacementUnknown, 0)
		}
		return
	case c.Placement.Mode != lifecycle.PlacementEnforce || c.Placement.Coordinator != "":
		return
	case !slices.Equal(c.Placement.Split, lifecycle.Split(route.Traffic)):
		lacks(gaterun.PlacementPlanMissing, 0)
		return
	case c.Placement.Pending > 0:
		lacks(gaterun.ShardsMisplaced, c.Placement.Pending)
	}
	if plans == nil {
		return
	}
	if stored := plans(out.UID); stored != nil && stored.Status.Mode == v1alpha1.PlacementEnforce {
		out.Plan = &stored.Status
	}
}

// enforces reports whether members must follow a plan, as their pods declare. A leader that has just taken over knows
// no more. There is no plan while a pod cannot be asked for its shards.
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
