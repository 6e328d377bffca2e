// SPDX-License-Identifier: Apache-2.0

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
	// waitStable is over: the Service is known to have stayed Ready for long enough.
	waitStable Wait = "stable"
)

func incidentWait(kind Incident) Wait { return Wait("incident/" + string(kind)) }

// timing measures the waits of one fold.
type timing struct {
	// now is the clock's reading.
	now time.Time
	// waits are those of the memory.
	waits *map[Wait]time.Time
	// wake is when the next of them ends, or zero.
	wake time.Time
	// unconfirmed says that the state may be over by now; unsure is what was not decided because of that.
	unconfirmed bool
	unsure      time.Time
}

// startWait starts a wait now.
func (t *timing) startWait(w Wait) { t.setWait(w, t.now) }

func (t *timing) setWait(w Wait, since time.Time) {
	if *t.waits == nil {
		*t.waits = map[Wait]time.Time{}
	}
	(*t.waits)[w] = since
}

// since returns when a wait began. The start that another process stored counts if it is within the
// limit; otherwise the wait starts again.
func (t *timing) since(w Wait, stored time.Time, limit time.Duration) time.Time {
	if since, ok := (*t.waits)[w]; ok {
		return since
	}
	if stored.After(t.now) || stored.Before(t.now.Add(-limit)) {
		stored = t.now
	}
	t.setWait(w, stored)
	return stored
}

// awaited is since for what another process has stored that it waits for, however long ago that is. If it waits from
// now on, or another clock was ahead, stored is set, and is to be written.
func (t *timing) awaited(w Wait, stored *time.Time, limit time.Duration) time.Time {
	began := *stored
	if began.IsZero() || began.After(t.now) {
		began = t.now
		*stored = began.UTC().Truncate(time.Microsecond) // as it is stored
	}
	return t.since(w, began, max(limit, t.now.Sub(began)))
}

func (t *timing) wakeAt(at time.Time) {
	if t.wake.IsZero() || at.Before(t.wake) {
		t.wake = at
	}
}

// over reports whether a wait that began at that time has lasted for the limit. If not, it sees to it
// that the snapshot is evaluated again when it has. Of a state that is not confirmed it is not known how
// long it lasted: the process may have been paused, and what ended the state is still on its way.
func (t *timing) over(since time.Time, limit time.Duration) bool {
	due := since.Add(limit)
	switch {
	case t.now.Before(due):
		t.wakeAt(due)
		return false
	case limit > 0 && t.unconfirmed:
		if t.unsure.Before(due) {
			t.unsure = due
		}
		return false
	}
	return true
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
		case waitReady, waitStable:
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
