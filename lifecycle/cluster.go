// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"slices"
	"time"
)

// ClusterState is the state of a Service's stateful cluster.
type ClusterState string

// The states of a cluster. The memory holds what was announced.
const (
	// ClusterForming: pods exist, but no member is up.
	ClusterForming ClusterState = "Forming"
	// ClusterReady: every Ready pod is a member that all others reach.
	ClusterReady ClusterState = "Ready"
	// ClusterUpgrading is Ready with members of more than one Revision.
	ClusterUpgrading ClusterState = "Upgrading"
	// ClusterDegraded: members do not reach each other, or Ready pods are not members.
	ClusterDegraded ClusterState = "Degraded"
	// ClusterIsSplit: the pods form clusters that do not know of each other.
	ClusterIsSplit ClusterState = "Split"
	// ClusterScaledToZero: there are no pods. The cluster has not ended.
	ClusterScaledToZero ClusterState = "ScaledToZero"
	// ClusterUnknown: no pod could be asked. Nothing follows from it.
	ClusterUnknown ClusterState = "Unknown"
)

// Cluster is the stateful cluster that the pods of a Service form, across all its Revisions, at one
// moment.
type Cluster struct {
	// Base is the Service's newest sequence number that the poller knew before it polled. If the
	// cluster was announced since, the view is stale: it may come from a former leader. Unlike
	// clocks, sequence numbers are the same for all leaders.
	Base int64
	// Settled: every member is up, and no shard moved over three polls.
	Settled bool
	ClusterStatus
	// Trouble holds the cluster's problems. Only cluster kinds occur here.
	Trouble map[Incident]*Trouble
}

// ClusterStatus is the part of a cluster's state that transitions carry.
type ClusterStatus struct {
	State ClusterState `json:"state,omitempty"`
	// Runtime is the declared runtime.
	Runtime string `json:"runtime,omitempty"`
	// Regime is how shards are placed while the cluster has several versions: one of the Regime
	// constants, or empty if it cannot be determined.
	Regime string `json:"regime,omitempty"`
	// Parts lists the cluster's Revisions, by name.
	Parts []ClusterPart `json:"parts,omitempty"`
	// Note says what could not be determined, or why the cluster has not settled.
	Note string `json:"note,omitempty"`
	// Placement is nil if unknown.
	Placement *Placement `json:"placement,omitempty"`
}

// The regimes of a cluster with more than one Revision.
const (
	// RegimeRebalancing: shards moved between living members, so all members count as one version.
	// A new one gets its share, whatever the Route says.
	RegimeRebalancing = "Rebalancing"
	// RegimeFrozen: no shard moves while the versions differ, and new shards go to the highest
	// version. A new Revision starts with none.
	RegimeFrozen = "Frozen"
)

// ClusterPart is one Revision's part of a cluster.
type ClusterPart struct {
	Revision string `json:"revision"`
	// Pods counts Ready pods, Members the members that are up.
	Pods    int `json:"pods"`
	Members int `json:"members"`
	// Shards is nil if unknown.
	Shards *int `json:"shards,omitempty"`
	// RequiredShards is how many of them the plan gives it; nil without a plan.
	RequiredShards *int `json:"requiredShards,omitempty"`
}

// ClusterDetails describes the Service's cluster in a transition.
type ClusterDetails struct {
	ClusterStatus
	// Settled is false if the time limit passed before the cluster settled, or before its state was
	// known.
	Settled bool `json:"settled"`
}

// ClusterMemory is what the memory holds of a cluster. It outlives the cluster, to keep Sequence.
type ClusterMemory struct {
	// Sequence is the newest transition about the cluster.
	Sequence int64  `json:"sequence,omitempty"`
	Runtime  string `json:"runtime,omitempty"`
	// Inherited: the cluster may be older than our first observation. Its first observed state is
	// not announced.
	Inherited bool `json:"inherited,omitempty"`
	// Formed latches: scaling to zero and back does not reset it.
	Formed bool `json:"formed,omitempty"`
	// Members lists the Revisions that have members, sorted.
	Members []string `json:"members,omitempty"`
	// Settling is when the wait for the cluster to settle began.
	Settling time.Time `json:"settling,omitzero"`
	// Overdue: ClusterUnsettled was announced.
	Overdue bool `json:"overdue,omitempty"`
	// Interrupted: all pods went away before the cluster settled. The wait restarts when they are back.
	Interrupted bool `json:"owed,omitempty"`
	// Placement is nil if the cluster has no plan that its members are to follow.
	Placement *PlacementMemory `json:"placement,omitempty"`
}

// Pending is a change of the primary that is announced when the cluster has settled. It is saved,
// because by then the Route may show something else.
type Pending struct {
	Since      time.Time  `json:"since"`
	Transition Transition `json:"transition"`
}

// vacancyLimit is how long to wait for a Revision without pods: it may be scaled to zero, or its pods may
// not have been observed yet.
const vacancyLimit = 30 * time.Second

