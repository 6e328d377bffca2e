// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"maps"
	"time"
)

// Result is the outcome of folding a snapshot into a memory.
type Result struct {
	Memory      Memory
	Transitions []Transition
	// WakeAt, if not zero, is when the same snapshot must be evaluated again.
	WakeAt time.Time
	// Missing names Revisions that have traffic but are not known well enough to decide. The
	// snapshot was not used, and the memory is unchanged.
	Missing []string
	// Unsure, if not zero, is when something was to be decided that depends on how long the snapshot's
	// state lasts. It was not, because the snapshot is unconfirmed.
	Unsure time.Time
}

// Baseline returns the memory of a Service that predates our first observation. It announces
// nothing: only later changes are events.
func Baseline(s Snapshot) Result {
	b := builder{m: Memory{Versions: maps.Clone(s.Versions), Announced: true, Baselined: true}, s: s}
	b.waits = &b.m.Waits
	if missing := b.missing(true); len(missing) > 0 {
		return Result{Missing: missing}
	}
	b.observe()
	b.m.mergeRevisions(s.Revisions)
	b.inherited = true
	b.m.Deployed = s.Ready || s.EverReady
	if s.Route != nil {
		// Used even if not effective: nothing better is known of the past.
		b.setTraffic(s.Route.Traffic)
		b.m.URLs = s.Route.URLs
	}
	for _, kind := range incidents {
		if now, known := b.troubleOf(kind); known && now != nil {
			b.openEpisode(kind, &Episode{})
		}
	}
	b.declareCluster()
	b.m.pruneRevisions()
	return Result{Memory: b.m}
}

// Next folds one snapshot, observed at the given time, into the memory.
//
// The order of its steps is the order of events. Created comes first. Revisions and the cluster
// come before the traffic that is shifted to them, and a primary that waited for its cluster
// before the next one. A verdict comes before the shift that it leads to. Deployed needs the
// traffic, Published needs Deployed, and incidents report what the other steps left.
func Next(rules Rules, m Memory, s Snapshot, at time.Time) Result {
	b := builder{
		rules: rules, m: m.clone(), s: s, at: m.journalTime(at),
		timing: timing{now: at, unconfirmed: s.Unconfirmed},
	}
	b.waits = &b.m.Waits
	if m.Removed {
		return Result{Memory: m}
	}
	if s.Gone {
		b.gone()
		return b.result()
	}
	if missing := b.missing(false); len(missing) > 0 {
		return Result{Memory: m, Missing: missing}
	}
	b.observe()
	b.created()
	b.revisions()
	b.cluster()
	b.releasePending()
	b.judged()
	b.traffic()
	b.undeclared()
	b.deployed()
	b.published()
	b.trouble()
	b.m.pruneRevisions()
	return b.result()
}

// builder is the state of one fold. Each of its steps announces one kind of transition.
type builder struct {
	rules Rules
	m     Memory
	s     Snapshot
	timing
	// at is the journaled time.
	at  time.Time
	out []Transition
	// view is the cluster in the snapshot, nil if it tells nothing new.
	view *Cluster
	// inherited says that a cluster declared in this fold predates our first observation.
	inherited bool
}

func (b *builder) result() Result {
	b.pruneWaits()
	return Result{Memory: b.m, Transitions: b.out, WakeAt: b.wake, Unsure: b.unsure}
}

// missing names the Revisions that a decision needs. Informers have no common order: the Route may
// name a Revision before it is cached, or cached as Ready.
func (b *builder) missing(baseline bool) []string {
	r := b.s.Route
	if r == nil || (!r.Effective && !baseline) {
		return nil
	}
	var out []string
	for _, t := range r.Traffic {
		now, exists := b.s.Revisions[t.Revision]
		if exists && now.Ready || b.m.Revisions[t.Revision].Ready || b.s.NoWait[t.Revision] {
			continue
		}
		out = append(out, t.Revision)
	}
	return out
}

func (b *builder) observe() {
	if b.m.Versions == nil {
		b.m.Versions = map[string]string{}
	}
	maps.Copy(b.m.Versions, b.s.Versions)
	if b.s.Stale {
		return
	}
	b.m.Generation = b.s.Generation
	b.m.Annotations = b.s.Annotations
	b.m.Labels = b.s.Labels
}

// emit numbers a transition and fills in the common fields.
func (b *builder) emit(t Transition) TransitionRef {
	b.m.Sequence++
	b.m.LastTime = b.at
	t.Sequence, t.Time = b.m.Sequence, b.at
	t.Generation = b.m.Generation
	t.Annotations = b.m.Annotations
	if t.Traffic == nil {
		t.Traffic = b.m.Traffic
	}
	if t.URLs == nil {
		t.URLs = b.m.URLs
	}
	if t.Chain == 0 && t.Revision != nil {
		t.Chain = b.chain(t.Revision.Name)
	}
	if t.Chain == 0 {
		t.Chain = t.Sequence
	}
	if t.aboutCluster() && b.m.Cluster != nil {
		b.m.Cluster.Sequence = t.Sequence
	}
	b.displace(t)
	b.out = append(b.out, t)
	return TransitionRef{Sequence: t.Sequence, Time: t.Time, Type: t.Type}
}

