package view

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/canary/gaterun"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
)

// Service is what gates know of one: nil if there is none. The second result is false while
// the caches are not complete.
func (v *View) Service(key types.NamespacedName) (*gaterun.Service, bool) {
	ob := v.watched()
	if ob == nil || !ob.Active() {
		return nil, false
	}
	subject := ob.Kind.Compose(ob.Kind.Cached(key))
	if subject == nil {
		return nil, true
	}
	return v.seen(key, subject), true
}

// Split is a Service whose traffic is known and in force; nil while it is not.
func (v *View) Split(key types.NamespacedName) *gaterun.Service {
	ob := v.watched()
	if ob == nil {
		return nil
	}
	subject := ob.Kind.Compose(ob.Kind.Cached(key))
	if subject == nil || subject.Snapshot.Route == nil || !subject.Snapshot.Route.Effective {
		return nil
	}
	for _, share := range subject.Snapshot.Route.Traffic {
		if _, ok := subject.Snapshot.Revisions[share.Revision]; !ok {
			return nil // its Revision comes from another informer, which is behind
		}
	}
	return v.seen(key, subject)
}

func (v *View) seen(key types.NamespacedName, subject *observer.Subject) *gaterun.Service {
	out := &gaterun.Service{UID: subject.UID, Settled: subject.Snapshot.Ready, Moving: v.moving(key)}
	percent := map[string]int64{}
	if route := subject.Snapshot.Route; route != nil {
		out.Effective, out.Rollout = route.Effective, route.Rollout
		for _, share := range route.Traffic {
			percent[share.Revision] += share.Percent
		}
	}
	for name, r := range subject.Snapshot.Revisions {
		out.Revisions = append(out.Revisions, gaterun.Revision{
			Name: name, UID: types.UID(r.UID), Generation: r.Generation, Percent: percent[name], Stateful: r.Stateful != "",
		})
	}
	return out
}

// moving says whether shards of a Service's cluster are known to be handed over.
func (v *View) moving(key types.NamespacedName) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	c := v.clusters[key]
	return c != nil && c.State != lifecycle.ClusterUnknown && !c.Settled
}
