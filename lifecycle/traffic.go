// SPDX-License-Identifier: Apache-2.0

package lifecycle

import "slices"

// traffic announces a changed effective split.
func (b *builder) traffic() {
	r := b.s.Route
	if r != nil && r.Effective && len(r.Traffic) > 0 &&
		(!slices.Equal(r.Traffic, b.m.Traffic) || b.primaryRemade(r.Traffic.whole())) {
		b.applySplit(r)
	}
	b.flushHeldWhenDue()
}

// primaryRemade reports whether the Revision with all traffic is another one than the primary of its name.
func (b *builder) primaryRemade(whole string) bool {
	return whole != "" && whole == b.m.Primary && b.m.Revisions[whole].Replaced != nil
}

// adoptRemade forgets what was replaced, once a Revision has all traffic. It returns whether that Revision replaced the
// old primary under its name, and differs from it.
func (b *builder) adoptRemade(old KnownRevision) (differs bool) {
	for name, k := range b.m.Revisions {
		if k.Replaced == nil {
			continue
		}
		if name == b.m.Primary && name == old.Name {
			if differs = !equals(&k.Revision, &old.Revision); !differs {
				k.Chain, k.Arrived, k.Rank = old.Chain, old.Arrived, old.rank()
			}
		}
		k.Replaced = nil
		b.m.Revisions[name] = k
	}
	return differs
}

func (b *builder) applySplit(r *Route) {
	b.flushPending(b.clusterDetails(false))
	before, old, remade := b.m.Traffic, b.m.primary(), false
	if b.m.Held != nil && !r.Rollout && r.Traffic.whole() == "" {
		// A user changed the split while steps of the rollout were held. Its last step is announced
		// first.
		b.flushHeld()
		before = b.m.Traffic
	}
	b.setTraffic(r.Traffic)
	if r.Traffic.whole() != "" {
		remade = b.adoptRemade(old)
	}
	if !b.m.Deployed || old.Name == "" {
		return // the initial split is part of Deployed
	}
	if b.m.Primary != old.Name || remade {
		b.primaryMoved(old, before)
		return
	}
	if b.backToAnnounced(before) {
		return
	}
	announced := b.lastAnnounced(before)
	if gone := b.withdrawn(announced); gone != nil && b.rules.RollbackWithdrawn && !b.replaced(announced, gone) {
		t := Transition{Type: RolledBack, Reason: ReasonWithdrawn, Revision: &old.Revision, Previous: gone}
		b.rollBack(t, b.m.Revisions[gone.Name], before)
		return
	}
	b.shifted(r.Rollout, before)
}

// setTraffic adopts a split. During a split, the last primary stays; if there never was one, the
// largest share counts.
func (b *builder) setTraffic(split Split) {
	b.m.Traffic = split
	switch whole := split.whole(); {
	case whole != "":
		b.m.Primary = whole
	case b.m.Primary == "" && len(split) > 0:
		b.m.Primary = split[0].Revision
	}
}

// primaryMoved decides between forward and back. Only the generation orders Revisions; an unknown
// Revision counts as newer. A new Revision that equals an earlier primary takes that one's rank.
func (b *builder) primaryMoved(was KnownRevision, before Split) {
	now, old := b.m.revision(b.m.Primary), &was.Revision
	t := Transition{Type: Upgraded, Revision: now, Previous: old}
	former := b.m.findFormer(now)
	if equals(now, old) {
		former = &Former{Rank: was.rank()}
	}
	reverted := b.reverted(old, now)
	switch {
	case now.Generation > 0 && now.Generation < old.Generation:
		t.Reason = ReasonTraffic
		if b.rules.RollbackTraffic {
			t.Type = RolledBack
		}
	case b.rules.RollbackTemplate && reverted != nil:
		t.Type, t.Reason, t.Previous = RolledBack, ReasonReverted, reverted
	case equals(now, old):
		t.Reason = ReasonConfiguration
	case b.rules.RollbackTemplate && former != nil && former.Rank < was.rank():
		t.Type, t.Reason = RolledBack, ReasonReapplied
	case sameImages(now, old):
		t.Reason = ReasonConfiguration
	}
	if k, ok := b.m.Revisions[now.Name]; ok && former != nil && k.Rank == 0 {
		k.Rank = former.Rank
		b.m.Revisions[now.Name] = k
	}
	b.m.retire(was)
	if t.Type == RolledBack {
		if t.Reason == ReasonReverted {
			was = b.m.Revisions[reverted.Name]
		}
		b.rollBack(t, was, before)
		return
	}
	t.PreviousTraffic, t.Merged = b.takeHeld(before)
	t.Links = b.m.Last.link(LinkPath)
	b.announcePrimary(t)
}

