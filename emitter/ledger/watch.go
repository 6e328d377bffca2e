// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// Observe takes over a CDEventSubject that the informer has seen. It returns true if another
// process wrote it. Decisions that were made without it must then be made again.
func (l *Ledger) Observe(s *v1alpha1.CDEventSubject) bool {
	others := l.take(s)
	if l.mayForget(s) {
		l.acks.Add(s.Name)
	}
	if !others {
		return false
	}
	l.remind(s)
	return true
}

func (l *Ledger) take(s *v1alpha1.CDEventSubject) bool {
	sub := l.subject(s.Name, KeyOf(s.Spec))
	l.mu.Lock()
	defer l.mu.Unlock()
	if sub.object != nil && sub.object.ResourceVersion == s.ResourceVersion {
		sub.object = s // share the informer's copy
		return false
	}
	if s.UID == sub.deleted || sub.object != nil && !newer(s.ResourceVersion, sub.object.ResourceVersion) {
		return false
	}
	before := sub.object
	sub.object = s
	sub.discardStaleAcksLocked(before)
	l.writtenLocked(sub)
	return true
}

// Forget takes note that a CDEventSubject is gone, and what its last state was. If that is
// certain and it was still needed, it is put back: without it, its object would be announced
// again.
func (l *Ledger) Forget(s *v1alpha1.CDEventSubject, certain bool) {
	if l.lose(s, certain) {
		l.acks.Add(s.Name)
	}
}

// lose returns whether the CDEventSubject must be put back.
func (l *Ledger) lose(s *v1alpha1.CDEventSubject, certain bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	sub, ok := l.subjects[s.Name]
	if !ok {
		return false
	}
	if certain && sub.object != nil && sub.object.UID == s.UID && sub.deleted != s.UID && !Finished(sub.object) {
		sub.missing = true
		return true
	}
	if sub.deleted == s.UID {
		sub.deleted = ""
	}
	if sub.object != nil && sub.object.UID == s.UID {
		sub.object = nil
		l.clearAcksLocked(sub)
	}
	l.evictLocked(sub)
	return false
}
