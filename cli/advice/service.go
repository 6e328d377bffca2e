// SPDX-License-Identifier: Apache-2.0

package advice

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"knative.dev/pkg/apis"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/cli/released"
)

// About is what is known of a Knative Service.
type About struct {
	Service *servingv1.Service
	// Sources are those of its namespace.
	Sources []v1alpha1.CDEventSource
	// Gates are those that judge it.
	Gates []v1alpha1.CanaryGate
	// Entry is its entry in the ledger; nil if there is none, or if the user may not read it.
	Entry *v1alpha1.CDEventSubject
	// Plan is the plan for its shards; nil if there is none, or if the user may not read it.
	Plan *v1alpha1.ShardPlacement
}

// Service says what is wrong with a Service, with the sources that send its events, and with its gates.
func (c Clock) Service(a About) []Finding {
	out := []Finding{Ready(a.Service)}
	covered := false
	for i := range a.Sources {
		if s := &a.Sources[i]; Covers(s, a.Service.Labels) {
			covered = true
			out = append(out, c.Source(s))
		}
	}
	if !covered {
		out = append(out, Finding{
			Kind:      "Service",
			Namespace: a.Service.Namespace,
			Name:      a.Service.Name,
			State:     Waiting,
			What:      "no source in its namespace sends its events",
			Do: fmt.Sprintf(
				"Unless a source of the operator covers it, create a CDEventSource in namespace %s: kubectl explain cdeventsource.spec",
				a.Service.Namespace,
			),
		})
	}
	for i := range a.Gates {
		out = append(out, c.Gate(&a.Gates[i], a.Service))
	}
	out = append(out, Entry(a.Entry)...)
	return append(out, held(a.Service, a.Plan)...)
}

// Covers reports whether a source selects an object with these labels in its own namespace.
func Covers(s *v1alpha1.CDEventSource, of map[string]string) bool {
	if s.Spec.Selector == nil {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(s.Spec.Selector)
	return err == nil && selector.Matches(labels.Set(of))
}

// Ready says whether the Service is Ready.
func Ready(s *servingv1.Service) Finding {
	f := Finding{Kind: "Service", Namespace: s.Namespace, Name: s.Name, State: Works, What: "it is ready"}
	condition := s.Status.GetCondition(apis.ConditionReady)
	switch {
	case condition == nil || s.Status.ObservedGeneration != s.Generation:
		f.State, f.What, f.Do = Waiting, "Knative has not looked at its newest spec yet", "Wait a moment, and ask again"
	case !condition.IsTrue():
		f.State, f.Reason, f.Message = Broken, condition.Reason, condition.Message
		if condition.IsUnknown() {
			f.State = Waiting
		}
		f.What = "it is not ready"
		f.Do = fmt.Sprintf("Look at its newest Revision: kubectl describe revision %s -n %s",
			s.Status.LatestCreatedRevisionName, s.Namespace)
		if s.Status.LatestCreatedRevisionName == "" {
			f.Do = fmt.Sprintf("Look at the Service: kubectl describe ksvc %s -n %s", s.Name, s.Namespace)
		}
	}
	return f
}

// inTrouble says what to do about an incident of a cluster, by its reason.
var inTrouble = map[string]string{
	"SidecarMissing": "Label the namespace with knative-cdevents.dev/sidecar=enabled, and delete the pods that have no container " +
		v1alpha1.SidecarContainer,
}

// Entry says what the ledger holds against an object.
func Entry(s *v1alpha1.CDEventSubject) []Finding {
	if s == nil {
		return nil
	}
	var out []Finding
	about := Finding{Kind: s.Spec.Kind, Namespace: s.Spec.Namespace, Name: s.Spec.Name}
	for _, condition := range s.Status.Conditions {
		f := about
		f.Reason, f.Message, f.State = condition.Reason, condition.Message, Broken
		switch {
		case condition.Type == "ClusterTroubled" && condition.Status == metav1.ConditionTrue:
			f.What, f.Do = "its stateful cluster is in trouble", inTrouble[condition.Reason]
			if f.Do == "" {
				f.Do = "Look at what the incident says: " + released.Docs("stateful.md#states")
			}
		case condition.Status != metav1.ConditionFalse:
			continue
		case condition.Type == "StatefulDeclared":
			f.What, f.Do = "its stateful cluster is not watched", "Correct the annotations of the Service's template: "+released.Docs("stateful.md")
		case condition.Type == "PlacementEnforced":
			f.State, f.What = Waiting, "its shards are not placed as the traffic is split"
			f.Do = "Wait until the pods of that Revision are gone, or move all traffic away from it"
		default:
			continue // Delivered: the sources say why
		}
		out = append(out, f)
	}
	if n := s.Status.Dropped; len(n) > 0 {
		var parts []string
		for _, reason := range slices.Sorted(maps.Keys(n)) {
			parts = append(parts, fmt.Sprintf("%d %s", n[reason], reason))
		}
		f := about
		f.State, f.What = Lost, "events about it were dropped: "+strings.Join(parts, ", ")
		f.Do = "Find out what the reason means, and remove it for the next events: " +
			released.Docs("delivery.md#what-is-given-up")
		if n[v1alpha1.DroppedRejected] > 0 {
			f.Do = "Give the source a dead letter sink (spec.delivery.deadLetterSink): its sink refuses some events for good"
		}
		out = append(out, f)
	}
	return out
}

// Baseline says what keeps the controller from reading a kind of environment.
func Baseline(b *v1alpha1.CDEventBaseline) []Finding {
	var out []Finding
	for _, c := range b.Status.Conditions {
		refused := c.Reason == "MayNotRead" || c.Reason == "CannotReadNow"
		if c.Type != "Readable" || c.Status != metav1.ConditionFalse || !refused {
			continue
		}
		out = append(out, Finding{
			State: Broken, Kind: "Kind", Name: b.Name, Reason: c.Reason, Message: c.Message,
			What: "its objects are not announced as environments", Do: "Allow the controller to read it: " + released.Docs("environments.md"),
		})
	}
	return out
}

// holds says why no shard moves.
var holds = map[string]string{
	"MemberJoining":     "a member of the cluster is not up yet",
	"MemberUnreachable": "a member of the cluster does not answer",
	"NoMembers":         "no Revision with traffic has a member that is up",
}

func held(s *servingv1.Service, p *v1alpha1.ShardPlacement) []Finding {
	if p == nil || p.Status.Held == "" {
		return nil
	}
	what := holds[p.Status.Held]
	if what == "" {
		what = "the plan for its shards is held"
	}
	return []Finding{{
		Kind: "Service", Namespace: s.Namespace, Name: s.Name, State: Waiting, Reason: p.Status.Held,
		What: "no shard moves: " + what,
		Do:   fmt.Sprintf("Look at the pods: kubectl get pods -l serving.knative.dev/service=%s -n %s", s.Name, s.Namespace),
	}}
}
