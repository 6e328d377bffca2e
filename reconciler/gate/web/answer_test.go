package web

import (
	"net/http"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
)

// judged is a gate whose last run was about 90 to 10.
func judged(verdict string, change ...func(*v1alpha1.CanaryGate)) *v1alpha1.CanaryGate {
	g := &v1alpha1.CanaryGate{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart"},
		Spec:       v1alpha1.CanaryGateSpec{Service: "cart", Watch: true},
		Status: v1alpha1.CanaryGateStatus{Run: &v1alpha1.GateRun{
			ID: "r1", Service: v1alpha1.GateObject{Name: "cart"}, Canary: v1alpha1.GateObject{Name: "cart-00002"}, Baseline: &v1alpha1.GateObject{Name: "cart-00001"},
			Split: map[string]int64{"cart-00001": 90, "cart-00002": 10}, Verdict: verdict, Reasons: []string{"Because"}, Message: "so it is",
		}},
	}
	for _, c := range change {
		c(g)
	}
	return g
}

func dry(g *v1alpha1.CanaryGate) { g.Spec.DryRun = true }

var inForce = map[string]int64{"cart-00001": 90, "cart-00002": 10}

func TestAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		gate            *v1alpha1.CanaryGate
		situation       situation
		verdict, reason string
		status          int
	}{
		"pass":         {judged("Pass"), situation{split: inForce, known: true}, "Pass", "Because", 200},
		"warn":         {judged("Warn"), situation{split: inForce, known: true}, "Warn", "Because", 200},
		"fail":         {judged("Fail"), situation{split: inForce, known: true}, "Fail", "Because", 409},
		"inconclusive": {judged("Inconclusive"), situation{split: inForce, known: true}, "Inconclusive", "Because", 425},
		"running":      {judged("Running"), situation{split: inForce, known: true}, "Running", "Because", 425},
		"error":        {judged("Error"), situation{split: inForce, known: true}, "Error", "Because", 503},
		"no verdict":   {judged(""), situation{split: inForce, known: true}, "Error", "Because", 503},
		"another's":    {judged("Excellent"), situation{split: inForce, known: true}, "Error", "Because", 503},

		"traffic that is not known": {judged("Pass"), situation{split: inForce}, "Running", TrafficUnknown, 425},
		"the next step":             {judged("Pass"), situation{split: map[string]int64{"cart-00001": 50, "cart-00002": 50}, known: true}, "Running", NewSplit, 425},
		"another canary":            {judged("Pass"), situation{split: map[string]int64{"cart-00001": 90, "cart-00003": 10}, known: true}, "Running", NewSplit, 425},
		"another Service": {
			judged("Pass", func(g *v1alpha1.CanaryGate) { g.Spec.Service = "till" }),
			situation{split: inForce, known: true},
			"Running", NewSplit, 425,
		},
		"shares of nothing":     {judged("Pass"), situation{split: map[string]int64{"cart-00001": 90, "cart-00002": 10, "cart-00003": 0}, known: true}, "Pass", "Because", 200},
		"a gate that is new":    {judged("", func(g *v1alpha1.CanaryGate) { g.Status.Run = nil }), situation{split: inForce, known: true}, "Running", NoRun, 425},
		"an old failure":        {judged("Fail"), situation{split: map[string]int64{"cart-00001": 100}, known: true}, "Running", NoSplit, 425},
		"before the first step": {judged("Fail"), situation{split: map[string]int64{"cart-00001": 100}, known: true, unsplit: true}, "Pass", NoSplit, 200},
		"the first step's only": {judged("Running"), situation{split: inForce, known: true, unsplit: true}, "Running", "Because", 425},
		"unknown is not whole":  {judged("Fail"), situation{unsplit: true}, "Running", TrafficUnknown, 425},

		"a dry run's failure": {judged("Fail", dry), situation{split: inForce, known: true}, "Pass", "Because", 200},
		"a dry run on its way": {
			judged("Running", dry), situation{split: inForce, known: true}, "Pass", "Because", 200,
		},
	} {
		a := answer(c.gate, c.situation)
		if a.Verdict != c.verdict || a.status() != c.status || !slices.Equal(a.Reasons, []string{c.reason}) || a.Message == "" {
			t.Errorf("%s: %d %+v", name, a.status(), a)
		}
		if c.gate.Spec.DryRun && a.WouldBe != c.gate.Status.Run.Verdict {
			t.Errorf("%s would be %q", name, a.WouldBe)
		}
		// The last run is told in any case, under its own name.
		if run := c.gate.Status.Run; run != nil && (a.Run == nil || a.Run.Verdict != run.Verdict || a.Run.Canary != "cart-00002" || a.Run.Baseline != "cart-00001") {
			t.Errorf("%s: of the run it tells %+v", name, a.Run)
		}
	}
}

// A verdict that is added some day must not let anything pass that was not thought of.
func TestNoOtherVerdictPasses(t *testing.T) {
	t.Parallel()
	for _, v := range append(slices.Clone(verdicts), "", "pass", "PASS", "Skipped") {
		if passes := (Answer{Verdict: v}).status() == http.StatusOK; passes != (v == "Pass" || v == "Warn") {
			t.Errorf("%q passes: %v", v, passes)
		}
	}
}
