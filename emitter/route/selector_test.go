// SPDX-License-Identifier: Apache-2.0

package route

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/cdevents"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

func notIn(values int) *metav1.LabelSelector {
	r := metav1.LabelSelectorRequirement{Key: "team", Operator: metav1.LabelSelectorOpNotIn}
	for i := range values {
		r.Values = append(r.Values, fmt.Sprint(strings.Repeat("a", 50), i))
	}
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{r}}
}

// A selector is evaluated for each event. With one of a megabyte in each of a tenant's sources, that took
// 1.5 seconds.
func TestLongSelectorIsRejected(t *testing.T) {
	if _, err := Selector(notIn(250)); err != nil {
		t.Error(err)
	}
	if _, err := Selector(notIn(20_000)); err == nil || !strings.Contains(err.Error(), "may have 16384") {
		t.Errorf("%v", err)
	}
	if s, err := Selector(nil); err != nil || !s.Empty() && s.String() != "" {
		t.Errorf("%v, %v", s, err)
	}
	s := sourceNamed("long")
	s.Spec.Selector = notIn(20_000)
	r := &Router{
		Sources:   listed{s},
		Namespace: func(string) (map[string]string, bool, error) { return nil, true, nil },
		Settings:  operator{ID: "test"}, Render: cdevents.Render, Filters: NewFilters(),
	}
	got := r.Recipients(v1alpha1.CDEventSubjectSpec{Namespace: "shop", Name: "cart", Kind: "Service"}, ledger.Labels{}, lifecycle.Transition{Type: lifecycle.Created})
	if len(got) != 1 || got[0].Refused == nil || got[0].Refused.Reason != ledger.DroppedSelectorInvalid || !strings.Contains(got[0].Refused.Err.Error(), "too long") {
		t.Errorf("%+v", got)
	}
}
