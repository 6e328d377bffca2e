// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// writeSlots writes the acknowledgements that no slot has. It returns whether there were any that this process leads for.
func (l *Ledger) writeSlots(ctx context.Context) (bool, error) {
	wrote := false
	for range l.gathered.Slots + 1 { // the last time to find that all are full
		w := l.nextSlot()
		if w == nil {
			return wrote, nil
		}
		wrote = true
		written, err := l.putSlot(ctx, w.next)
		switch {
		case err == nil:
			l.slotWritten(w, written)
			continue
		case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
			l.metrics.Conflict()
			err = l.reloadSlot(ctx, w.number)
		case ctx.Err() == nil:
			l.metrics.Refused()
		}
		if l.slotFailed(w); forGood(err) {
			l.withoutSlots()
		}
		if err != nil {
			return wrote, fmt.Errorf("writing acknowledgements to CDEventSubject %s: %w", w.next.Name, err)
		}
	}
	return wrote, nil
}

// forGood reports whether the API server refuses a slot and will do so again, as by a quota.
func forGood(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// withoutSlots has each CDEventSubject take over its own acknowledgements.
func (l *Ledger) withoutSlots() {
	l.mu.Lock()
	defer l.mu.Unlock()
	mine, others := l.dirtyLocked()
	l.gathered.dirty = others
	l.foldNowLocked(mine)
}

func (l *Ledger) foldNowLocked(subjects []*subject) {
	for _, sub := range subjects {
		sub.dirty, sub.listed = false, false
		l.acks.Add(sub.name)
	}
}

// slotWrite is one write of a slot.
type slotWrite struct {
	number int
	next   *v1alpha1.CDEventSubject
	// subjects are those whose acknowledgements the slot has after the write. The last ones, from added on, are new.
	subjects []*subject
	added    int
}

// nextSlot prepares the next write, and returns nil if there is nothing to write.
func (l *Ledger) nextSlot() *slotWrite {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.discarded {
		return nil
	}
	g := &l.gathered
	mine, others := l.dirtyLocked()
	if g.dirty = append(others, mine...); len(mine) == 0 {
		return nil
	}
	number, ok := l.roomLocked(mine)
	if !ok { // every slot is full, so each takes over its own
		g.dirty = others
		l.foldNowLocked(mine)
		return nil
	}
	s := &g.slots[number]
	// What this slot has of them comes first: it is replaced.
	slices.SortStableFunc(mine, func(a, b *subject) int { return cmp.Compare(in(b, s), in(a, s)) })
	w, n := &slotWrite{number: number, next: s.emptied(number)}, 0
	for _, sub := range s.heldLocked() {
		if !sub.dirty || !sub.mine {
			n += enter(w.next, sub)
			w.subjects = append(w.subjects, sub)
		}
	}
	w.added = len(w.subjects)
	for len(mine) > 0 && (n == 0 || n+len(mine[0].acked) <= g.Facts) {
		n += enter(w.next, mine[0])
		mine[0].dirty, mine[0].listed, mine[0].own = false, false, false
		w.subjects, mine = append(w.subjects, mine[0]), mine[1:]
	}
	g.dirty = append(others, mine...)
	if len(mine) > 0 {
		g.open = (number + 1) % g.Slots
	}
	return w
}

// in is 1 if a slot has acknowledgements of a subject.
func in(sub *subject, s *slot) int {
	if sub.slot == s {
		return 1
	}
	return 0
}

// dirtyLocked returns the subjects with acknowledgements for a slot: those of this process and those that it leads for, and the others.
// It looks at foldLook of those that another process acknowledged, which has written them; the rest has its turn later. An event that was
// dropped is counted in its CDEventSubject, by the write that takes over its acknowledgement.
func (l *Ledger) dirtyLocked() (mine, others []*subject) {
	var passed []*subject
	for _, sub := range l.gathered.dirty {
		sub.mine = false
		switch {
		case !sub.dirty:
			sub.listed = false
		case len(sub.acked) == 0 || sub.object == nil:
			sub.dirty, sub.listed = false, false
		case len(sub.given) > 0:
			others = append(others, sub)
		case sub.own:
			sub.mine, mine = true, append(mine, sub)
		case len(passed) == foldLook:
			others = append(others, sub)
		case l.leads(sub.key.NamespacedName()):
			sub.mine, mine = true, append(mine, sub)
		default:
			passed = append(passed, sub)
		}
	}
	return mine, append(others, passed...)
}

// roomLocked returns the number of a slot with room: the open one, or one whose acknowledgements are all folded or in other slots.
func (l *Ledger) roomLocked(mine []*subject) (int, bool) {
	g := &l.gathered
	if open := &g.slots[g.open]; !l.foreignLocked(g.open) {
		n := 0
		for _, sub := range open.heldLocked() {
			n += len(sub.acked)
		}
		replaces := slices.ContainsFunc(mine, func(sub *subject) bool { return sub.slot == open })
		if n == 0 || n <= g.Facts && replaces || n+len(mine[0].acked) <= g.Facts {
			return g.open, true
		}
	}
	for i := range g.Slots {
		number := (g.open + 1 + i) % g.Slots
		if len(g.slots[number].heldLocked()) == 0 && !l.foreignLocked(number) {
			g.open = number
			return number, true
		}
	}
	return 0, false
}

func (l *Ledger) putSlot(ctx context.Context, next *v1alpha1.CDEventSubject) (*v1alpha1.CDEventSubject, error) {
	if next.ResourceVersion == "" {
		return l.client.Create(ctx, next, createOptions)
	}
	return l.client.Update(ctx, next, updateOptions)
}

func (l *Ledger) slotWritten(w *slotWrite, written *v1alpha1.CDEventSubject) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &l.gathered.slots[w.number]
	if s.object == nil || newer(written.ResourceVersion, s.object.ResourceVersion) {
		written.ManagedFields = nil
		s.object = written
	}
	s.members = slices.Clone(w.subjects)
	for _, sub := range w.subjects[w.added:] {
		if len(sub.acked) > 0 {
			sub.slot = s
		}
		if s.object != written { // another process was faster than the answer
			l.coverLocked(sub)
		}
	}
}

// slotFailed has another slot take what could not be written.
func (l *Ledger) slotFailed(w *slotWrite) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gathered.open = (w.number + 1) % l.gathered.Slots
	for _, sub := range w.subjects[w.added:] {
		if len(sub.acked) > 0 && sub.place != nil {
			sub.own = true
			l.gatherLocked(sub)
		}
	}
}

// reloadSlot reads a slot that another process has written or deleted.
func (l *Ledger) reloadSlot(ctx context.Context, number int) error {
	object, err := l.client.Get(ctx, slotName(number), getOptions)
	if apierrors.IsNotFound(err) {
		l.forgetSlot(number, "")
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading it after a conflict: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.takeSlotLocked(number, object)
	return nil
}
