// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"

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
	if sub.shown = s.UID; sub.gone == s.UID {
		sub.gone = "" // a backup was restored
	}
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
	sub.gone = s.UID
	if certain && sub.object != nil && sub.object.UID == s.UID && sub.deleted != s.UID && !Finished(sub.object) {
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

// shownWithin is how long what the informer knows takes at most to reach Observe and Forget.
const shownWithin = 10 * time.Second

// await says what becomes of a CDEventSubject that is needed, and that the API server does not have. The informer will
// show its last state, unless it was created and deleted while the watch was interrupted. Its object is then one that
// is seen for the first time, as after any deletion that no watch shows.
func (l *Ledger) await(sub *subject) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.unseenLocked(sub):
		sub.unseenSince = time.Time{}
	case sub.unseenSince.IsZero():
		sub.unseenSince = time.Now()
	case time.Since(sub.unseenSince) >= shownWithin:
		sub.object, sub.unseenSince = nil, time.Time{}
		l.clearAcksLocked(sub)
		l.evictLocked(sub)
		return "the watch was interrupted, so its last state is unknown, and its object counts as new"
	}
	return "waiting for its last state"
}

// unseenLocked reports whether the informer knows all that is as new as the CDEventSubject, and has not shown it.
func (l *Ledger) unseenLocked(sub *subject) bool {
	if l.informer == nil || sub.object == nil || sub.object.UID == sub.shown {
		return false
	}
	c, err := resourceversion.CompareResourceVersion(l.informer.LastSyncResourceVersion(), sub.object.ResourceVersion)
	return err == nil && c >= 0
}
