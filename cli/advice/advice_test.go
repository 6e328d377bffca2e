// SPDX-License-Identifier: Apache-2.0

package advice

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
)

var clock = Clock{Now: time.Date(2040, 1, 2, 12, 0, 0, 0, time.UTC), System: "knative-cdevents"}

// decided are the reasons of verdicts after which there is nothing to do, or nothing that the gate's owner could do to
// get a verdict.
var decided = []string{
	"AbsoluteLimit", "RelativeRegression", "Outage", "Restarts", "UnaccountedRequests", "NonInferior", "Negligible", "PossiblyWorse", "AnswersDiffer", "NotApplicable", "LowScore", "LowCoverage", "DryRun",
	"ServiceGone", "RevisionGone", "SplitChanged", "GateChanged", "NoSplit", "GroupsReplaced", "NoRequests", "CallsPerRequestUnknown",
}

// TestReasons checks that each reason for which a gate does not decide has an action of its own.
func TestReasons(t *testing.T) {
	gate := &v1alpha1.CanaryGate{Spec: v1alpha1.CanaryGateSpec{Service: "cart"}}
	generic := clock.forReason(gate, "SomethingNew")
	n := 0
	for _, file := range []string{"../../api/verdict/reason.go", "../../canary/attribution/facts.go", "../../canary/gaterun/target.go", "../../canary/gaterun/queries.go", "../../reconciler/gate/conditions.go", "../../reconciler/gate/customrun/templates.go"} {
		for _, reason := range constants(t, file) {
			commandIsLast(t, clock.forReason(gate, reason))
			if n++; !slices.Contains(decided, reason) && clock.forReason(gate, reason) == generic {
				t.Errorf("%s of %s has no action", reason, file)
			}
		}
	}
	if n < 40 {
		t.Errorf("found only %d reasons", n)
	}
}

// constants returns the CamelCase values of the constants in a file.
func constants(t *testing.T, file string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, d := range parsed.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			v, ok := s.(*ast.ValueSpec)
			if !ok {
				continue
			}
			for _, value := range v.Values {
				l, ok := value.(*ast.BasicLit)
				if !ok || l.Kind != token.STRING {
					continue
				}
				text, err := strconv.Unquote(l.Value)
				if err == nil && text != "" && !strings.ContainsAny(text, " {-") && text != "Split" {
					out = append(out, text)
				}
			}
		}
	}
	return out
}

