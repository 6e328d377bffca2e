package lifecycle

import "slices"

// traffic announces a changed effective split.
func (b *builder) traffic() {
	if r := b.s.Route; r != nil && r.Effective && len(r.Traffic) > 0 && !slices.Equal(r.Traffic, b.m.Traffic) {
		b.split(r)
	}
	b.flushWhenDue()
}

func (b *builder) split(r *Route) {
	b.overtake(b.told(false))
	before, old := b.m.Traffic, b.m.revision(b.m.Primary)
	if b.m.Held != nil && !r.Rollout && full(r.Traffic) == "" {
		// A user moved on while steps of the rollout were held back: its last
		// step is announced before his.
		b.flush()
		before = b.m.Traffic
	}
	b.setTraffic(r.Traffic)
	if !b.m.Deployed || old == nil {
		return // what it starts with is part of deployed
	}
	if b.m.Primary != old.Name {
		b.primaryMoved(old, before)
		return
	}
	if b.undone(before) {
		return
	}
	told := b.announced(before)
	if gone := b.withdrawn(told); gone != nil && b.rules.RollbackWithdrawn && !b.replaced(told, gone) {
		t := Transition{Type: RolledBack, Reason: ReasonWithdrawn, Revision: old, Previous: gone}
		b.back(t, before)
		return
	}
	b.shifted(r.Rollout, before)
}

// setTraffic takes over a split. While it is one, the last primary stays; where
// there never was one, the largest share counts.
func (b *builder) setTraffic(split []Share) {
	b.m.Traffic = split
	switch whole := full(split); {
	case whole != "":
		b.m.Primary = whole
	case b.m.Primary == "" && len(split) > 0:
		b.m.Primary = split[0].Revision
	}
}

func full(split []Share) string {
	if len(split) == 1 {
		return split[0].Revision
	}
	return ""
}

// primaryMoved decides between forward and back. Only the generation orders
// Revisions; one that nothing is known of counts as newer. A new Revision that
// equals an earlier primary has the place of that one.
func (b *builder) primaryMoved(old *Revision, before []Share) {
	now := b.m.revision(b.m.Primary)
	t := Transition{Type: Upgraded, Revision: now, Previous: old}
	former := b.m.formerly(now)
	switch {
	case now.Generation > 0 && now.Generation < old.Generation:
		t.Reason = ReasonTraffic
		if b.rules.RollbackTraffic {
			t.Type = RolledBack
		}
	case sameImages(now, old) && now.Template == old.Template:
		t.Reason = ReasonConfiguration
	case b.rules.RollbackTemplate && former != nil && former.Rank < b.m.Revisions[old.Name].rank():
		t.Type, t.Reason = RolledBack, ReasonReapplied
	case sameImages(now, old):
		t.Reason = ReasonConfiguration
	}
	if k, ok := b.m.Revisions[now.Name]; ok && former != nil && k.Rank == 0 {
		k.Rank = former.Rank
		b.m.Revisions[now.Name] = k
	}
	b.m.retire(old)
	if t.Type == RolledBack {
		b.back(t, before)
		return
	}
	t.PreviousTraffic, t.Merged = b.settle(before)
	t.Links = b.m.Last.link(LinkPath)
	b.arrive(t)
}

// back announces a rollback. It belongs to the rollout that it takes back,
// except a re-applied template, which is a rollout of its own.
func (b *builder) back(t Transition, before []Share) {
	undone := b.m.Revisions[t.Previous.Name]
	if t.Reason != ReasonReapplied {
		t.Chain = undone.Chain
	}
	t.PreviousTraffic, t.Merged = b.settle(before)
	t.Links = append(b.m.Last.link(LinkPath), undone.Arrived.link(LinkUndoes)...)
	b.arrive(t)
}

// announced is the split that was told last: not the one before this, where steps
// were held back.
func (b *builder) announced(before []Share) []Share {
	if b.m.Held != nil {
		return b.m.Held.Previous
	}
	return before
}

// undone says that the split is what was told last. The steps that were held back
// in between came to nothing.
func (b *builder) undone(before []Share) bool {
	if !slices.Equal(b.announced(before), b.m.Traffic) {
		return false
	}
	b.m.Held = nil
	return true
}

// withdrawn returns the newest Revision that is newer than the primary and lost
// all its traffic.
func (b *builder) withdrawn(before []Share) *Revision {
	primary := b.m.revision(b.m.Primary)
	var out *Revision
	for _, s := range before {
		if r := b.m.revision(s.Revision); share(b.m.Traffic, r.Name) == 0 && r.Generation > primary.Generation {
			out = newer(out, r)
		}
	}
	return out
}

// replaced says that a Revision newer than the one that lost its traffic gained
// some: nobody withdrew anything. So it is with each commit under "@latest=10", and
// in a gradual rollout, where the newest one grows at the cost of the one before it.
func (b *builder) replaced(before []Share, gone *Revision) bool {
	return slices.ContainsFunc(b.m.Traffic, func(s Share) bool {
		return s.Percent > share(before, s.Revision) && b.m.revision(s.Revision).Generation > gone.Generation
	})
}

// shifted announces a split, at once when a user made it.
func (b *builder) shifted(rollout bool, before []Share) {
	if rollout {
		if b.now.Before(b.shiftDue()) {
			if b.m.Held == nil {
				b.m.Held = &Held{Previous: before}
			}
			b.m.Held.Steps++
			return
		}
		b.m.LastShift = b.at
		b.begins(waitShift)
	}
	b.shift(before)
}

// shift emits TrafficShifted for the present split.
func (b *builder) shift(before []Share) {
	previous, merged := b.settle(before)
	reason := ""
	if gone := b.withdrawn(previous); gone != nil && b.replaced(previous, gone) {
		reason = ReasonReplaced
	}
	b.newcomers(previous, b.m.Traffic, b.emit(Transition{
		Type: TrafficShifted, Reason: reason, Revision: b.newest(), Previous: b.m.revision(b.m.Primary),
		PreviousTraffic: previous, Merged: merged, Links: b.m.Last.link(LinkPath),
	}))
}

// newest is the Revision of the highest generation that has traffic: in a
// rollout, the one that is rolled out.
func (b *builder) newest() *Revision {
	var out *Revision
	for _, s := range b.m.Traffic {
		out = newer(out, b.m.revision(s.Revision))
	}
	return out
}

// settle ends the holding back: it returns the split that was announced last
// and how many steps the transition stands for beside its own.
func (b *builder) settle(before []Share) ([]Share, int64) {
	held := b.m.Held
	b.m.Held = nil
	if held == nil {
		return before, 0
	}
	return held.Previous, held.Steps
}

// flush announces the last step that was held back.
func (b *builder) flush() {
	held := b.m.Held
	b.m.Held.Steps-- // the last one is announced, the others are merged into it
	b.m.LastShift = b.at
	b.begins(waitShift)
	b.shift(held.Previous)
}

func (b *builder) flushWhenDue() {
	if b.m.Held == nil {
		return
	}
	if due := b.shiftDue(); b.now.Before(due) {
		b.wakeAt(due)
		return
	}
	b.flush()
}

func sameImages(a, b *Revision) bool {
	x, y := digests(a), digests(b)
	return len(x) > 0 && slices.Equal(x, y)
}
