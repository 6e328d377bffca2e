// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// Without its memory, an object would count as one that is seen for the first time, and its events would get numbers
// that are acknowledged.
func TestEmptiedEntryIsReported(t *testing.T) {
	t.Parallel()
	for name, memory := range map[string]string{
		"nothing": "", "a line break": "\n", "text": "edited by hand", "an earlier state": `{"sequence":2}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := store.New()
			l, q := queued(s, everyone{"a"}, &counts{})
			for range 4 {
				must(t, add(l, lifecycle.Deployed, ""))
			}
			id := ledger.Name(cart)
			acknowledge(l, id, "a", 4)
			o := s.Peek(id).DeepCopy()
			o.Status.Memory = memory
			o, err := s.Update(t.Context(), o, metav1.UpdateOptions{})
			must(t, err)
			l.Observe(o)
			if err := add(l, lifecycle.Upgraded, ""); err == nil || !strings.Contains(err.Error(), "no events about this object are sent") && name != "text" { // that is for the observer, which decodes it
				t.Errorf("%v, want what is to be done", err)
			}
			if now := s.Peek(id).Status; now.Sequence != 4 {
				t.Errorf("the newest transition is %d, want 4", now.Sequence)
			}
			s.Annotate(id, v1alpha1.ForgetAnnotation, "true")
			l.Observe(s.Peek(id))
			must(t, q.write(l))
			if s.Has(id) {
				t.Error("it is not forgotten")
			}
		})
	}
}

// The informer delivers the deletion of an entry, and a new one of that name, before the answer to the deletion is
// there.
func TestCreatedAnewWhileItIsForgotten(t *testing.T) {
	t.Parallel()
	s, seen := store.New(), 0
	l, q := queued(s, everyone{"a"}, &counts{})
	other, _ := queued(s, everyone{"a"}, &counts{})
	must(t, add(l, lifecycle.Deployed, ""))
	s.Annotate(ledger.Name(cart), v1alpha1.ForgetAnnotation, "true")
	follow(s, l, &seen)
	s.After = func(verb, _ string) error {
		if verb == "delete" {
			s.After = nil
			must(t, add(other, lifecycle.Deployed, ""))
			follow(s, l, &seen)
		}
		return nil
	}
	must(t, q.write(l))
	follow(s, l, &seen)
	if got := sequences(l.Pending(key, "a")); got != "1" {
		t.Errorf("pending %q, want 1", got)
	}
}