// cluster announces the transitions of the cluster.
func (b *builder) cluster() {
	b.declareCluster()
	c, v := b.m.Cluster, b.s.Cluster
	if c == nil {
		return
	}
	if v != nil && v.Base >= c.Sequence && v.State != ClusterUnknown && c.Runtime != "" && !b.s.Stale {
		b.view = v
		b.formed(c, v)
		b.joined(c, v)
		b.placed(c, v)
	}
	b.settled(c)
}

// declareCluster starts tracking a cluster when a Revision declares one.
func (b *builder) declareCluster() {
	switch runtime, c := b.m.runtime(), b.m.Cluster; {
	case runtime == "":
	case c == nil:
		b.m.Cluster = &ClusterMemory{Runtime: runtime, Inherited: b.inherited}
	default:
		c.Runtime = runtime
	}
}

// undeclared ends a cluster when all traffic goes to a Revision that declares none.
func (b *builder) undeclared() {
	if c := b.m.Cluster; c == nil || c.Runtime == "" || b.m.runtime() != "" || len(b.m.Traffic) != 1 {
		return
	}
	if b.m.Revisions[b.m.Primary].Misdeclared == "" {
		b.endCluster(ReasonUndeclared)
	}
}

// runtime is the runtime that the newest Revision declares, or else one that has traffic.
func (m *Memory) runtime() string {
	runtime := m.newest().Stateful
	for _, s := range m.Traffic {
		if r := m.Revisions[s.Revision]; r.Stateful != "" && (runtime == "" || s.Revision == m.Primary) {
			runtime = r.Stateful
		}
	}
	return runtime
}

// redeclared reports whether a Revision that was Ready before without a declaration declares a
// cluster now: an earlier release did not read it.
func (m *Memory) redeclared(observed map[string]*Revision) bool {
	for name, now := range observed {
		if known := m.Revisions[name]; now.Stateful != "" && known.Ready && known.Stateful == "" && known.UID == now.UID {
			return true
		}
	}
	return false
}

// endCluster ends a cluster and its incidents.
func (b *builder) endCluster(reason string) {
	c := b.m.Cluster
	if c == nil || c.Runtime == "" {
		return
	}
	for _, kind := range []Incident{ClusterTrouble, ClusterSplit} {
		delete(b.m.Waits, incidentWait(kind))
		if e := b.m.Episodes[kind]; e != nil {
			b.resolve(kind, e, reason)
		}
	}
	if c.Formed {
		b.emit(Transition{
			Type: ClusterRemoved, Reason: reason, Revision: b.m.revision(b.m.Primary), Links: b.m.Last.link(LinkPath),
			Cluster: &ClusterDetails{ClusterStatus: ClusterStatus{Runtime: c.Runtime}},
		})
	}
	*c = ClusterMemory{Sequence: c.Sequence}
}

// formed announces a cluster whose first member is up.
func (b *builder) formed(c *ClusterMemory, v *Cluster) {
	if c.Formed || !slices.ContainsFunc(v.Parts, func(p ClusterPart) bool { return p.Members > 0 }) {
		return
	}
	c.Formed = true
	b.join(c, v, func(ClusterPart) bool { return true })
	if c.Inherited {
		for kind := range v.Trouble {
			b.openEpisode(kind, &Episode{})
		}
		return
	}
	c.Settling = b.at
	b.startWait(waitSettling)
	b.emit(Transition{
		Type: ClusterFormed, Revision: b.newestMember(v), Links: b.m.Last.link(LinkPath),
		Cluster: b.clusterDetails(false),
	})
}

// join adds the chosen Revisions that have members, and reports whether there were any.
func (b *builder) join(c *ClusterMemory, v *Cluster, chosen func(ClusterPart) bool) bool {
	joined := false
	for _, p := range v.Parts {
		if p.Members == 0 || slices.Contains(c.Members, p.Revision) || !chosen(p) {
			continue
		}
		joined = true
		c.Members = append(slices.Clone(c.Members), p.Revision)
		slices.Sort(c.Members)
		if k, ok := b.m.Revisions[p.Revision]; ok {
			k.Clustered = true
			b.m.Revisions[p.Revision] = k
		}
	}
	return joined
}

