// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/test/sim/store"
)

// An entry has the conditions of its kind and the condition Delivered. Each keeps the time of
// its last transition.
func TestEntryHasTheConditionsOfItsKind(t *testing.T) {
	s := store.New()
	l := ledger.New(s, everyone{"a"}, &counts{})
	write := func(at time.Time, conditions ...metav1.Condition) *metav1.Condition {
		t.Helper()
		must(t, l.Journal(context.Background(), cart, func(*v1alpha1.CDEventSubject) (*ledger.Change, error) {
			return &ledger.Change{Memory: lifecycle.Memory{}, Conditions: conditions, At: at}, nil
		}))
		return meta.FindStatusCondition(s.All()[0].Status.Conditions, "Declared")
	}
	if c := write(noon); c != nil {
		t.Errorf("without a declaration: %+v", c)
	}
	wrong := metav1.Condition{Type: "Declared", Status: metav1.ConditionFalse, Reason: "Wrong"}
	if c := write(noon, wrong); c == nil || c.Status != metav1.ConditionFalse || !c.LastTransitionTime.Time.Equal(noon) {
		t.Errorf("with a wrong declaration: %+v", c)
	}
	if c := write(noon.Add(time.Hour), wrong); c == nil || !c.LastTransitionTime.Time.Equal(noon) {
		t.Errorf("the declaration has been wrong since noon: %+v", c)
	}
	must(t, add(l, lifecycle.Created, ""))
	right := metav1.Condition{Type: "Declared", Status: metav1.ConditionTrue, Reason: "Right"}
	if c := write(noon, right); c == nil || c.Status != metav1.ConditionTrue {
		t.Errorf("with a valid declaration: %+v", c)
	}
	if got := s.All()[0].Status.Conditions; len(got) != 2 {
		t.Errorf("conditions %+v", got)
	}
	if c := write(noon); c != nil || len(s.All()[0].Status.Conditions) != 1 {
		t.Errorf("after the declaration was removed: %+v", s.All()[0].Status.Conditions)
	}
}
