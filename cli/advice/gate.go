// SPDX-License-Identifier: Apache-2.0

package advice

import (
	"fmt"
	"slices"
	"strings"
	"time"

	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/cli/released"
	"github.com/knative-cdevents/knative-cdevents/cli/words"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/lifecycle/traffic"
)

// Gate says whether a gate can judge and decides, and if not, why. If it has failed a canary, it also says whether the
// Service still gives that canary traffic; of is nil if the Service is not known.
func (c Clock) Gate(g *v1alpha1.CanaryGate, of *servingv1.Service) Finding {
	f := Finding{
		Kind: v1alpha1.GateKind.Kind, Namespace: g.Namespace, Name: g.Name, State: Works,
		Template: Template(g.Spec.Template(), g.Status.Template),
	}
	if g.Status.ObservedGeneration != g.Generation {
		f.State, f.What, f.Do = Waiting, "the controller has not looked at its newest spec yet", "Wait a moment, and ask again"
		if g.Generation == 1 && c.Now.Sub(g.CreationTimestamp.Time) > patience {
			f.State, f.Do = Broken, c.unseen()
		}
		return f
	}
	if done := c.cannotJudge(g, &f); done {
		return f
	}
	latest := g.Status.Latest
	if latest == nil {
		return never(g, f)
	}
	f.Reason, f.Message = first(latest.Reasons), latest.Message
	if run := g.Status.Run; run != nil && run.ID == latest.ID {
		f.Message = why(run)
	}
	switch latest.Verdict {
	case verdict.Running:
		f.State, f.What = Waiting, fmt.Sprintf("it judges %s, for %s so far", latest.Canary,
			words.Span(c.Now.Sub(latest.StartTime.Time)))
		f.Do = c.forReason(g, f.Reason)
	case verdict.Inconclusive, verdict.Error:
		f.State, f.What = Undecided, fmt.Sprintf("its run on %s ended without a verdict: %s", latest.Canary, latest.Verdict)
		if latest.Verdict == verdict.Error {
			f.State = Broken
		}
		f.Do = c.forReason(g, f.Reason)
	case verdict.Superseded:
		f.What, f.Message = fmt.Sprintf("its run on %s was superseded: what it judged is no longer in force", latest.Canary),
			latest.Message
	default:
		f.What = fmt.Sprintf("it decided on %s: %s", latest.Canary, latest.Verdict)
		if latest.Verdict != verdict.Fail || of == nil {
			break
		}
		split := traffic.Split(of.Status.Traffic)
		if share := split.Percent(latest.Canary); share > 0 {
			f.State, f.What = Failed, fmt.Sprintf("its canary %s has failed, and still gets %d %% of the traffic", latest.Canary,
				share)
			f.Do = withdraw(of, split, latest.Canary, latest.Baseline)
		}
	}
	if g.Spec.Suspend && latest.Verdict != verdict.Running && (f.State == Works || f.Reason == gateSuspended) {
		suspended(g, &f)
	}
	return f
}

// withdraw is how to take all traffic from a canary: to the Revision that has the largest share beside it. It warns of
// what a fixed Revision means for the next releases.
func withdraw(s *servingv1.Service, split lifecycle.Split, canary, baseline string) string {
	const warning = ". It keeps the traffic, also from new releases, until you set latestRevision: true again. Run: "
	if i := slices.IndexFunc(split, func(share lifecycle.Share) bool { return share.Revision != canary }); i >= 0 {
		return "Give its traffic to " + split[i].Revision + warning + pin(s, split[i].Revision)
	}
	if baseline != "" {
		return "Give the traffic back to " + baseline + warning + pin(s, baseline)
	}
	return fmt.Sprintf("Give the traffic to an earlier Revision; these exist: kubectl get revisions -l serving.knative.dev/service=%s -n %s",
		s.Name, s.Namespace)
}

// pin returns the command that gives all traffic to a Revision. A patch would remove tags.
func pin(s *servingv1.Service, to string) string {
	tagged := slices.ContainsFunc(s.Status.Traffic, func(t servingv1.TrafficTarget) bool { return t.Tag != "" })
	if tagged {
		return fmt.Sprintf("kn service update %s -n %s --traffic %s=100", s.Name, s.Namespace, to)
	}
	return fmt.Sprintf(
		"kubectl patch ksvc %s -n %s --type merge -p '{\"spec\":{\"traffic\":[{\"revisionName\":\"%s\",\"percent\":100}]}}'",
		s.Name, s.Namespace, to)
}

