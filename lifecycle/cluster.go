package lifecycle

import (
	"slices"
	"time"
)

// ClusterState is how the stateful cluster of a Service stands.
type ClusterState string

// The states of a cluster. What it was announced as is in the memory.
const (
	// ClusterForming: there are pods, and no member is up.
	ClusterForming ClusterState = "Forming"
	// ClusterReady: every Ready pod is a member that all others reach.
	ClusterReady ClusterState = "Ready"
	// ClusterUpgrading is Ready with members of more than one Revision.
	ClusterUpgrading ClusterState = "Upgrading"
	// ClusterDegraded: members do not reach each other, or pods are none.
	ClusterDegraded ClusterState = "Degraded"
	// ClusterIsSplit: there are clusters that know nothing of each other.
	ClusterIsSplit ClusterState = "Split"
	// ClusterScaledToZero: there is no pod. It is not the end of the cluster.
	ClusterScaledToZero ClusterState = "ScaledToZero"
	// ClusterUnknown: nobody could be asked. Nothing follows from it.
	ClusterUnknown ClusterState = "Unknown"
)

// Cluster is the stateful cluster that the pods of a Service form, over all its
// Revisions, at one moment.
type Cluster struct {
	// Base is the sequence number of the newest transition of the Service that was
	// known to whoever looked, before he looked. A view is of the past if something
	// was told of the cluster since: it may be that of a leader that is none any
	// more. Sequence numbers, unlike clocks, are the same for all.
	Base int64
	// Settled: every member is up, and no shard moved over three looks.
	Settled bool
	ClusterSeen
	// Trouble is what is wrong with it, of the kinds that a cluster has.
	Trouble map[Incident]*Trouble
}

// ClusterSeen is what a transition says of a cluster.
type ClusterSeen struct {
	State ClusterState `json:"state,omitempty"`
	// Runtime is the declared one.
	Runtime string `json:"runtime,omitempty"`
	// Regime is by which rule shards find their members while there are several
	// versions, as far as it can be told; one of the Regime constants or empty.
	Regime string `json:"regime,omitempty"`
	// Parts are the cluster's Revisions, by name.
	Parts []ClusterPart `json:"parts,omitempty"`
	// Note says what could not be found out, or why nothing has settled.
	Note string `json:"note,omitempty"`
}

// The regimes of a cluster that holds more than one Revision.
const (
	// RegimeRebalancing: shards moved between living members, so that all members
	// count as one version. A new one gets its part, whatever the Route says.
	RegimeRebalancing = "Rebalancing"
	// RegimeFrozen: no shard moves while the versions differ, and new ones go to
	// the highest version. The part of a new Revision begins at nothing.
	RegimeFrozen = "Frozen"
)

// ClusterPart is one Revision's part of a cluster.
type ClusterPart struct {
	Revision string `json:"revision"`
	// Pods counts those that are Ready, Members those that are up.
	Pods    int `json:"pods"`
	Members int `json:"members"`
	// Shards is nil where it is not known.
	Shards *int `json:"shards,omitempty"`
}

// ClusterTold is what a transition says of the Service's cluster.
type ClusterTold struct {
	ClusterSeen
	// Settled is false where the time ran out before the cluster had settled, or
	// before it could be found out.
	Settled bool `json:"settled"`
}

// ClusterMemory is what is remembered of a cluster. It stays when the cluster is
// gone, for the sake of Sequence.
type ClusterMemory struct {
	// Sequence is the newest transition that told of the cluster.
	Sequence int64  `json:"sequence,omitempty"`
	Runtime  string `json:"runtime,omitempty"`
	// Inherited: it may have been there before us. What it is when it is first
	// seen is no news.
	Inherited bool `json:"inherited,omitempty"`
	// Formed latches: pods may all go and come again.
	Formed bool `json:"formed,omitempty"`
	// Members are the Revisions that take part, sorted.
	Members []string `json:"members,omitempty"`
	// Settling is since when it is waited for that the cluster settles.
	Settling time.Time `json:"settling,omitzero"`
	// Overdue: it was told that it has not.
	Overdue bool `json:"overdue,omitempty"`
	// Owed: all pods went before it had settled. It is waited for again when they
	// are back.
	Owed bool `json:"owed,omitempty"`
}

// Pending is a change of the primary that is told when the cluster has settled.
// It is saved: by the time that it is told, the Route may show something else.
type Pending struct {
	Since      time.Time  `json:"since"`
	Transition Transition `json:"transition"`
}

