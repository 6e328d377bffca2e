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
	if !v.services.Active() {
		return nil, false
	}
	uid, snapshot, exists := v.services.Snapshot(key)
	if !exists {
		return nil, true
	}
	return v.state(key, uid, snapshot), true
}

// Effective returns a Service whose split is in effect, otherwise nil.
func (v *View) Effective(key types.NamespacedName) *gaterun.Service {
	uid, snapshot, is := v.effective(key)
	if !is {
		return nil
	}
	return v.state(key, uid, snapshot)
}

// Split returns the split of a Service, or none if it is not in effect.
func (v *View) Split(key types.NamespacedName) lifecycle.Split {
	if _, snapshot, is := v.effective(key); is {
		return snapshot.Route.Traffic
	}
	return nil
}

// effective reports whether the split of a Service is in effect and all of its Revisions are known.
func (v *View) effective(key types.NamespacedName) (uid types.UID, s lifecycle.Snapshot, is bool) {
	uid, s, exists := v.services.Snapshot(key)
	return uid, s, exists && s.Route != nil && s.Route.Effective && len(known(s)) == len(s.Route.Traffic)
}

// known is the part of a split that goes to known Revisions. Their informer lags behind that of Routes.
func known(s lifecycle.Snapshot) lifecycle.Split {
	return slices.DeleteFunc(slices.Clone(s.Route.Traffic), func(share lifecycle.Share) bool {
		_, exists := s.Revisions[share.Revision]
		return !exists
	})
}

func (v *View) state(key types.NamespacedName, uid types.UID, snapshot lifecycle.Snapshot) *gaterun.Service {
	out := &gaterun.Service{UID: uid, Settled: snapshot.Ready, Revisions: snapshot.Revisions}
	if snapshot.Route != nil {
		out.Route = *snapshot.Route
		out.Traffic = known(snapshot)
	}
	v.place(out, key, snapshot.Route)
	return out
}

// place sets how the shards of a Service's cluster are placed, if its members follow a plan: the plan for the split in
// effect, and what the cluster lacks to follow it. Nothing is lacking while the split changes step by step, without
// pods, and if the coordinator does not follow plans, because no wait would help.
func (v *View) place(out *gaterun.Service, key types.NamespacedName, route *lifecycle.Route) {
	v.mu.Lock()
	c := v.clusters[key]
	v.mu.Unlock()
	out.MovingUnknown = c == nil || c.State == lifecycle.ClusterUnknown
	out.Moving = !out.MovingUnknown && !c.Settled
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
	case !slices.Equal(c.Placement.Split, route.Traffic):
		lacks(gaterun.PlacementPlanMissing, 0)
		return
	case c.Placement.Pending > 0:
		lacks(gaterun.ShardsMisplaced, c.Placement.Pending)
	}
	if stored := v.plans.Get(out.UID); stored != nil && stored.Status.Mode == v1alpha1.PlacementEnforce {
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
