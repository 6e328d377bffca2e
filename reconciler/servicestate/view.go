// SPDX-License-Identifier: Apache-2.0

// Package servicestate is the single read model of Knative Services, for scraping, attribution,
// gates and their HTTP API.
//
// Its invariants:
//   - It only reads informer caches and the reports of cluster watchers.
//   - An unknown value is missing. It is never zero.
//   - Only Targets and Dying may call the API server. No other method blocks.
package servicestate

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/canary/scrape"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/observer"
	"github.com/knative-cdevents/knative-cdevents/reconciler/pods"
)

// Pods lists the pods that claim to belong to a Service. pods.Informer implements it.
type Pods interface {
	Synced() bool
	Of(service types.NamespacedName) []*pods.Pod
	Dying(service types.NamespacedName) []*pods.Pod
	Owned(ctx context.Context, pod *pods.Pod) error
}

// Services lists the watched Knative Services. service.Watch implements it.
type Services interface {
	// Active is false until the caches are complete.
	Active() bool
	// Keys lists all Services of which the caches hold at least one part.
	Keys() []types.NamespacedName
	// Has reports whether Keys lists a Service.
	Has(key types.NamespacedName) bool
	// Snapshot returns a Service from the caches, or false if it does not exist.
	Snapshot(key types.NamespacedName) (uid types.UID, s lifecycle.Snapshot, exists bool)
}

// Plans are the stored placement plans. web.Plans implements it.
type Plans interface {
	// Get returns the plan of a Service, or nil.
	Get(service types.UID) *v1alpha1.ShardPlacement
}

// Logger logs what an operator should know.
type Logger interface {
	Warnw(message string, keysAndValues ...any)
}

// View is the read model of Services.
type View struct {
	pods     Pods
	services Services
	plans    Plans
	logger   Logger

	mu sync.Mutex
	// owned holds the result of each ownership check. A verified pod stays verified while its claim is the
	// same, even if its owners are deleted first; otherwise it would seem to disappear and return.
	owned map[types.UID]ownership
	// clusters holds the latest observation of each cluster.
	clusters map[types.NamespacedName]*lifecycle.Cluster
}

// New returns a view of the watched Services.
func New(p Pods, services Services, plans Plans, logger Logger) *View {
	return &View{
		pods: p, services: services, plans: plans, logger: logger, owned: map[types.UID]ownership{},
		clusters: map[types.NamespacedName]*lifecycle.Cluster{},
	}
}

// UpdateCluster stores an observation of a Service's cluster, or removes it. While a poll cannot tell where the shards
// are, as often when they move or a pod starts, the last known placement stays.
func (v *View) UpdateCluster(service types.NamespacedName, part observer.Part) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if c, ok := part.Value.(*lifecycle.Cluster); ok && c != nil {
		if was := v.clusters[service]; was != nil && c.Placement == nil && c.State != lifecycle.ClusterScaledToZero {
			kept := *c
			kept.Placement = was.Placement
			c = &kept
		}
		v.clusters[service] = c
		return
	}
	delete(v.clusters, service)
}

// cluster returns the parts of a Service's cluster by Revision, or none if it is unknown.
func (v *View) cluster(service types.NamespacedName) map[string]lifecycle.ClusterPart {
	v.mu.Lock()
	defer v.mu.Unlock()
	out := map[string]lifecycle.ClusterPart{}
	if c := v.clusters[service]; c != nil && c.State != lifecycle.ClusterUnknown {
		for _, part := range c.Parts {
			out[part.Revision] = part
		}
	}
	return out
}

var _ scrape.Watched = (*View)(nil)

// Ready implements scrape.Discovery.
func (v *View) Ready() bool { return v.services.Active() && v.pods.Synced() }

// Services implements scrape.Discovery.
func (v *View) Services() []types.NamespacedName { return v.services.Keys() }

// Exists implements scrape.Watched.
func (v *View) Exists(service types.NamespacedName) bool { return v.services.Has(service) }

// HasPods implements scrape.Watched.
func (v *View) HasPods(service types.NamespacedName) bool { return len(v.pods.Of(service)) > 0 }
