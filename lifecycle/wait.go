package lifecycle

import (
	"maps"
	"time"
)

// Wait names a wait. One process's monotonic clock measures it: journaled times may come from a
// clock that was wrong, and never go back afterwards.
type Wait string

// The waits besides incidents: for a Service to stay Ready, for its cluster to settle before an
// announcement, and between two steps of a rollout.
const (
	waitReady    Wait = "ready"
	waitSettling Wait = "settling"
	waitPending  Wait = "pending"
	waitShift    Wait = "shift"
)

func incidentWait(kind Incident) Wait { return Wait("incident/" + string(kind)) }

// startWait starts a wait now.
func (b *builder) startWait(w Wait) { b.setWait(w, b.now) }

func (b *builder) setWait(w Wait, since time.Time) {
	if b.m.Waits == nil {
		b.m.Waits = map[Wait]time.Time{}
	}
	b.m.Waits[w] = since
}

// since returns when a wait began. The start that another process stored counts if it is within the
// limit; otherwise the wait starts again.
func (b *builder) since(w Wait, stored time.Time, limit time.Duration) time.Time {
	if since, ok := b.m.Waits[w]; ok {
		return since
	}
	if stored.After(b.now) || stored.Before(b.now.Add(-limit)) {
		stored = b.now
	}
	b.setWait(w, stored)
	return stored
}

// shiftDue is when the next step of a gradual rollout may be announced.
func (b *builder) shiftDue() time.Time {
	interval := b.rules.ShiftedMinInterval
	if _, known := b.m.Waits[waitShift]; !known && !b.m.LastShift.After(b.now) {
		return b.m.LastShift.Add(interval)
	}
	return b.since(waitShift, b.m.LastShift, interval).Add(interval)
}

// pruneWaits drops the waits that have ended.
func (b *builder) pruneWaits() {
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
		return false // incidents end their own waits
	})
}
