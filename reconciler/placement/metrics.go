// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/stateful"
)

var serviceLabels = []string{"k8s_namespace_name", "kn_service_name"}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("canary_placement_"+name, help, append(slices.Clone(serviceLabels), labels...), nil)
}

var (
	targetShards = describe("target_shards", "Shards that the Revision must own according to the plan, by entity type.", "kn_revision_name", "entity_type")
	pendingMoves = describe("pending_moves", "Shards that are not where the plan wants them, by entity type.", "entity_type")
	movesTotal   = describe("moves_total", "Shards that moved from one living member to another, as seen by this replica, by entity type.", "entity_type")
	converged    = describe("converged", "1 if every shard that has an owner is where the plan wants it; 0 if not. Absent while a new leader cannot know.")
)

// Metrics are how far each cluster that this process leads follows its plan.
type Metrics struct {
	leads func(types.NamespacedName) bool

	mu       sync.Mutex
	clusters map[types.NamespacedName]*progress
}

// progress of one cluster.
type progress struct {
	targets map[[2]string]int
	pending map[string]int
	moves   map[string]int
	members map[string]bool
	// owners are the members that held each shard last, by entity type and shard id, and missing is since when no member names a
	// shard that one held.
	owners  map[string]map[string]string
	missing map[string]map[string]time.Time
	// inherited is when this process first observed a cluster that had a plan already; zero if it had none.
	inherited time.Time
	// unknown says that shards may be on their way that no member names.
	unknown bool
	// split is the one that the plan is for, and earlier the moves for other ones.
	split   []lifecycle.Share
	earlier int
}

// handOverTimeout is the longest that a shard that no member names counts as being handed over. Akka and Pekko give up after 60 s
// (hand-off-timeout); polls are at most 15 s apart. After that, the shard has ended.
const handOverTimeout = 75 * time.Second

// NewMetrics exports the clusters that leads accepts.
func NewMetrics(leads func(types.NamespacedName) bool) *Metrics {
	return &Metrics{leads: leads, clusters: map[types.NamespacedName]*progress{}}
}

var _ prometheus.Collector = (*Metrics)(nil)

// Saw compares a poll of a cluster with its plan, and with the last poll. It returns how far the cluster follows the plan.
// inherited says whether the cluster had a plan before this process made one: the last shards may be on their way. Nil: unknown.
func (m *Metrics) Saw(key types.NamespacedName, l stateful.Layout, plan v1alpha1.ShardPlacementStatus, inherited bool, at time.Time) *stateful.Placement {
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.clusters[key]
	if was == nil {
		was = &progress{moves: map[string]int{}}
		if inherited {
			was.inherited = at
		}
	}
	now := &progress{
		targets: map[[2]string]int{}, pending: map[string]int{}, moves: was.moves, members: map[string]bool{},
		owners: map[string]map[string]string{}, missing: map[string]map[string]time.Time{}, inherited: was.inherited,
	}
	for _, member := range l.Members {
		now.members[member.Address] = true
	}
	for _, e := range plan.EntityTypes {
		for i, quota := range e.Quotas {
			now.targets[[2]string{plan.Members[i].Revision, e.Name}] += int(quota)
		}
		now.remember(was, e.Name, l.Owners[e.Name], at)
		now.pending[e.Name] = pending(now.owners[e.Name], plan, e)
		for id, owner := range now.owners[e.Name] {
			if before, known := was.owners[e.Name][id]; known && before != owner && now.members[before] && was.members[owner] {
				now.moves[e.Name]++
			}
		}
	}
	now.split, now.earlier = splitOf(plan), was.earlier
	if !slices.Equal(now.split, was.split) {
		now.earlier = now.total()
	}
	m.clusters[key] = now
	out := &stateful.Placement{Required: map[string]int{}}
	out.Mode, out.Split, out.Moves, out.Coordinator = string(plan.Mode), now.split, now.total()-now.earlier, coordinator(l)
	for _, n := range now.pending {
		out.Pending += n
	}
	for of, n := range now.targets {
		out.Required[of[0]] += n
	}
	if now.unknown = out.Pending == 0 && now.unowned(plan) && at.Sub(now.inherited) < handOverTimeout; now.unknown {
		return nil
	}
	return out
}

