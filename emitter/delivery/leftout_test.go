package delivery

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// A selector chooses by what is known of the labels. Where it depends on one that was left
// out, it neither matches nor passes over the object unsaid.
func TestASelectorDoesNotGuessALabelThatWasLeftOut(t *testing.T) {
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
		"all":                 {nil, true, ""},
		"kept":                {&metav1.LabelSelector{MatchLabels: map[string]string{"app": "cart"}}, true, ""},
		"kept, another value": {&metav1.LabelSelector{MatchLabels: map[string]string{"app": "shop"}}, false, ""},
		"left out":            {&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{red}}, true, ledger.DroppedTooManyLabels},
		"left out, not in":    {&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"red"}}}}, true, ledger.DroppedTooManyLabels},
		"absent, not known":   {&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "zone", Operator: metav1.LabelSelectorOpDoesNotExist}}}, true, ledger.DroppedTooManyLabels},
		"left out and other":  {&metav1.LabelSelector{MatchLabels: map[string]string{"app": "shop"}, MatchExpressions: []metav1.LabelSelectorRequirement{red}}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := sourceTo("s", "sink")
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
			if told := r.Replays(subject, nil, func() ledger.Labels { return with }); (len(told) == 1) != (c.chosen && c.refused == "") {
				t.Errorf("the present state is for %v", told)
			}
		})
	}
}
