// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// Lean returns a CDEventSubject as it is cached: without what is never read.
func Lean(s *v1alpha1.CDEventSubject) *v1alpha1.CDEventSubject {
	if s != nil {
		s.ManagedFields = nil
	}
	return s
}

// untracked asks the API server to keep no field managers of an object: only this controller writes CDEventSubjects,
// and tracking costs the API server about a tenth of each write. A list with one empty entry is how to ask
// (https://kubernetes.io/docs/reference/using-api/server-side-apply/, "Clearing managedFields"); an object without
// managers is not tracked from then on.
func untracked() []metav1.ManagedFieldsEntry { return []metav1.ManagedFieldsEntry{{}} }
