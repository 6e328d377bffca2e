// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/controlplane"
)

// The API server computes the fields of each manager with each write, unless an object has no managers.
func TestWritesAreNotTracked(t *testing.T) {
	cs, err := client.New(controlplane.Start(t).Config())
	if err != nil {
		t.Fatal(err)
	}
	subjects := cs.CDEventSubjects("default")
	l := ledger.New(subjects, everyone{"a"}, &counts{})
	for range 3 {
		if err := add(l, lifecycle.TrafficShifted, ""); err != nil {
			t.Fatal(err)
		}
	}
	got, err := subjects.Get(t.Context(), ledger.Name(cart), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Status.Sequence != 3 || len(got.ManagedFields) > 0 {
		t.Errorf("after %d writes, the API server tracks %v", got.Status.Sequence, got.ManagedFields)
	}
}
