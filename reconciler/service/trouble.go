package service

import (
	"knative.dev/pkg/apis"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/api/text"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
)

// maxMessage is how many bytes of a condition's message are kept.
const maxMessage = 512

// trouble is what the conditions of a Service say is wrong. Unknown counts, too: while Serving
// tries to pull an image that does not exist, the condition is Unknown.
func trouble(o *servingv1.Service) map[lifecycle.Incident]*lifecycle.Trouble {
	var out map[lifecycle.Incident]*lifecycle.Trouble
	for kind, t := range map[lifecycle.Incident]apis.ConditionType{
		lifecycle.Outage:        servingv1.ServiceConditionRoutesReady,
		lifecycle.FailedRollout: servingv1.ServiceConditionConfigurationsReady,
	} {
		c := o.Status.GetCondition(t)
		if c == nil || c.IsTrue() || c.Reason == reasonRollout {
			continue
		}
		if out == nil {
			out = map[lifecycle.Incident]*lifecycle.Trouble{}
		}
		out[kind] = &lifecycle.Trouble{Reason: c.Reason, Message: text.Truncate(text.WithoutCredentials(c.Message), maxMessage)}
	}
	return out
}