// vacant is how long a Revision without a pod is waited for: it may have been
// scaled to zero, or its pods may not have been seen yet.
const vacant = 30 * time.Second

// cluster announces what became of the cluster.
func (b *builder) cluster() {
	b.declared()
	c, v := b.m.Cluster, b.s.Cluster
	if c == nil {
		return
	}
	if v != nil && v.Base >= c.Sequence && v.State != ClusterUnknown && c.Runtime != "" && !b.s.Past {
		b.view = v
		b.formed(c, v)
		b.joined(c, v)
	}
	b.settled(c)
}

// declared begins a cluster when a Revision declares one.
func (b *builder) declared() {
	switch runtime, c := b.m.runtime(), b.m.Cluster; {
	case runtime == "":
	case c == nil:
		b.m.Cluster = &ClusterMemory{Runtime: runtime, Inherited: b.inherited}
	default:
		c.Runtime = runtime
	}
}

// undeclared ends a cluster when all traffic has gone to a Revision that declares
// none.
func (b *builder) undeclared() {
	if c := b.m.Cluster; c == nil || c.Runtime == "" || b.m.runtime() != "" || len(b.m.Traffic) != 1 {
		return
	}
	if b.m.Revisions[b.m.Primary].Misdeclared == "" {
		b.dissolved(ReasonUndeclared)
	}
}

// runtime is what the newest Revision declares, or else one that has traffic.
func (m *Memory) runtime() string {
	runtime := m.newest().Stateful
	for _, s := range m.Traffic {
		if r := m.Revisions[s.Revision]; r.Stateful != "" && (runtime == "" || s.Revision == m.Primary) {
			runtime = r.Stateful
		}
	}
	return runtime
}

// redeclared says whether a snapshot declares a cluster in a Revision that was Ready
// before, and did not declare one: it was not read then.
func (m *Memory) redeclared(seen map[string]Revision) bool {
	for name, now := range seen {
		if known := m.Revisions[name]; now.Stateful != "" && known.Ready && known.Stateful == "" && known.UID == now.UID {
			return true
		}
	}
	return false
}

// dissolved ends a cluster, and what was wrong with it.
func (b *builder) dissolved(reason string) {
	c := b.m.Cluster
	if c == nil || c.Runtime == "" {
		return
	}
	for _, kind := range []Incident{ClusterTrouble, ClusterSplit} {
		delete(b.m.Waits, waitFor(kind))
		if e := b.m.Episodes[kind]; e != nil {
			b.resolve(kind, e, reason)
		}
	}
	if c.Formed {
		b.emit(Transition{
			Type: ClusterRemoved, Reason: reason, Revision: b.m.revision(b.m.Primary), Links: b.m.Last.link(LinkPath),
			Cluster: &ClusterTold{ClusterSeen: ClusterSeen{Runtime: c.Runtime}},
		})
	}
	*c = ClusterMemory{Sequence: c.Sequence}
}

// formed: the first member is up.
func (b *builder) formed(c *ClusterMemory, v *Cluster) {
	if c.Formed || !slices.ContainsFunc(v.Parts, func(p ClusterPart) bool { return p.Members > 0 }) {
		return
	}
	c.Formed = true
	b.join(c, v, func(ClusterPart) bool { return true })
	if c.Inherited {
		for kind := range v.Trouble {
			b.open(kind, &Episode{})
		}
		return
	}
	c.Settling = b.at
	b.begins(waitSettling)
	b.emit(Transition{Type: ClusterFormed, Revision: b.member(v), Links: b.m.Last.link(LinkPath), Cluster: b.told(false)})
}

// join takes up the Revisions that have members and are chosen, and says whether
// there was any.
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

