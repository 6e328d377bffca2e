// SPDX-License-Identifier: Apache-2.0

package route

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// If a selector needs a label that was omitted, it neither matches nor silently excludes the
// object: the refusal is counted.
func TestSelectorNeedsAnOmittedLabel(t *testing.T) {
	all := map[string]string{"app": "cart", "team": "red"}
	for i := range 1900 {
		all[fmt.Sprintf("%s%05d", strings.Repeat("k", 312), i)] = strings.Repeat("v", 63)
	}
	kept := lifecycle.BoundLabels(all)
	red := metav1.LabelSelectorRequirement{Key: "team", Operator: metav1.LabelSelectorOpIn, Values: []string{"red"}}
	for name, c := range map[string]struct {
		selector *metav1.LabelSelector
		chosen   bool
		refused  string
	}{
		"no selector":         {nil, true, ""},
		"kept":                {&metav1.LabelSelector{MatchLabels: map[string]string{"app": "cart"}}, true, ""},
		"kept, another value": {&metav1.LabelSelector{MatchLabels: map[string]string{"app": "shop"}}, false, ""},
		"omitted":             {&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{red}}, true, ledger.DroppedTooManyLabels},
		"omitted, not in":     {&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"red"}}}}, true, ledger.DroppedTooManyLabels},
		"omitted, not exists": {&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "zone", Operator: metav1.LabelSelectorOpDoesNotExist}}}, true, ledger.DroppedTooManyLabels},
		"omitted and differs": {&metav1.LabelSelector{MatchLabels: map[string]string{"app": "shop"}, MatchExpressions: []metav1.LabelSelectorRequirement{red}}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := sourceNamed("s")
			s.Spec.Selector, s.Spec.Replay = c.selector, v1alpha1.ReplayCurrent
			r := router(s)
			with := ledger.Labels{Own: kept, Namespace: labelled}
			got := r.Recipients(subject, with, lifecycle.Transition{Sequence: 1, Type: lifecycle.Deployed, Time: noon})
			refused := ""
			if len(got) == 1 && got[0].Refused != nil {
				refused = got[0].Refused.Reason
			}
			if (len(got) == 1) != c.chosen || refused != c.refused {
				t.Errorf("%d recipients, refused for %q", len(got), refused)
			}
			if due := r.Replays(subject, nil, func() ledger.Labels { return with }); (len(due) == 1) != (c.chosen && c.refused == "") {
				t.Errorf("replays for %v", due)
			}
		})
	}
}

// If one selector excludes an event, it is not counted as dropped, even if the other selector
// needs an omitted label. Otherwise, a tenant could trigger the operator's alert.
func TestSelectorThatDoesNotMatchDecides(t *testing.T) {
	t.Parallel()
	omitted := map[string]string{"": "aaa"} // labels from "aaa" on are unknown
	for name, c := range map[string]struct {
		own, namespace map[string]string
		refused, sent  bool
	}{
		"the Service does not match":       {own: map[string]string{"app": "other"}, namespace: omitted},
		"the namespace does not match":     {own: omitted, namespace: map[string]string{"team": "blue"}},
		"namespace labels are omitted":     {own: map[string]string{"app": "cart"}, namespace: omitted, refused: true},
		"the Service's labels are omitted": {own: omitted, namespace: map[string]string{"team": "red"}, refused: true},
		"both are omitted":                 {own: omitted, namespace: omitted, refused: true},
		"both match":                       {own: map[string]string{"app": "cart"}, namespace: map[string]string{"team": "red"}, sent: true},
	} {
		s := sourceNamed("s")
		s.Namespace = "system"
		s.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "cart"}}
		s.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "red"}}
		r := router(s)
		r.SystemNamespace = "system"
		got := r.Recipients(subject, ledger.Labels{Own: c.own, Namespace: c.namespace}, lifecycle.Transition{Sequence: 1, Type: lifecycle.Deployed, Time: noon})
		if sent := len(got) == 1 && got[0].Refused == nil; sent != c.sent {
			t.Errorf("%s: %+v", name, got)
		}
		if refused := len(got) == 1 && got[0].Refused != nil && got[0].Refused.Reason == ledger.DroppedTooManyLabels; refused != c.refused {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
