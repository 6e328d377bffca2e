// SPDX-License-Identifier: Apache-2.0

package advice

import (
	"fmt"

	"knative.dev/pkg/apis"

	"github.com/knative-cdevents/knative-cdevents/api/plural"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/cli/words"
)

// sourceConditions are those that prevent delivery, the first cause first, and what each means.
var sourceConditions = []struct {
	of   apis.ConditionType
	what string
}{
	{v1alpha1.SourceConditionValid, "its spec cannot be applied"},
	{v1alpha1.SourceConditionSinkProvided, "its sink has no address"},
	{v1alpha1.SourceConditionCredentialsReady, "the credentials for its sink are not ready"},
	{v1alpha1.SourceConditionDelivering, "its sink does not accept events"},
	{v1alpha1.SourceConditionDeadLetterSinkResolved, "its dead letter sink has no address"},
}

// Source says whether a source delivers, and if not, why.
func (c Clock) Source(s *v1alpha1.CDEventSource) Finding {
	f := Finding{Kind: v1alpha1.SourceKind.Kind, Namespace: s.Namespace, Name: s.Name, State: Works}
	if s.Status.ObservedGeneration != s.Generation {
		f.State, f.What = Waiting, "the controller has not looked at its newest spec yet"
		f.Do = "Wait a moment, and ask again"
		if s.Generation == 1 && c.Now.Sub(s.CreationTimestamp.Time) > patience {
			f.State, f.Do = Broken, c.unseen()
		}
		return f
	}
	for _, known := range sourceConditions {
		condition := s.Status.GetCondition(known.of)
		if condition == nil || condition.IsTrue() || condition.Reason == "NothingSentYet" {
			continue
		}
		f.Reason, f.Message, f.What = condition.Reason, condition.Message, known.what+pendingOf(c, s)
		if f.State = Broken; condition.IsUnknown() {
			f.State = Waiting
		}
		f.Do = c.forSource(s, condition)
		return f
	}
	f.What = "it delivers" + lastOf(c, s)
	if s.Status.LastDelivery == nil {
		f.What = "it is ready; no event has been sent yet"
	}
	if s.Status.Pending > 0 {
		f.What += pendingOf(c, s)
	}
	return f
}

func pendingOf(c Clock, s *v1alpha1.CDEventSource) string {
	if s.Status.Pending == 0 {
		return ""
	}
	out := fmt.Sprintf("; %s pending", plural.Of(s.Status.Pending, "event is", "events are"))
	if at := s.Status.OldestPending; at != nil {
		out += fmt.Sprintf(", the oldest for %s", words.Span(c.Now.Sub(at.Time)))
	}
	return out
}

func lastOf(c Clock, s *v1alpha1.CDEventSource) string {
	if s.Status.LastDelivery == nil {
		return ""
	}
	return fmt.Sprintf("; the sink accepted an event %s ago", words.Span(c.Now.Sub(s.Status.LastDelivery.Time)))
}

// forSource is the action for a condition of a source.
func (c Clock) forSource(s *v1alpha1.CDEventSource, condition *apis.Condition) string {
	edit := fmt.Sprintf("kubectl edit cdeventsource %s -n %s", s.Name, s.Namespace)
	switch condition.Reason {
	case "SinkNotFound":
		if ref := s.Spec.Sink.Ref; ref != nil && condition.Type == v1alpha1.SourceConditionSinkProvided {
			return fmt.Sprintf("Create %s %s in namespace %s, or name another sink: %s", ref.Kind, ref.Name, s.Namespace, edit)
		}
		return "Create the sink, or name another one: " + edit
	case "SinkNotAddressable":
		if ref := s.Spec.Sink.Ref; ref != nil && condition.Type == v1alpha1.SourceConditionSinkProvided {
			return fmt.Sprintf("Find out why the sink is not ready: kubectl describe %s %s -n %s",
				resourceOf(ref.Kind, ref.APIVersion), ref.Name, s.Namespace)
		}
		return "Find out why the sink is not ready"
	case "SinkForbidden", "SinkKindNotInstalled":
		return "Ask an operator to do what the message says, or name another sink: " + edit
	case "SinkNotAllowed":
		return fmt.Sprintf(
			"Ask an operator to add the host to sink-hosts in ConfigMap config-cdevents of namespace %s, or name another sink: %s",
			c.System,
			edit,
		)
	case "SinkFails":
		return "Do what the message says about the sink; events wait, and follow by themselves"
	case "Waiting":
		return fmt.Sprintf(
			"Ask an operator for the reason in the controller's log: kubectl logs -n %s deployment/controller | grep %s",
			c.System,
			s.Name,
		)
	case "LookupFailed", "SinkNotResolved":
		return "Wait a moment; the controller tries again by itself"
	case "TooManySources":
		return "Delete a source that is not needed: kubectl get cdeventsources -n " + s.Namespace
	}
	if condition.Type == v1alpha1.SourceConditionCredentialsReady {
		return "Correct the Secret that the message names, or the source: " + edit
	}
	return "Correct the field that the message names: " + edit
}

// resourceOf names a kind for kubectl. Two kinds are called Service.
func resourceOf(kind, apiVersion string) string {
	if kind == "Service" && apiVersion != "v1" {
		return "ksvc"
	}
	return kind
}