// joined: a Revision that takes part now, or one that is drained, sets shards in
// motion. Scaling does too, and is no more told than that of any other Service:
// a Revision with traffic may have no pod for a while, and one without traffic
// that had members before may be woken by its tag.
func (b *builder) joined(c *ClusterMemory, v *Cluster) {
	moved := b.join(c, v, func(p ClusterPart) bool {
		return !b.m.Revisions[p.Revision].Clustered || share(b.m.Traffic, p.Revision) > 0
	})
	rest := slices.DeleteFunc(slices.Clone(c.Members), func(name string) bool {
		empty := !slices.ContainsFunc(v.Parts, func(p ClusterPart) bool { return p.Revision == name })
		return empty && share(b.m.Traffic, name) == 0
	})
	if len(rest) < len(c.Members) {
		c.Members, moved = rest, true
	}
	if v.State == ClusterScaledToZero {
		// Nothing is left that could move, until the pods are back.
		c.Owed = c.Owed || !c.Settling.IsZero()
		c.Settling, c.Overdue = time.Time{}, false
		return
	}
	if (moved || c.Owed && b.member(v) != nil) && c.Settling.IsZero() {
		c.Settling, c.Owed = b.at, false
		b.begins(waitSettling)
	}
}

// settled announces that a cluster that was in motion has settled, or that it has
// not in time.
func (b *builder) settled(c *ClusterMemory) {
	limit := b.rules.SettleWithin
	if c.Settling.IsZero() {
		return
	}
	t := Transition{Revision: b.m.revision(b.m.Primary), Links: b.m.Last.link(LinkPath)}
	if b.view != nil {
		t.Revision = b.member(b.view)
	}
	switch due := b.since(waitSettling, c.Settling, limit).Add(limit); {
	case b.view != nil && b.view.Settled:
		c.Settling, c.Overdue = time.Time{}, false
		t.Type, t.Cluster = ClusterSettled, b.told(true)
		b.emit(t)
	case limit <= 0 || c.Overdue:
	case b.now.Before(due):
		b.wakeAt(due)
	default:
		c.Overdue = true
		t.Type, t.Cluster = ClusterUnsettled, b.told(false)
		b.emit(t)
	}
}

// member is the newest Revision that has members.
func (b *builder) member(v *Cluster) *Revision {
	var out *Revision
	for _, p := range v.Parts {
		if p.Members > 0 {
			out = newer(out, b.m.revision(p.Revision))
		}
	}
	return out
}

// told is what is said of the cluster now.
func (b *builder) told(settled bool) *ClusterTold {
	t := &ClusterTold{Settled: settled}
	t.State = ClusterUnknown
	if b.s.Cluster != nil {
		t.ClusterSeen = b.s.Cluster.ClusterSeen
	}
	if t.Runtime == "" && b.m.Cluster != nil {
		t.Runtime = b.m.Cluster.Runtime // there is no pod that could say so
	}
	return t
}

// awaits says whether the members of a Revision must still be waited for, and if
// not, what is to be said of the cluster.
func (b *builder) awaits(r *Revision, since time.Time) (told *ClusterTold, wait bool) {
	if r == nil || r.Stateful == "" || b.m.Cluster == nil {
		return nil, false
	}
	limit := b.rules.SettleWithin
	due := since.Add(limit)
	if b.view != nil && b.view.Settled {
		switch there, present := b.part(r.Name), since.Add(vacant); {
		case there.Members > 0, there.Pods == 0 && !b.now.Before(present):
			return b.told(!b.m.Cluster.Owed), false
		case there.Pods == 0 && present.Before(due):
			b.wakeAt(present)
		}
	}
	if limit <= 0 || !b.now.Before(due) {
		return b.told(false), false
	}
	b.wakeAt(due)
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

// arrive announces a change of the primary, once its members are up and the
// shards have settled.
func (b *builder) arrive(t Transition) {
	t.Traffic = b.m.Traffic
	told, wait := b.awaits(t.Revision, b.now)
	if wait {
		b.m.Pending = &Pending{Since: b.at, Transition: t}
		b.begins(waitPending)
		return
	}
	t.Cluster = told
	b.land(t)
}

// release announces what has waited for long enough.
func (b *builder) release() {
	if b.m.Pending == nil {
		return
	}
	since := b.since(waitPending, b.m.Pending.Since, b.rules.SettleWithin)
	if told, wait := b.awaits(b.m.Pending.Transition.Revision, since); !wait {
		b.overtake(told)
	}
}

// overtake announces what is waiting, before what comes next. That it is told
// late does not make it untrue, nor is it left out.
func (b *builder) overtake(told *ClusterTold) {
	if b.m.Pending == nil {
		return
	}
	t := b.m.Pending.Transition
	b.m.Pending = nil
	t.Cluster = told
	b.land(t)
}

// land announces a change of the primary, and who arrived with it.
func (b *builder) land(t Transition) {
	b.newcomers(t.PreviousTraffic, t.Traffic, b.milestone(t))
}
