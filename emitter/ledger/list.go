// SPDX-License-Identifier: Apache-2.0

package ledger

import "github.com/knative-cdevents/knative-cdevents/api/v1alpha1"

// All returns all CDEventSubjects as they are cached, in no order. The cache is shared: the
// caller must not change them.
func (l *Ledger) All() []*v1alpha1.CDEventSubject {
	l.mu.RLock()
	defer l.mu.RUnlock()
	out := make([]*v1alpha1.CDEventSubject, 0, len(l.subjects))
	for _, sub := range l.subjects {
		if sub.object != nil {
			out = append(out, sub.object)
		}
	}
	return out
}