// total is how many shards moved while this replica watched.
func (p *progress) total() int {
	n := 0
	for _, moves := range p.moves {
		n += moves
	}
	return n
}

func splitOf(plan v1alpha1.ShardPlacementStatus) []lifecycle.Share {
	var out []lifecycle.Share
	for _, r := range plan.Revisions {
		out = append(out, lifecycle.Share{Revision: r.Name, Percent: int64(r.Percent)})
	}
	return lifecycle.Split(out)
}

// coordinator returns the Revision of the oldest member if it does not declare that plans are followed.
func coordinator(l stateful.Layout) string {
	for _, m := range l.Members {
		if m.Address == l.Oldest && m.Placement != v1alpha1.PlacementEnforce {
			return m.Revision
		}
	}
	return ""
}

// remember stores the owners of the shards of an entity type. A shard that no member names is being handed over, and keeps its last
// owner for a while.
func (p *progress) remember(was *progress, entityType string, named map[string]string, at time.Time) {
	owners, missing := maps.Clone(named), map[string]time.Time{}
	if owners == nil {
		owners = map[string]string{}
	}
	for id, owner := range was.owners[entityType] {
		if _, is := named[id]; is || !p.members[owner] {
			continue
		}
		since, known := was.missing[entityType][id]
		if !known {
			since = at
		}
		if at.Sub(since) < handOverTimeout {
			owners[id], missing[id] = owner, since
		}
	}
	p.owners[entityType], p.missing[entityType] = owners, missing
}

// unowned reports whether a shard that the plan names has no owner that is known: it was never used, or is being handed over.
func (p *progress) unowned(plan v1alpha1.ShardPlacementStatus) bool {
	return slices.ContainsFunc(plan.EntityTypes, func(e v1alpha1.PlacementEntityType) bool {
		return len(p.owners[e.Name]) < len(e.Owners)
	})
}

// pending returns how many shards are not where the plan wants them. With quotas only, these are the shards above a member's quota;
// and so they are while nothing moves, because the plan then names the present owners.
func pending(owners map[string]string, plan v1alpha1.ShardPlacementStatus, e v1alpha1.PlacementEntityType) int {
	n := 0
	if e.Owners == nil || plan.Held != "" {
		owned := map[string]int{}
		for _, owner := range owners {
			owned[owner]++
		}
		for i, quota := range e.Quotas {
			n += max(0, owned[plan.Members[i].Address]-int(quota))
		}
		return n
	}
	for shard, want := range e.Owners {
		if have := owners[strconv.Itoa(shard)]; have != "" && (want < 0 || plan.Members[want].Address != have) {
			n++
		}
	}
	return n
}

// forget a cluster without a plan.
func (m *Metrics) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.clusters, key)
}

// keep only the clusters that leads accepts.
func (m *Metrics) keep(leads func(types.NamespacedName) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.clusters, func(key types.NamespacedName, _ *progress) bool { return !leads(key) })
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
		if !m.leads(key) {
			continue
		}
		gauge := func(d *prometheus.Desc, v int, labels ...string) {
			to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), append([]string{key.Namespace, key.Name}, labels...)...)
		}
		for of, n := range c.targets {
			gauge(targetShards, n, of[0], of[1])
		}
		followed := 1
		for _, entityType := range slices.Sorted(maps.Keys(c.pending)) {
			gauge(pendingMoves, c.pending[entityType], entityType)
			to <- prometheus.MustNewConstMetric(movesTotal, prometheus.CounterValue, float64(c.moves[entityType]), key.Namespace, key.Name, entityType)
			if c.pending[entityType] > 0 {
				followed = 0
			}
		}
		if !c.unknown {
			gauge(converged, followed)
		}
	}
}
