package lifecycle

import (
	"maps"
	"time"
)

// Wait names something that is waited for. How long is measured by the clock of one
// process, which does not step: journaled times may be those of a clock that was
// wrong, and never go back once they are.
type Wait string

// What is waited for, beside incidents: that a Service stays Ready, that its cluster
// settles before something is told, and the time between two steps of a rollout.
const (
	waitReady    Wait = "ready"
	waitSettling Wait = "settling"
	waitPending  Wait = "pending"
	waitShift    Wait = "shift"
)

func waitFor(kind Incident) Wait { return Wait("incident/" + string(kind)) }

// begins notes that a wait begins now.
func (b *builder) begins(w Wait) { b.waits(w, b.now) }

func (b *builder) waits(w Wait, since time.Time) {
	if b.m.Waits == nil {
		b.m.Waits = map[Wait]time.Time{}
	}
	b.m.Waits[w] = since
}

// since is when a wait began. One that another process began is taken over from the
// memory if it may have begun then, and begins anew if not.
func (b *builder) since(w Wait, stored time.Time, limit time.Duration) time.Time {
	if since, ok := b.m.Waits[w]; ok {
		return since
	}
	if stored.After(b.now) || stored.Before(b.now.Add(-limit)) {
		stored = b.now
	}
	b.waits(w, stored)
	return stored
}

// shiftDue is when the next step of a gradual rollout may be told.
func (b *builder) shiftDue() time.Time {
	interval := b.rules.ShiftedMinInterval
	if _, known := b.m.Waits[waitShift]; !known && !b.m.LastShift.After(b.now) {
		return b.m.LastShift.Add(interval)
	}
	return b.since(waitShift, b.m.LastShift, interval).Add(interval)
}

// over forgets the waits that have ended.
func (b *builder) over() {
	if b.m.Removed {
		b.m.Waits = nil
	}
	maps.DeleteFunc(b.m.Waits, func(w Wait, _ time.Time) bool {
		switch w {
		case waitReady:
			return b.m.ReadySince.IsZero()
		case waitSettling:
			return b.m.Cluster == nil || b.m.Cluster.Settling.IsZero()
		case waitPending:
			return b.m.Pending == nil
		case waitShift:
			return b.m.Held == nil && !b.now.Before(b.shiftDue())
		}
		return false // an incident ends its own
	})
}
