// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"unique"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// Lean returns a CDEventSubject as it is cached: without what is never read, and with one copy of the strings
// that many have.
func Lean(s *v1alpha1.CDEventSubject) *v1alpha1.CDEventSubject {
	if s == nil {
		return nil
	}
	s.ManagedFields = nil
	for _, field := range []*string{
		&s.APIVersion, &s.Kind, &s.Namespace, &s.Spec.APIVersion, &s.Spec.Kind, &s.Spec.Namespace, &s.Status.LastEvent,
	} {
		*field = unique.Make(*field).Value()
	}
	return s
}
