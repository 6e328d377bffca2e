// SPDX-License-Identifier: Apache-2.0

package ledger

import "github.com/knative-cdevents/knative-cdevents/api/v1alpha1"

// Lean returns a CDEventSubject as it is cached: without what is never read.
func Lean(s *v1alpha1.CDEventSubject) *v1alpha1.CDEventSubject {
	if s != nil {
		s.ManagedFields = nil
	}
	return s
}