func TestSource(t *testing.T) {
	source := func(change func(*v1alpha1.CDEventSource)) *v1alpha1.CDEventSource {
		s := &v1alpha1.CDEventSource{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "s", Generation: 1, CreationTimestamp: metav1.NewTime(clock.Now.Add(-time.Hour))}}
		s.Spec.Sink.Ref = &duckv1.KReference{APIVersion: "serving.knative.dev/v1", Kind: "Service", Name: "sink"}
		s.Status.ObservedGeneration = 1
		change(s)
		return s
	}
	condition := func(of apis.ConditionType, reason string) func(*v1alpha1.CDEventSource) {
		return func(s *v1alpha1.CDEventSource) {
			s.GetConditionSet().Manage(&s.Status).MarkFalse(of, reason, "because")
		}
	}
	for _, c := range []struct {
		name   string
		source *v1alpha1.CDEventSource
		state  State
		do     string
	}{
		{"never seen", source(func(s *v1alpha1.CDEventSource) { s.Status.ObservedGeneration = 0 }), Broken, "Check that the controller runs: kubectl get pods -n knative-cdevents"},
		{"new", source(func(s *v1alpha1.CDEventSource) {
			s.Status.ObservedGeneration, s.CreationTimestamp = 0, metav1.NewTime(clock.Now)
		}), Waiting, "Wait a moment"},
		{"changed", source(func(s *v1alpha1.CDEventSource) { s.Generation = 2 }), Waiting, "Wait a moment"},
		{"sink not ready", source(condition(v1alpha1.SourceConditionSinkProvided, "SinkNotAddressable")), Broken, "kubectl describe ksvc sink -n shop"},
		{"host", source(condition(v1alpha1.SourceConditionSinkProvided, "SinkNotAllowed")), Broken, "sink-hosts in ConfigMap config-cdevents of namespace knative-cdevents"},
		{"secret", source(condition(v1alpha1.SourceConditionCredentialsReady, "SecretNotFound")), Broken, "Correct the Secret"},
		{"field", source(condition(v1alpha1.SourceConditionValid, "InvalidFilter")), Broken, "kubectl edit cdeventsource s -n shop"},
		{"many", source(condition(v1alpha1.SourceConditionValid, "TooManySources")), Broken, "Delete a source"},
		{"fails", source(condition(v1alpha1.SourceConditionDelivering, "SinkFails")), Broken, "Do what the message says"},
		{"nothing sent", source(func(s *v1alpha1.CDEventSource) {
			s.GetConditionSet().Manage(&s.Status).MarkUnknown(v1alpha1.SourceConditionDelivering, "NothingSentYet", "No event has been sent yet")
		}), Works, ""},
	} {
		got := clock.Source(c.source)
		commandIsLast(t, got.Do)
		if got.State != c.state || !strings.Contains(got.Do, c.do) || (got.Do == "") != (c.do == "") {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

func TestFirstCauseComesFirst(t *testing.T) {
	s := &v1alpha1.CDEventSource{}
	m := s.GetConditionSet().Manage(&s.Status)
	m.MarkUnknown(v1alpha1.SourceConditionCredentialsReady, "SinkNotResolved", "later")
	m.MarkFalse(v1alpha1.SourceConditionSinkProvided, "SinkNotFound", "the cause")
	if got := clock.Source(s); got.Reason != "SinkNotFound" {
		t.Errorf("%+v", got)
	}
}

func TestServiceWithoutSource(t *testing.T) {
	about := About{Service: &servingv1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart", Labels: map[string]string{"team": "a"}}}}
	other := v1alpha1.CDEventSource{}
	other.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "b"}}
	about.Sources = []v1alpha1.CDEventSource{other}
	about.Plan = &v1alpha1.ShardPlacement{Status: v1alpha1.ShardPlacementStatus{Held: "MemberUnreachable"}}
	var all []string
	for _, f := range clock.Service(about) {
		all = append(all, f.What)
	}
	text := strings.Join(all, "; ")
	if !strings.Contains(text, "no source in its namespace sends its events") || !strings.Contains(text, "no shard moves: a member of the cluster does not answer") {
		t.Error(text)
	}
}

func TestForecast(t *testing.T) {
	j := &verdict.Judgement{Canary: verdict.Samples{Requests: 100, Missing: 50}, Metrics: []verdict.MetricResult{{Missing: 200}, {Missing: 900, DryRun: true}}}
	if got := Forecast(j, time.Minute); got != 2*time.Minute {
		t.Errorf("got %s", got)
	}
	if got := Forecast(&verdict.Judgement{Canary: verdict.Samples{Missing: 50}}, time.Minute); got != 0 {
		t.Errorf("without requests: %s", got)
	}
}

// commandIsLast checks that whoever copies the rest of the line from a command on copies nothing else, as the page does.
func commandIsLast(t *testing.T, do string) {
	t.Helper()
	if rest := regexp.MustCompile(`\b(kubectl|kn) .*$`).FindString(do); regexp.MustCompile(`[,.;)]( |$)`).MatchString(rest) {
		t.Errorf("more follows the command in %q", do)
	}
}

// pinned is the warning of what a fixed Revision means.
const pinned = ". It keeps the traffic, also from new releases, until you set latestRevision: true again. Run: "

// A canary that has failed is only worth a finding while users meet it.
func TestFailedCanary(t *testing.T) {
	share := func(revision string, percent int64, tag string) servingv1.TrafficTarget {
		return servingv1.TrafficTarget{RevisionName: revision, Percent: &percent, Tag: tag}
	}
	gate := &v1alpha1.CanaryGate{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "g"}, Spec: v1alpha1.CanaryGateSpec{Service: "cart"}}
	gate.Status.Latest = &v1alpha1.GateLatest{GateRunSummary: v1alpha1.GateRunSummary{Verdict: "Fail", Reasons: []string{"RelativeRegression"}, Canary: "cart-2"}}
	for _, c := range []struct {
		name, what, do string
		traffic        []servingv1.TrafficTarget
		state          State
	}{
		{
			"it has traffic", "its canary cart-2 has failed, and still gets 10 % of the traffic",
			"Give its traffic to cart-1" + pinned + `kubectl patch ksvc cart -n shop --type merge -p '{"spec":{"traffic":[{"revisionName":"cart-1","percent":100}]}}'`,
			[]servingv1.TrafficTarget{share("cart-0", 20, ""), share("cart-1", 70, ""), share("cart-2", 10, "")},
			Failed,
		},
		{
			"a patch would remove tags", "its canary cart-2 has failed, and still gets 10 % of the traffic",
			"Give its traffic to cart-1" + pinned + "kn service update cart -n shop --traffic cart-1=100",
			[]servingv1.TrafficTarget{share("cart-1", 90, "stable"), share("cart-2", 5, "a"), share("cart-2", 5, "b")},
			Failed,
		},
		{
			"it has all traffic", "its canary cart-2 has failed, and still gets 100 % of the traffic",
			"Give the traffic to an earlier Revision; these exist: kubectl get revisions -l serving.knative.dev/service=cart -n shop",
			[]servingv1.TrafficTarget{share("cart-2", 100, "")},
			Failed,
		},
		{"it was withdrawn", "it decided on cart-2: Fail", "", []servingv1.TrafficTarget{share("cart-1", 100, ""), share("cart-2", 0, "old")}, Works},
	} {
		s := &servingv1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart"}}
		s.Status.Traffic = c.traffic
		got := clock.Gate(gate, s)
		commandIsLast(t, got.Do)
		if got.State != c.state || got.What != c.what || got.Do != c.do {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
	gate.Status.Latest.Baseline = "cart-1"
	all := &servingv1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart"}}
	all.Status.Traffic = []servingv1.TrafficTarget{share("cart-2", 100, "")}
	want := "Give the traffic back to cart-1" + pinned + `kubectl patch ksvc cart -n shop --type merge -p '{"spec":{"traffic":[{"revisionName":"cart-1","percent":100}]}}'`
	if got := clock.Gate(gate, all); got.Do != want {
		t.Errorf("with a baseline: %q, want %q", got.Do, want)
	}
	if got := clock.Gate(gate, nil); got.State != Works {
		t.Errorf("an unknown Service: %+v", got)
	}
	gate.Spec.Suspend = true
	if got := clock.Gate(gate, nil); got.State != Waiting || !strings.Contains(got.What, "is suspended") || !strings.Contains(got.Do, `"suspend":false`) {
		t.Errorf("a suspended gate: %+v", got)
	}
	gate.Status.Latest = nil
	if got := clock.Gate(gate, nil); got.State != Waiting || !strings.Contains(got.What, "is suspended") {
		t.Errorf("a suspended gate without a run: %+v", got)
	}
}

// An incident of a cluster has something to do, whether its reason is known here or not.
func TestClusterInTrouble(t *testing.T) {
	for reason, does := range map[string]string{"SidecarMissing": "delete the pods that have no container stateful-sidecar", "Unreachable": "docs/stateful.md"} {
		s := &v1alpha1.CDEventSubject{Spec: v1alpha1.CDEventSubjectSpec{Kind: "Service", Name: "cart"}}
		s.Status.Conditions = []metav1.Condition{{Type: "ClusterTroubled", Status: metav1.ConditionTrue, Reason: reason}}
		got := Entry(s)
		if len(got) != 1 || got[0].State != Broken || got[0].Reason != reason || !strings.Contains(got[0].Do, does) {
			t.Errorf("%s: %+v", reason, got)
		}
	}
}
