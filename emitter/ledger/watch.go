package ledger

import (
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// Observe takes over an entry that the informer has seen. It returns whether that
// was news, written by somebody else: what was decided before, without it, must
// be looked at again.
func (l *Ledger) Observe(s *v1alpha1.CDEventSubject) bool {
	if !l.take(s) {
		return false
	}
	l.remind(s)
	return true
}

func (l *Ledger) take(s *v1alpha1.CDEventSubject) bool {
	ln := l.line(s.Name, KeyOf(s.Spec))
	l.mu.Lock()
	defer l.mu.Unlock()
	if ln.object != nil && ln.object.ResourceVersion == s.ResourceVersion {
		ln.object = s // the same, and the informer keeps it anyway
		return false
	}
	if s.UID == ln.deleted || ln.object != nil && !newer(s.ResourceVersion, ln.object.ResourceVersion) {
		return false
	}
	ln.object = s
	ln.unlearnLocked()
	return true
}

// Forget takes note that an entry is gone, and what it was last. Where that is
// known for certain, and it was still needed, it is put back: deleted by hand,
// it would have its object announced anew.
func (l *Ledger) Forget(s *v1alpha1.CDEventSubject, certain bool) {
	if l.lose(s, certain) {
		l.acks.add(s.Name)
	}
}

// lose returns whether the entry must be put back.
func (l *Ledger) lose(s *v1alpha1.CDEventSubject, certain bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	ln, ok := l.lines[s.Name]
	if !ok {
		return false
	}
	if certain && ln.object != nil && ln.object.UID == s.UID && ln.deleted != s.UID && !finished(ln.object) && s.Spec.Kind != BaselineKind {
		ln.missing = true
		return true
	}
	if ln.deleted == s.UID {
		ln.deleted = ""
	}
	if ln.object != nil && ln.object.UID == s.UID {
		ln.object = nil
	}
	l.dropLocked(ln)
	return false
}
