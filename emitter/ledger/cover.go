// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"k8s.io/apimachinery/pkg/types"
)

// covers reports whether a slot has all that is acknowledged of pending events of a subject.
func (s *slot) covers(sub *subject) bool {
	for source, sequence := range sub.acked {
		if !s.has(sub, source, sequence) && digest(sub.object, source, sequence) != "" {
			return false
		}
	}
	return true
}

// has reports whether a slot says that a source has the events of a subject up to a number.
func (s *slot) has(sub *subject, source types.UID, sequence int64) bool {
	return s.object != nil && acknowledged(sub.object, source, s.object.Status.Acknowledgements[source][sub.name]) >= sequence
}

// coverLocked writes again what this process had written to a slot, if that means nothing any more: the slot is another, or the
// CDEventSubject has taken over only a part, by a process that did not know the rest.
func (l *Ledger) coverLocked(sub *subject) {
	if sub.slot != nil && !sub.dirty && !sub.slot.covers(sub) {
		sub.own = true
		l.gatherLocked(sub)
	}
}

// uncoverLocked writes again what this process had written to a slot and is no longer in it.
func (l *Ledger) uncoverLocked(number int) {
	s := &l.gathered.slots[number]
	for _, sub := range s.heldLocked() {
		if !s.covers(sub) {
			sub.slot = nil
			l.gatherLocked(sub)
		}
	}
}

// foreignLocked reports whether a slot has an acknowledgement that is not folded, and that this process has not written to another slot.
func (l *Ledger) foreignLocked(number int) bool {
	s := &l.gathered.slots[number]
	if s.object == nil {
		return false
	}
	for source, entries := range s.object.Status.Acknowledgements {
		for name, entry := range entries {
			sub, ok := l.subjects[name]
			if !ok || sub.slot == s || sub.slot != nil && sub.slot.object != nil && sub.slot.object.Status.Acknowledgements[source][name] == entry {
				continue // most are like this, and a digest takes time
			}
			if n := acknowledged(sub.object, source, entry); n > 0 && (sub.slot == nil || !sub.slot.has(sub, source, n)) {
				return true
			}
		}
	}
	return false
}
