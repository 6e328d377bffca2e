// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/apis"
	"knative.dev/pkg/logging"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/canary/attribution"
	"github.com/knative-cdevents/knative-cdevents/canary/gaterun"
	"github.com/knative-cdevents/knative-cdevents/canary/judge"
	"github.com/knative-cdevents/knative-cdevents/reconciler/gate/customrun"
)

// Reasons of condition ServiceFound.
//
//reasons:table CanaryGate/ServiceFound
const (
	// reasonSplit: True, and the traffic is split between Revisions.
	reasonSplit = "Split"
	// reasonUnknown: the controller has not read the Services of the cluster yet. Wait.
	reasonUnknown = "NotKnownYet"
)

// Reasons of condition TemplateApplied.
//
//reasons:table CanaryGate/TemplateApplied
const (
	// reasonReplaced: True, and the template replaces groups that the gate states in another way.
	reasonReplaced = "GroupsReplaced"
)

var (
	conditionSet = apis.NewLivingConditionSet(v1alpha1.GateValid, v1alpha1.GateServiceFound, v1alpha1.GateMeasured)
	// templated is the set of a gate that refers to a template.
	templated = apis.NewLivingConditionSet(
		v1alpha1.GateValid, v1alpha1.GateServiceFound, v1alpha1.GateMeasured, v1alpha1.GateTemplateApplied,
	)
)

// conditions sets whether the gate can judge.
func (s *gateSync) conditions(ctx context.Context, m gaterun.Moment) {
	manager := conditionSet.Manage(&s.status.Status)
	if s.gate.Spec.Template() != "" {
		manager = templated.Manage(&s.status.Status)
	} else if err := manager.ClearCondition(v1alpha1.GateTemplateApplied); err != nil {
		logging.FromContext(ctx).Errorw("A condition of a gate stays, which is a bug: please report it", "error", err)
	}
	manager.InitializeConditions()
	s.valid(ctx, manager)
	s.found(manager, m)
	s.measured(manager, m.Service)
	s.applied(manager)
}

// applied sets whether the gate's template holds, and which groups of the gate do not.
func (s *gateSync) applied(manager apis.ConditionManager) {
	const applied = v1alpha1.GateTemplateApplied
	use := s.status.Template
	switch {
	case s.problem != nil:
		manager.MarkFalse(applied, s.problem.Reason, "%s", s.problem.Message)
	case use != nil && len(use.Replaced) > 0:
		manager.MarkTrueWithReason(applied, reasonReplaced,
			"ClusterCanaryGateTemplate %q states %s; of this gate, %s does not apply", use.Name, list(use.Groups), list(use.Replaced))
	case use != nil:
		manager.MarkTrue(applied)
	case s.gate.Spec.Template() != "":
		manager.MarkUnknown(applied, customrun.InvalidSpec, "The gate itself is not valid")
	}
}

func list(groups []string) string { return strings.Join(groups, ", ") }

func (s *gateSync) valid(ctx context.Context, manager apis.ConditionManager) {
	if err := s.gate.Validate(ctx); err != nil {
		manager.MarkFalse(v1alpha1.GateValid, customrun.InvalidSpec, "%s", err)
		return
	}
	manager.MarkTrue(v1alpha1.GateValid)
}

func (s *gateSync) found(manager apis.ConditionManager, m gaterun.Moment) {
	const found = v1alpha1.GateServiceFound
	name := s.spec.Service
	if !m.Known {
		manager.MarkUnknown(found, reasonUnknown, "The controller has not read the Knative Services of the cluster yet")
		return
	}
	_, p := gaterun.Choose(name, m.Service, s.spec.Canary, s.spec.Baseline)
	switch {
	case p == nil:
		manager.MarkTrueWithReason(found, reasonSplit, "The traffic is split between Revisions")
	case p.Reason == gaterun.NoSplit, p.Reason == gaterun.RevisionNotInSplit && !m.Service.Divided():
		manager.MarkTrueWithReason(found, gaterun.NoSplit, "All traffic goes to one Revision; there is nothing to judge")
	case p.Reason == gaterun.TrafficUnknown:
		manager.MarkUnknown(found, p.Reason, "%s", p.Message)
	default:
		manager.MarkFalse(found, p.Reason, "%s", p.Message)
	}
}

