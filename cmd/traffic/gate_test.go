// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"knative.dev/pkg/apis"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// If the gate cannot measure, the rollout is refused before any traffic moves, with the gate's reason.
func TestGateThatCannotMeasure(t *testing.T) {
	t.Parallel()
	quick := asking{every: time.Millisecond, settle: 50 * time.Millisecond, patience: 50 * time.Millisecond}
	cannot := apis.Condition{Type: v1alpha1.GateMeasured, Status: corev1.ConditionFalse, Reason: "EntryMetricsUnavailable", Message: "set request-metrics-protocol"}
	missing := apis.Condition{Type: v1alpha1.GateTemplateApplied, Status: corev1.ConditionFalse, Reason: "TemplateNotFound", Message: "create it"}
	invalid := apis.Condition{Type: v1alpha1.GateValid, Status: corev1.ConditionFalse, Reason: "InvalidSpec", Message: "correct it"}
	unknown := apis.Condition{Type: v1alpha1.GateMeasured, Status: corev1.ConditionUnknown, Reason: "NotRead"}
	can := apis.Condition{Type: v1alpha1.GateMeasured, Status: corev1.ConditionTrue}
	for name, c := range map[string]struct {
		says []apis.Condition // the last one repeats
		err  error
		want string
	}{
		"it can measure":          {[]apis.Condition{can}, nil, ""},
		"metrics are off":         {[]apis.Condition{cannot}, nil, "nothing was changed: CanaryGate cart cannot judge this Service: EntryMetricsUnavailable: set request-metrics-protocol"},
		"the template is missing": {[]apis.Condition{missing}, nil, "cannot judge this Service: TemplateNotFound: create it"},
		"the gate is not valid":   {[]apis.Condition{invalid}, nil, "cannot judge this Service: InvalidSpec: correct it"},
		"a new pod":               {[]apis.Condition{cannot, cannot, can}, nil, ""},
		"unknown for good":        {[]apis.Condition{unknown}, nil, ""},
		"no condition yet":        {[]apis.Condition{{Type: "Other"}}, nil, ""},
		"the answer comes late":   {[]apis.Condition{unknown, unknown, cannot}, nil, "EntryMetricsUnavailable"},
		"the gate cannot be read": {nil, errors.New("forbidden"), "nothing was changed: forbidden"},
	} {
		n := 0
		err := quick.measurable(t.Context(), func(context.Context) (*v1alpha1.CanaryGate, error) {
			gate := &v1alpha1.CanaryGate{}
			gate.Name = "cart"
			if len(c.says) > 0 {
				gate.Status.Conditions = append(gate.Status.Conditions, c.says[min(n, len(c.says)-1)])
			}
			n++
			return gate, c.err
		})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
