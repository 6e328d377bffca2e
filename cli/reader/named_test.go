// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
)

// Somebody has edited the kind of an entry to that of what belongs to others. It is then no entry.
func TestEntryWithAnotherKind(t *testing.T) {
	t.Parallel()
	edited := v1alpha1.CDEventSubject{
		ObjectMeta: metav1.ObjectMeta{Name: "service-1"},
		Spec:       v1alpha1.CDEventSubjectSpec{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: ledger.AcknowledgementsKind},
	}
	if got := named(ledger.WithSlots([]v1alpha1.CDEventSubject{edited}), "service-1"); got != nil {
		t.Errorf("%+v, want none", got)
	}
}