// measured sets whether every Revision with traffic has the figures that the gate's
// metrics need.
func (s *gateSync) measured(manager apis.ConditionManager, service *gaterun.Service) {
	const measured = v1alpha1.GateMeasured
	figures, ok := s.Counts.Figure(s.service())
	if service == nil || !ok {
		manager.MarkUnknown(measured, string(attribution.NotRead), "The pods of the Service have not been scraped yet")
		return
	}
	// Set the condition once: each change is a new transition time, and a write.
	unread, reason := "", ""
	for _, n := range figures.NoData {
		r, exists := service.Revision(n.Revision)
		shown := exists && (service.Traffic.Percent(r.Name) > 0 ||
			n.Reason == attribution.EntryMetricsUnavailable && service.Newest(r))
		if !shown || !s.needs(n, figures, r.Stateful != "") {
			continue
		}
		if why := explain(n, r.Name); n.Reason == attribution.NotRead {
			unread, reason = why, string(n.Reason)
		} else {
			manager.MarkFalse(measured, string(n.Reason), "%s", why)
			return
		}
	}
	if unread != "" {
		manager.MarkUnknown(measured, reason, "%s", unread)
		return
	}
	manager.MarkTrue(measured)
}

// needs reports whether a metric needs a missing figure.
func (s *gateSync) needs(n attribution.NoData, all attribution.Figures, stateful bool) bool {
	figure := n.Figure
	// An ordinary Service handles requests where they enter, so the entry has their outcomes.
	errors := figure == "handled_requests_total" || figure == "entry_requests_total" && !stateful
	slow := figure == "handled_request_duration_seconds"
	return slices.ContainsFunc(s.spec.Metrics, func(m v1alpha1.GateMetric) bool {
		switch judge.MetricKind(m.Type).Source() {
		case judge.Outcomes:
			return errors
		case judge.Entry:
			return figure == "entry_requests_total"
		case judge.Durations:
			if slow && n.Reason == attribution.BucketsDiffer && m.Threshold != nil {
				return !bounded(all, n.Revision, m.Threshold.Seconds())
			}
			return slow || figure == "handled_requests_total"
		case judge.Codes:
			// Where no codes exist, the run leaves it out.
			return figure == "handled_requests_total" && !stateful && n.Reason != attribution.OutcomesUnknown
		case judge.Queries:
		}
		return false
	})
}

// bounded reports whether a Revision's histogram has a bucket at the threshold.
func bounded(all attribution.Figures, uid types.UID, threshold float64) bool {
	return slices.ContainsFunc(all.Revisions, func(r attribution.RevisionFigures) bool {
		return r.UID == uid && slices.Contains(r.Bounds, threshold)
	})
}

// setRequestMetrics makes queue-proxy export the request metrics, in Serving v1.19.1 and
// later. Before v1.19, that was the default.
const setRequestMetrics = `kubectl patch configmap config-observability -n knative-serving --type merge -p '{"data":{"request-metrics-protocol":"prometheus"}}'`

var explanations = map[attribution.Reason]string{
	attribution.NotRead:                 "none of its pods has been scraped yet",
	attribution.NothingCounted:          "its pods were scraped, but none of them exports a series that counts handled requests",
	attribution.InvalidAnnotations:      "its annotations for stateful clusters are not valid, so it is not known where its requests are handled",
	attribution.OutcomesUnknown:         "the outcomes of its requests are not known",
	attribution.DurationsUnknown:        "the durations of its requests are not known",
	attribution.BucketsDiffer:           "durations are not counted in the required histogram buckets",
	attribution.EntryMetricsUnavailable: "Knative Serving does not export request metrics; turn them on with: " + setRequestMetrics,
	attribution.EntryOutcomesUnknown:    "requests use HTTP/2, as gRPC does, and queue-proxy cannot see their outcomes",
}

func explain(n attribution.NoData, revision string) string {
	what := explanations[n.Reason]
	if what == "" {
		what = string(n.Reason)
	}
	if n.Detail != "" {
		what += ": " + n.Detail
	}
	return fmt.Sprintf("canary_%s of Revision %s is missing: %s", n.Figure, revision, what)
}