// reverted returns the newest Revision between two primaries that are equal, if it differs from both: nothing changed
// for users, and it is what was reverted. Without one, the primary was only made again.
func (b *builder) reverted(old, now *Revision) *Revision {
	if !equals(now, old) {
		return nil
	}
	var out *Revision
	for _, k := range b.m.Revisions {
		if k.Generation > old.Generation && k.Generation < now.Generation && !equals(&k.Revision, now) {
			out = newer(out, &k.Revision)
		}
	}
	return out
}

// rollBack announces a rollback. It belongs to the rollout that it undoes, except if a new Revision brings it.
func (b *builder) rollBack(t Transition, undone KnownRevision, before Split) {
	if !t.Reapplies() {
		t.Chain = undone.Chain
	}
	t.PreviousTraffic, t.Merged = b.takeHeld(before)
	t.Links = append(b.m.Last.link(LinkPath), undone.Arrived.link(LinkUndoes)...)
	b.announcePrimary(t)
}

// lastAnnounced returns the last announced split, which is older than the one before if steps are held.
func (b *builder) lastAnnounced(before Split) Split {
	if b.m.Held != nil {
		return b.m.Held.Previous
	}
	return before
}

// backToAnnounced reports whether the split is the last announced one again. The held steps in between then
// came to nothing.
func (b *builder) backToAnnounced(before Split) bool {
	if !slices.Equal(b.lastAnnounced(before), b.m.Traffic) {
		return false
	}
	b.m.Held = nil
	return true
}

// withdrawn returns the newest Revision that is newer than the primary and lost all its traffic.
func (b *builder) withdrawn(before Split) *Revision {
	primary := b.m.revision(b.m.Primary)
	var out *Revision
	for _, s := range before {
		if r := b.m.revision(s.Revision); b.m.Traffic.Percent(r.Name) == 0 && r.Generation > primary.Generation {
			out = newer(out, r)
		}
	}
	return out
}

// replaced reports whether a Revision newer than the one that lost its traffic gained some: then
// nothing was withdrawn. Each commit under "@latest=10" does this, as does a gradual rollout, where
// the newest Revision grows at the cost of the previous one.
func (b *builder) replaced(before Split, gone *Revision) bool {
	return slices.ContainsFunc(b.m.Traffic, func(s Share) bool {
		return s.Percent > before.Percent(s.Revision) && b.m.revision(s.Revision).Generation > gone.Generation
	})
}

// shifted announces a split, immediately if a user made it.
func (b *builder) shifted(rollout bool, before Split) {
	if rollout {
		if b.now.Before(b.shiftDue()) {
			if b.m.Held == nil {
				b.m.Held = &Held{Previous: before}
			}
			b.m.Held.Steps++
			return
		}
		b.m.LastShift = b.at
		b.startWait(waitShift)
	}
	b.shift(before)
}

// shift emits TrafficShifted for the current split.
func (b *builder) shift(before Split) {
	previous, merged := b.takeHeld(before)
	reason := ""
	if gone := b.withdrawn(previous); gone != nil && b.replaced(previous, gone) {
		reason = ReasonReplaced
	}
	b.markNewcomers(previous, b.m.Traffic, b.emit(Transition{
		Type: TrafficShifted, Reason: reason, Revision: b.newest(), Previous: b.m.revision(b.m.Primary),
		PreviousTraffic: previous, Merged: merged, Links: b.m.Last.link(LinkPath),
	}))
}

// newest returns the Revision of the highest generation that has traffic: during a rollout, the one
// being rolled out.
func (b *builder) newest() *Revision {
	var out *Revision
	for _, s := range b.m.Traffic {
		out = newer(out, b.m.revision(s.Revision))
	}
	return out
}

// takeHeld clears the held steps. It returns the last announced split and how many further steps the
// transition stands for.
func (b *builder) takeHeld(before Split) (Split, int64) {
	held := b.m.Held
	b.m.Held = nil
	if held == nil {
		return before, 0
	}
	return held.Previous, held.Steps
}

// flushHeld announces the last held step.
func (b *builder) flushHeld() {
	held := b.m.Held
	b.m.Held.Steps-- // the last one is announced, the others are merged into it
	b.m.LastShift = b.at
	b.startWait(waitShift)
	b.shift(held.Previous)
}

func (b *builder) flushHeldWhenDue() {
	if b.m.Held == nil {
		return
	}
	if due := b.shiftDue(); b.now.Before(due) {
		b.wakeAt(due)
		return
	}
	b.flushHeld()
}

// equals reports whether two Revisions run the same. It is not known of images that are not resolved.
func equals(a, b *Revision) bool { return sameImages(a, b) && a.Template == b.Template }

func sameImages(a, b *Revision) bool {
	x, y := digests(a), digests(b)
	return len(x) > 0 && slices.Equal(x, y)
}