// milestone emits a transition that later ones link to. Withdrawing a canary leaves the primary in
// place, so its arrival stays the earlier one.
func (b *builder) milestone(t Transition) TransitionRef {
	ref := b.emit(t)
	b.m.Last = &ref
	if t.Revision != nil && t.Reason != ReasonWithdrawn {
		b.markArrived(t.Revision.Name, ref)
	}
	return ref
}

// markNewcomers records this transition for the Revisions that had no traffic before it.
func (b *builder) markNewcomers(previous, split Split, ref TransitionRef) {
	for _, s := range split {
		if previous.Percent(s.Revision) == 0 {
			b.markArrived(s.Revision, ref)
		}
	}
}

func (b *builder) markArrived(revision string, ref TransitionRef) {
	if k, ok := b.m.Revisions[revision]; ok {
		k.Arrived = &ref
		b.m.Revisions[revision] = k
	}
}

func (b *builder) chain(revision string) int64 { return b.m.Revisions[revision].Chain }

// gone announces Removed, unless the Service was never announced as usable.
func (b *builder) gone() {
	b.flushPending(b.clusterDetails(false))
	if b.m.Held != nil {
		b.flushHeld()
	}
	for _, kind := range incidents {
		if e := b.m.Episodes[kind]; e != nil {
			b.resolve(kind, e, ReasonRemoved)
		}
	}
	b.endCluster(ReasonRemoved)
	if b.m.Deployed || b.m.Baselined {
		b.emit(Transition{Type: Removed, Revision: b.m.revision(b.m.Primary), Links: b.m.Last.link(LinkPath)})
	}
	b.m.Removed = true
}

// created announces every Service that is newer than our first observation, even if it is Ready by
// the time we observe it.
func (b *builder) created() {
	if b.m.Announced {
		return
	}
	b.m.Announced = true
	b.milestone(Transition{Type: Created})
	b.m.AwaitedSince = b.at
}

func (b *builder) revisions() {
	b.inherited = b.m.redeclared(b.s.Revisions)
	for _, name := range b.m.mergeRevisions(b.s.Revisions) {
		b.startChain(name)
		b.emit(Transition{Type: RevisionReady, Revision: b.m.revision(name), Links: b.m.Last.link(LinkPath)})
	}
}

// startChain starts the chain of a Revision's rollout with the next transition, if it has none yet.
func (b *builder) startChain(name string) {
	k, ok := b.m.Revisions[name]
	if !ok || k.Chain > 0 {
		return
	}
	// The rollout of the first Revision starts with the Service itself.
	if k.Chain = b.m.Sequence + 1; !b.m.Deployed && b.m.Last != nil && b.m.Last.Type == Created {
		k.Chain = b.m.Last.Sequence
	}
	b.m.Revisions[name] = k
}

// deployed announces the first time that the Service is Ready and has traffic.
func (b *builder) deployed() {
	if b.m.Deployed {
		return
	}
	if b.s.Stale {
		return
	}
	if (!b.s.Ready || b.m.Primary == "") && !b.settling() {
		b.m.ReadySince = time.Time{}
		return
	}
	if b.m.ReadySince.IsZero() {
		b.m.ReadySince = b.at
		b.startWait(waitReady)
	}
	if !b.stable() {
		if !b.over(b.readySince(), b.rules.Stabilization) {
			return
		}
		b.startWait(waitStable)
	}
	details, wait := b.awaits(b.m.revision(b.m.Primary), b.readySince())
	if wait {
		return
	}
	b.deploy(details)
}

// stable reports whether the Service is known to have stayed Ready for long enough. It may be gone by now.
func (b *builder) stable() bool {
	_, known := b.m.Waits[waitStable]
	return known || b.rules.Stabilization <= 0
}

// settling reports whether Deployed only waits for the Service's cluster: what happens in the meantime comes after it.
func (b *builder) settling() bool { return !b.m.Deployed && !b.m.ReadySince.IsZero() && b.stable() }

func (b *builder) readySince() time.Time {
	return b.since(waitReady, b.m.ReadySince, max(b.rules.Stabilization, b.rules.SettleWithin))
}

func (b *builder) deploy(details *ClusterDetails) {
	b.m.Deployed = true
	b.m.ReadySince = time.Time{}
	b.milestone(
		Transition{Type: Deployed, Revision: b.m.revision(b.m.Primary), Links: b.m.Last.link(LinkPath), Cluster: details},
	)
}
