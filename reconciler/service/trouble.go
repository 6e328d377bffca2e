// SPDX-License-Identifier: Apache-2.0

package service

import (
	"knative.dev/pkg/apis"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/api/sanitize"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// maxMessage and maxReason are how many bytes of a condition's message and reason are kept. Serving's definitions
// limit neither.
const (
	maxMessage = 512
	maxReason  = 253
)

// trouble is what the conditions of a Service say is wrong. Of the way to it, its Route says more: RoutesReady also
// waits for certificates. Unknown counts, too: while Serving
// tries to pull an image that does not exist, the condition is Unknown.
func trouble(o *servingv1.Service) map[lifecycle.Incident]*lifecycle.Trouble {
	var out map[lifecycle.Incident]*lifecycle.Trouble
	for kind, c := range map[lifecycle.Incident]apis.ConditionType{
		lifecycle.Outage:        servingv1.ServiceConditionRoutesReady,
		lifecycle.FailedRollout: servingv1.ServiceConditionConfigurationsReady,
		lifecycle.NotDeployed:   servingv1.ServiceConditionReady,
	} {
		t := troubleOf(o.Status.GetCondition(c))
		if t == nil {
			continue
		}
		if out == nil {
			out = map[lifecycle.Incident]*lifecycle.Trouble{}
		}
		out[kind] = t
	}
	return out
}

// troubleOf is what a condition says is wrong, nil if nothing is.
func troubleOf(c *apis.Condition) *lifecycle.Trouble {
	if c == nil || c.IsTrue() || c.Reason == reasonRollout {
		return nil
	}
	return &lifecycle.Trouble{Reason: bounded(c.Reason, maxReason), Message: bounded(c.Message, maxMessage)}
}

// bounded is what is kept of a text: no credentials, and no more than the limit.
func bounded(s string, limit int) string {
	return sanitize.Truncate(sanitize.WithoutCredentials(s), limit)
}
