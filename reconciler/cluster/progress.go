// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/canary/cluster"
)

var serviceLabels = []string{"k8s_namespace_name", "kn_service_name"}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("canary_placement_"+name, help, append(slices.Clone(serviceLabels), labels...), nil)
}

var (
	targetShards = describe("target_shards",
		"Shards that the Revision must own according to the plan, by entity type.", "kn_revision_name", "entity_type")
	pendingMoves = describe("pending_moves", "Shards that are not where the plan wants them, by entity type.",
		"entity_type")
	movesTotal = describe("moves_total",
		"Shards that moved from one living member to another, as seen by this replica, by entity type.", "entity_type")
	converged = describe("converged",
		"1 if every shard that has an owner is where the plan wants it; 0 if not. Absent while a new leader cannot know.")
)

// Metrics are how far each cluster that this process leads follows its plan.
type Metrics struct {
	leader Leader

	mu       sync.Mutex
	clusters map[types.NamespacedName]*cluster.Progress
}

// NewMetrics exports the clusters that this process leads for.
func NewMetrics(leader Leader) *Metrics {
	return &Metrics{leader: leader, clusters: map[types.NamespacedName]*cluster.Progress{}}
}

var _ prometheus.Collector = (*Metrics)(nil)

// Update takes the layout of a cluster from a poll, and its plan. It returns how far the cluster follows the plan;
// nil if that is unknown. inherited says whether the cluster had a plan before this process made one.
func (m *Metrics) Update(
	key types.NamespacedName, l cluster.Layout, plan v1alpha1.ShardPlacementStatus, inherited bool, at time.Time,
) *cluster.Placement {
	m.mu.Lock()
	defer m.mu.Unlock()
	next, placement := m.clusters[key].Next(l, plan, inherited, at)
	m.clusters[key] = next
	return placement
}

// forget a cluster without a plan.
func (m *Metrics) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.clusters, key)
}

// keep only the clusters that this process leads for.
func (m *Metrics) keep() {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.clusters, func(key types.NamespacedName,
		_ *cluster.Progress,
	) bool {
		return !m.leader.IsLeaderFor(key)
	})
}

// Describe implements prometheus.Collector.
func (*Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{targetShards, pendingMoves, movesTotal, converged} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, c := range m.clusters {
		if !m.leader.IsLeaderFor(key) {
			continue
		}
		gauge := func(d *prometheus.Desc, v int, labels ...string) {
			to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v),
				append([]string{key.Namespace, key.Name}, labels...)...)
		}
		for of, n := range c.Targets {
			gauge(targetShards, n, of.Revision, of.EntityType)
		}
		followed := 1
		for _, entityType := range slices.Sorted(maps.Keys(c.Pending)) {
			gauge(pendingMoves, c.Pending[entityType], entityType)
			to <- prometheus.MustNewConstMetric(movesTotal, prometheus.CounterValue, float64(c.Moves[entityType]),
				key.Namespace, key.Name, entityType)
			if c.Pending[entityType] > 0 {
				followed = 0
			}
		}
		if !c.Unknown {
			gauge(converged, followed)
		}
	}
}
