// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"fmt"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// mayForget reports whether a user asks to forget a CDEventSubject, and this process is the one to do it.
func (l *Ledger) mayForget(s *v1alpha1.CDEventSubject) bool {
	return s != nil && s.Annotations[v1alpha1.ForgetAnnotation] == "true" && l.leads(KeyOf(s.Spec).NamespacedName())
}

// forget deletes a CDEventSubject if a user asks for it. Its end is written first. Without it, another process
// that sees the deletion would create it again.
func (l *Ledger) forget(ctx context.Context, sub *subject) error {
	sub.writing.Lock()
	defer sub.writing.Unlock()
	l.mu.RLock()
	o := sub.object
	l.mu.RUnlock()
	if !l.mayForget(o) {
		return nil
	}
	if err := l.writeHeld(ctx, sub, o.Spec, nil); err != nil {
		return fmt.Errorf("forgetting CDEventSubject %s: %w", sub.name, err)
	}
	return l.collectHeld(ctx, sub)
}

// forget ends a CDEventSubject as if its object were gone, and drops what is pending.
func (e *edit) forget() {
	st := &e.next.Status
	e.changed = e.changed || !Finished(e.next)
	for _, j := range st.Journal {
		for _, r := range j.Recipients {
			if isPending(st, j, r) {
				e.lost[DroppedForgotten]++
			}
		}
	}
	st.Journal, st.Removed = nil, true
}