// cannotJudge sets what a condition says that prevents every verdict.
func (c Clock) cannotJudge(g *v1alpha1.CanaryGate, f *Finding) (done bool) {
	for _, of := range []string{
		v1alpha1.GateValid, v1alpha1.GateTemplateApplied, v1alpha1.GateServiceFound, v1alpha1.GateMeasured,
	} {
		for _, condition := range g.Status.Conditions {
			if string(condition.Type) != of || condition.IsTrue() {
				continue
			}
			f.State, f.Reason, f.Message = Broken, condition.Reason, condition.Message
			if condition.IsUnknown() {
				f.State = Waiting
			}
			switch of {
			case v1alpha1.GateValid:
				f.What = "it cannot judge: its spec is not valid"
			case v1alpha1.GateTemplateApplied:
				f.What = fmt.Sprintf("it cannot judge by ClusterCanaryGateTemplate %s", g.Spec.Template())
			case v1alpha1.GateServiceFound:
				f.What = fmt.Sprintf("it cannot judge Service %s", g.Spec.Service)
			default:
				f.What = "it cannot judge: what it needs is not measured"
			}
			f.Do = c.forReason(g, condition.Reason)
			return true
		}
	}
	return false
}

// gateSuspended is the reason of a CustomRun that referred to the gate while it was suspended.
const gateSuspended = "GateSuspended"

// never is about a gate that has had no run.
func never(g *v1alpha1.CanaryGate, f Finding) Finding {
	if g.Spec.Suspend {
		suspended(g, &f)
		return f
	}
	if g.Spec.Watch {
		f.What = fmt.Sprintf("it has had nothing to judge: the traffic of Service %s was not split since the gate exists",
			g.Spec.Service)
		return f
	}
	f.State, f.What = Waiting, "it has had no run: it does not watch, and no CustomRun has referred to it"
	f.Do = fmt.Sprintf(
		"Let it start runs by itself: kubectl patch canarygate %s -n %s --type merge -p '{\"spec\":{\"watch\":true}}'",
		g.Name,
		g.Namespace,
	)
	return f
}

func first(reasons []string) string {
	if len(reasons) == 0 {
		return ""
	}
	return reasons[0]
}

// suspended is about a gate of which no further run begins.
func suspended(g *v1alpha1.CanaryGate, f *Finding) {
	f.State, f.What = Waiting, "it is suspended: no further run of it begins"
	f.Do = fmt.Sprintf("Let runs begin again: kubectl patch canarygate %s -n %s --type merge -p '{\"spec\":{\"suspend\":false}}'",
		g.Name, g.Namespace)
}

// forReason is the action for the first reason of a gate.
func (c Clock) forReason(g *v1alpha1.CanaryGate, reason string) string {
	edit := fmt.Sprintf("kubectl edit canarygate %s -n %s", g.Name, g.Namespace)
	switch reason {
	case string(verdict.InsufficientSample):
		return c.moreTraffic(g)
	case string(verdict.BaselineMissing):
		return "Leave the baseline a larger share of the traffic: it has handled too few requests to compare with"
	case string(verdict.CanaryHandledNothing):
		return "Check that requests reach the canary's pods: kubectl get pods -l serving.knative.dev/revision=" + canaryOf(
			g,
		) + " -n " + g.Namespace
	case string(verdict.InsufficientShards):
		return "Wait until requests reach more shards, or lower minimum.shards: " + edit
	case string(verdict.ExposureMismatch):
		return "Compare what the gateway answers for the canary with what its pods do, or accept another share (exposure): " + edit
	case string(verdict.Rebalancing), string(verdict.WindowTooShort), string(verdict.Undecided),
		string(verdict.HangingRequests):
		return "Wait; the run goes on by itself"
	case string(verdict.ColdStart):
		return "Wait until the canary's pods are older than schedule.warmup, or warm them up before they are ready"
	case string(verdict.BaselineUnhealthy):
		return "Repair what both Revisions have in common: the baseline is above the limit too"
	case string(verdict.BaselineWorsened):
		return "Look at what both Revisions share, such as a database: the baseline is far worse than before the canary's first pod"
	case string(verdict.PastUnknown):
		return "Let the baseline serve for ten minutes before the canary's first pod, or accept a Pass without it (withoutPast): " + edit
	case string(verdict.Timeout):
		return "Give the run more time (schedule.timeout), or the canary more traffic: " + edit
	case "":
		return "Wait; no reason is given yet"
	}
	return forSetup(g, reason, edit)
}