// joined restarts the wait to settle when a Revision joins or leaves, because that moves shards.
// Scaling also moves them but is not announced: a Revision with traffic may have no pods for a
// while, and one without traffic may be woken through its tag.
func (b *builder) joined(c *ClusterMemory, v *Cluster) {
	moved := b.join(c, v, func(p ClusterPart) bool {
		return !b.m.Revisions[p.Revision].Clustered || b.m.Traffic.Percent(p.Revision) > 0
	})
	rest := slices.DeleteFunc(slices.Clone(c.Members), func(name string) bool {
		empty := !slices.ContainsFunc(v.Parts, func(p ClusterPart) bool { return p.Revision == name })
		return empty && b.m.Traffic.Percent(name) == 0
	})
	if len(rest) < len(c.Members) {
		c.Members, moved = rest, true
	}
	if v.State == ClusterScaledToZero {
		// Nothing can move until the pods are back.
		c.Interrupted = c.Interrupted || !c.Settling.IsZero()
		c.Settling, c.Overdue = time.Time{}, false
		return
	}
	if (moved || c.Interrupted && b.newestMember(v) != nil) && c.Settling.IsZero() {
		c.Settling, c.Interrupted = b.at, false
		b.startWait(waitSettling)
	}
}

// settled announces that a moving cluster has settled, or has not settled in time.
func (b *builder) settled(c *ClusterMemory) {
	limit := b.rules.SettleWithin
	if c.Settling.IsZero() {
		return
	}
	t := Transition{Revision: b.m.revision(b.m.Primary), Links: b.m.Last.link(LinkPath)}
	if b.view != nil {
		t.Revision = b.newestMember(b.view)
	}
	switch since := b.since(waitSettling, c.Settling, limit); {
	case b.view != nil && b.view.Settled:
		c.Settling, c.Overdue = time.Time{}, false
		t.Type, t.Cluster = ClusterSettled, b.clusterDetails(true)
		b.emit(t)
	case limit <= 0 || c.Overdue:
	case b.over(since, limit):
		c.Overdue = true
		t.Type, t.Cluster = ClusterUnsettled, b.clusterDetails(false)
		b.emit(t)
	}
}

// newestMember returns the newest Revision that has members.
func (b *builder) newestMember(v *Cluster) *Revision {
	var out *Revision
	for _, p := range v.Parts {
		if p.Members > 0 {
			out = newer(out, b.m.revision(p.Revision))
		}
	}
	return out
}

// clusterDetails describes the cluster for a transition.
func (b *builder) clusterDetails(settled bool) *ClusterDetails {
	t := &ClusterDetails{Settled: settled}
	t.State = ClusterUnknown
	if b.s.Cluster != nil {
		t.ClusterStatus = b.s.Cluster.ClusterStatus
	}
	if t.Runtime == "" && b.m.Cluster != nil {
		t.Runtime = b.m.Cluster.Runtime // no pod can report it
	}
	if t.Placement != nil && t.Placement.Mode == "" {
		t.Placement = nil
	}
	return t
}

// awaits reports whether to keep waiting for the members of a Revision, and if not, the cluster's
// details for the transition.
func (b *builder) awaits(r *Revision, since time.Time) (details *ClusterDetails, wait bool) {
	if r == nil || r.Stateful == "" || b.m.Cluster == nil {
		return nil, false
	}
	limit := b.rules.SettleWithin
	if limit <= 0 {
		return b.clusterDetails(false), false
	}
	if b.view != nil && b.view.Settled {
		part := b.part(r.Name)
		vacant := part.Pods == 0 && vacancyLimit < limit && b.over(since, vacancyLimit)
		if part.Members > 0 || vacant {
			return b.clusterDetails(!b.m.Cluster.Interrupted), false
		}
	}
	if b.over(since, limit) {
		return b.clusterDetails(false), false
	}
	return nil, true
}

func (b *builder) part(revision string) ClusterPart {
	for _, p := range b.view.Parts {
		if p.Revision == revision {
			return p
		}
	}
	return ClusterPart{}
}

// announcePrimary announces a change of the primary, once its members are up and the shards have settled.
func (b *builder) announcePrimary(t Transition) {
	t.Traffic = b.m.Traffic
	details, wait := b.awaits(t.Revision, b.now)
	if wait {
		b.m.Pending = &Pending{Since: b.at, Transition: t}
		b.startWait(waitPending)
		return
	}
	t.Cluster = details
	b.emitPrimary(t)
}

// releasePending announces the pending change of the primary when its wait is over.
func (b *builder) releasePending() {
	if b.m.Pending == nil {
		return
	}
	since := b.since(waitPending, b.m.Pending.Since, b.rules.SettleWithin)
	if details, wait := b.awaits(b.m.Pending.Transition.Revision, since); !wait {
		b.flushPending(details)
	}
}

// flushPending announces the first deployment, or the change of the primary, that waits for the cluster before the next
// transition. Late, it is still true, and must not be skipped.
func (b *builder) flushPending(details *ClusterDetails) {
	if b.settling() {
		b.deploy(details)
	}
	if b.m.Pending == nil {
		return
	}
	t := b.m.Pending.Transition
	b.m.Pending = nil
	t.Cluster = details
	b.emitPrimary(t)
}

// emitPrimary announces a change of the primary, and records which Revisions arrived with it.
func (b *builder) emitPrimary(t Transition) {
	b.markNewcomers(t.PreviousTraffic, t.Traffic, b.milestone(t))
}
