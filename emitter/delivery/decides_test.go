package delivery

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/emitter/ledger"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// An event that one selector excludes is not counted as dropped because the other selector
// depends on a label that was left out: a tenant could raise the operator's alert by that.
func TestASelectorThatDoesNotMatchDecides(t *testing.T) {
	t.Parallel()
	leftOut := map[string]string{"": "aaa"} // no label from "aaa" on is known
	for name, c := range map[string]struct {
		own, namespace map[string]string
		refused, told  bool
	}{
		"the Service does not match":         {own: map[string]string{"app": "other"}, namespace: leftOut},
		"the namespace does not match":       {own: leftOut, namespace: map[string]string{"team": "blue"}},
		"the namespace is left out":          {own: map[string]string{"app": "cart"}, namespace: leftOut, refused: true},
		"the Service's labels are left out":  {own: leftOut, namespace: map[string]string{"team": "red"}, refused: true},
		"both are left out":                  {own: leftOut, namespace: leftOut, refused: true},
		"both match, and nothing is missing": {own: map[string]string{"app": "cart"}, namespace: map[string]string{"team": "red"}, told: true},
	} {
		s := sourceTo("s", "sink")
		s.Namespace = "system"
		s.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "cart"}}
		s.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "red"}}
		r := router(s)
		r.SystemNamespace = "system"
		got := r.Recipients(subject, ledger.Labels{Own: c.own, Namespace: c.namespace}, lifecycle.Transition{Sequence: 1, Type: lifecycle.Deployed, Time: noon})
		if told := len(got) == 1 && got[0].Refused == nil; told != c.told {
			t.Errorf("%s: %+v", name, got)
		}
		if refused := len(got) == 1 && got[0].Refused != nil && got[0].Refused.Reason == ledger.DroppedTooManyLabels; refused != c.refused {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