// forSetup is the action if the gate, its Service or its measurements are not as they must be.
func forSetup(g *v1alpha1.CanaryGate, reason, edit string) string {
	switch reason {
	case "EntryMetricsUnavailable":
		return "Ask an operator to run the command in the message"
	case "NotKnownYet", "NotRead":
		return "Wait a moment; the controller reads the Service and its pods"
	case "ServiceNotFound":
		return fmt.Sprintf("Create Service %s in namespace %s, or name another one in spec.service: %s", g.Spec.Service,
			g.Namespace, edit)
	case "TrafficUnknown":
		return fmt.Sprintf("Find out why the Route is not ready: kubectl describe ksvc %s -n %s", g.Spec.Service, g.Namespace)
	case "TemplateNotFound":
		return fmt.Sprintf("Ask whoever owns the policies for ClusterCanaryGateTemplate %s, or name another one in spec.templateRef: %s",
			g.Spec.Template(), edit)
	case "InvalidTemplate":
		return "Ask whoever owns the policies to correct it: kubectl edit clustercanarygatetemplate " + g.Spec.Template()
	case "RevisionNotInSplit", "SameRevision", string(verdict.InvalidSpec):
		return "Correct the gate as the message says: " + edit
	case "NothingCounted", "OutcomesUnknown", "DurationsUnknown", "BucketsDiffer", "EntryOutcomesUnknown",
		"StartedUnknown", string(verdict.NoData):
		return "Let the application export what the message names (" + released.Docs("canary.md") +
			"), or judge by other metrics: " + edit
	case "InvalidAnnotations":
		return fmt.Sprintf("Correct the annotations of the Service's template: kubectl cdevents why service/%s -n %s",
			g.Spec.Service, g.Namespace)
	case "QueryUnknown", "QueryFailed", "QueryUnusable":
		return "Show the message to whoever operates knative-cdevents: the query in ConfigMap config-canary or its Prometheus must be repaired (" +
			released.Docs("gate-queries.md") + ")"
	case "QueryDecreased", "QueryChanged":
		return "Change the split, which starts a new run: the counts of this one cannot be compared any more (" +
			released.Docs("gate-queries.md") + ")"
	case gateSuspended:
		return "Start the CustomRun again: the gate is not suspended any more"
	case "EvidenceTooLarge", "EvidenceUnreadable", "InternalError":
		return "Change the split, which starts a new run; if this happens again, report it"
	}
	return "Look at the run: kubectl cdevents gate " + g.Spec.Service + " -n " + g.Namespace
}

// Template says by which template a gate or a run judges, and which of the gate's groups do not apply; empty without
// one.
func Template(name string, use *v1alpha1.GateTemplateUse) string {
	switch {
	case use == nil:
		return name
	case len(use.Replaced) > 0:
		return fmt.Sprintf("%s (generation %d) states %s; what the gate says of %s does not apply", use.Name, use.Generation,
			strings.Join(use.Groups, ", "), strings.Join(use.Replaced, ", "))
	case len(use.Groups) == 0:
		return fmt.Sprintf("%s (generation %d) states nothing", use.Name, use.Generation)
	}
	return fmt.Sprintf("%s (generation %d) states %s", use.Name, use.Generation, strings.Join(use.Groups, ", "))
}

func canaryOf(g *v1alpha1.CanaryGate) string {
	if g.Status.Latest == nil {
		return ""
	}
	return g.Status.Latest.Canary
}

// moreTraffic says how long the missing requests take at the present rate, if the run shows it.
func (c Clock) moreTraffic(g *v1alpha1.CanaryGate) string {
	more := fmt.Sprintf("Give the canary a larger share of the traffic (spec.traffic): kubectl edit ksvc %s -n %s",
		g.Spec.Service, g.Namespace)
	run := g.Status.Run
	if run == nil || run.CompletionTime != nil || run.Report == nil {
		return more
	}
	needs, elapsed := Forecast(run.Report, c.Now.Sub(run.StartTime.Time)), run.Deadline.Sub(c.Now)
	switch {
	case needs == 0:
		return more
	case needs < elapsed:
		return fmt.Sprintf("Wait about %s: at the present rate, the canary has enough requests then", words.Span(needs))
	}
	return fmt.Sprintf("At the present rate, the canary needs %s more, and the run ends in %s. %s", words.Span(needs),
		words.Span(elapsed), more)
}

// Forecast returns how long the canary's missing requests take at the present rate; 0 if that is unknown,
// or if none is missing.
func Forecast(j *verdict.Judgement, elapsed time.Duration) time.Duration {
	if j.Canary.Requests <= 0 || elapsed <= 0 {
		return 0
	}
	return time.Duration(float64(j.MissingRequests()) / float64(j.Canary.Requests) * float64(elapsed))
}
