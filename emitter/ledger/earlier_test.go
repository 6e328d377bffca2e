// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// An entry that an earlier build stored is continued, and compressed by its next transition.
func TestEntryOfAnEarlierBuild(t *testing.T) {
	s := store.New()
	first := ledger.New(s, everyone{"a"}, &counts{}, ledger.WithAcks(&store.Acks{}))
	must(t, add(first, lifecycle.Created, ""))
	earlier := ledger.Unpacked(s.Peek(ledger.Name(cart))).DeepCopy()
	if earlier.Status.Compressed != nil || earlier.Status.Memory == nil || len(earlier.Status.History) != 1 {
		t.Fatalf("an earlier build does not store %+v", earlier.Status)
	}
	_, err := s.Update(t.Context(), earlier, metav1.UpdateOptions{})
	must(t, err)

	l := ledger.New(s, everyone{"a"}, &counts{}, ledger.WithAcks(&store.Acks{}))
	l.Observe(s.Peek(earlier.Name))
	must(t, add(l, lifecycle.Upgraded, ""))
	now := s.Peek(earlier.Name)
	if now.Status.Memory != nil || now.Status.History != nil {
		t.Errorf("it is not compressed: %+v", now.Status)
	}
	if got := ledger.Unpacked(now).Status; got.Sequence != 2 || len(got.History) != 2 || got.History[0].Type != string(lifecycle.Created) {
		t.Errorf("%d transitions, of which the history has %+v", got.Sequence, got.History)
	}
}
