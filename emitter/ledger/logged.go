// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"github.com/google/uuid"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger/wal"
)

// NewLog returns a log that a ledger can write to. Options need only say whom to tell, and who leads.
func NewLog(client wal.Client, o wal.Options) *wal.Log {
	o.Direct, o.Lean, o.Finished = direct, Lean, Finished
	if o.Attempt == nil {
		o.Attempt = uuid.NewString
	}
	return wal.New(client, o)
}

// direct says which CDEventSubjects are no states of objects.
func direct(s *v1alpha1.CDEventSubject) bool {
	return s.Spec.APIVersion == v1alpha1.SchemeGroupVersion.String() && (s.Spec.Kind == AcknowledgementsKind || s.Spec.Kind == BaselineKind)
}
