// SPDX-License-Identifier: Apache-2.0

package gatehttp

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/apis"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/canary/gaterun"
	"github.com/knative-cdevents/knative-cdevents/lifecycle"
	"github.com/knative-cdevents/knative-cdevents/reconciler/gate/customrun"
)

// judged returns a gate whose last run judged a split of 90 to 10.
func judged(v verdict.Verdict, change ...func(*v1alpha1.CanaryGate)) *v1alpha1.CanaryGate {
	g := &v1alpha1.CanaryGate{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart"},
		Spec:       v1alpha1.CanaryGateSpec{Service: "cart", Watch: true},
		Status: v1alpha1.CanaryGateStatus{Run: &v1alpha1.GateRun{
			ID: "r1", Service: v1alpha1.GateObject{Name: "cart"}, Canary: v1alpha1.GateObject{Name: "cart-00002", UID: "u2"}, Baseline: &v1alpha1.GateObject{Name: "cart-00001", UID: "u1"},
			Split: []v1alpha1.GateShare{{Revision: "cart-00001", Percent: 90}, {Revision: "cart-00002", Percent: 10}}, Verdict: v, Reasons: []string{"Because"}, Message: "so it is",
		}},
	}
	for _, c := range change {
		c(g)
	}
	return g
}

func withoutTemplate(g *v1alpha1.CanaryGate) {
	g.Status.SetConditions(apis.Conditions{{Type: v1alpha1.GateTemplateApplied, Status: "False", Reason: "TemplateNotFound", Message: "create it"}})
}

func invalid(g *v1alpha1.CanaryGate) {
	g.Status.SetConditions(apis.Conditions{{Type: v1alpha1.GateValid, Status: "False", Reason: customrun.InvalidSpec, Message: "correct it"}})
}

func dry(g *v1alpha1.CanaryGate) { g.Spec.DryRun = true }

// split returns traffic in force, to existing Revisions.
func split(shares map[string]int64) *gaterun.Service {
	s := &gaterun.Service{
		Route:     lifecycle.Route{Effective: true, Traffic: lifecycle.SplitOf(shares)},
		Revisions: map[string]*lifecycle.Revision{},
	}
	for i, name := range []string{"cart-00001", "cart-00002", "cart-00003"} {
		s.Revisions[name] = &lifecycle.Revision{Name: name, UID: types.UID(fmt.Sprintf("u%d", i+1)), Generation: int64(i)}
	}
	return s
}

func inForce() *gaterun.Service { return split(map[string]int64{"cart-00001": 90, "cart-00002": 10}) }

func whole() *gaterun.Service { return split(map[string]int64{"cart-00001": 100}) }

// changed returns the traffic in force with one change.
func changed(change func(*gaterun.Service)) *gaterun.Service {
	s := inForce()
	change(s)
	return s
}

// rollout returns one step of a rollout by Serving itself.
func rollout(shares map[string]int64) *gaterun.Service {
	s := split(shares)
	s.Rollout = true
	return s
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		gate            *v1alpha1.CanaryGate
		now             *gaterun.Service
		unsplit         bool
		verdict, reason string
		status          int
	}{
		"pass":         {judged("Pass"), inForce(), false, "Pass", "Because", 200},
		"warn":         {judged("Warn"), inForce(), false, "Warn", "Because", 200},
		"fail":         {judged("Fail"), inForce(), false, "Fail", "Because", 409},
		"inconclusive": {judged("Inconclusive"), inForce(), false, "Inconclusive", "Because", 425},
		"running":      {judged("Running"), inForce(), false, "Running", "Because", 425},
		"error":        {judged("Error"), inForce(), false, "Error", "Because", 503},
		"no verdict":   {judged(""), inForce(), false, "Error", "Because", 503},
		"another's":    {judged("Excellent"), inForce(), false, "Error", "Because", 503},

		"traffic that is not known": {judged("Pass"), nil, false, "Running", gaterun.TrafficUnknown, 425},
		"the next step":             {judged("Pass"), split(map[string]int64{"cart-00001": 50, "cart-00002": 50}), false, "Running", NewSplit, 425},
		"another canary":            {judged("Pass"), split(map[string]int64{"cart-00001": 90, "cart-00003": 10}), false, "Running", NewSplit, 425},
		"another Service": {
			judged("Pass", func(g *v1alpha1.CanaryGate) { g.Spec.Service = "till" }),
			inForce(), false,
			"Running", NewSplit, 425,
		},
		"shares of nothing":  {judged("Pass"), split(map[string]int64{"cart-00001": 90, "cart-00002": 10, "cart-00003": 0}), false, "Pass", "Because", 200},
		"a gate that is new": {judged("", func(g *v1alpha1.CanaryGate) { g.Status.Run = nil }), inForce(), false, "Running", NoRun, 425},
		"a suspended gate": {
			judged("", func(g *v1alpha1.CanaryGate) { g.Status.Run, g.Spec.Suspend = nil, true }), inForce(), false, "Running", customrun.GateSuspended, 425,
		},
		"suspended since": {
			judged("Pass", func(g *v1alpha1.CanaryGate) { g.Spec.Suspend = true }),
			split(map[string]int64{"cart-00001": 50, "cart-00002": 50}), false, "Running", customrun.GateSuspended, 425,
		},
		"suspended later": {judged("Pass", func(g *v1alpha1.CanaryGate) { g.Spec.Suspend = true }), inForce(), false, "Pass", "Because", 200},
		"no template": {
			judged("", func(g *v1alpha1.CanaryGate) { g.Status.Run = nil; withoutTemplate(g) }), inForce(), false, "Running", "TemplateNotFound", 425,
		},
		"no template since": {judged("Pass", withoutTemplate), split(map[string]int64{"cart-00001": 50, "cart-00002": 50}), false, "Running", "TemplateNotFound", 425},
		"no template later": {judged("Pass", withoutTemplate), inForce(), false, "Pass", "Because", 200},
		"an invalid gate": {
			judged("", func(g *v1alpha1.CanaryGate) { g.Status.Run = nil; invalid(g) }), inForce(), false, "Running", customrun.InvalidSpec, 425,
		},
		"invalid later":         {judged("Pass", invalid), inForce(), false, "Pass", "Because", 200},
		"an old failure":        {judged("Fail"), whole(), false, "Running", gaterun.NoSplit, 425},
		"before the first step": {judged("Fail"), whole(), true, "Pass", gaterun.NoSplit, 200},
		"the first step's only": {judged("Running"), inForce(), true, "Running", "Because", 425},
		"the canary made again": {judged("Pass"), changed(func(s *gaterun.Service) { s.Revisions["cart-00002"].UID = "another" }), false, "Running", NewSplit, 425},
		"a baseline that went":  {judged("Pass"), changed(func(s *gaterun.Service) { s.Revisions["cart-00001"].UID = "another" }), false, "Running", NewSplit, 425},
		"no baseline":           {judged("Fail", func(g *v1alpha1.CanaryGate) { g.Status.Run.Baseline = nil }), inForce(), false, "Fail", "Because", 409},
		"a step of a rollout":   {judged("Pass"), rollout(map[string]int64{"cart-00001": 50, "cart-00002": 50}), false, "Pass", "Because", 200},
		"another rollout":       {judged("Pass"), rollout(map[string]int64{"cart-00002": 90, "cart-00003": 10}), false, "Running", NewSplit, 425},
		"it came back": {
			judged("Pass", func(g *v1alpha1.CanaryGate) { g.Status.Run.SplitEndTime = &metav1.Time{Time: time.Unix(1.8e9, 0)} }),
			inForce(), false, "Running", NewSplit, 425,
		},
		"a canary named later": {
			judged("Pass", func(g *v1alpha1.CanaryGate) { g.Spec.Canary = "cart-00001" }), inForce(), false, "Running", NewSplit, 425,
		},
		"one without a part": {
			judged("Pass", func(g *v1alpha1.CanaryGate) { g.Spec.Canary = "cart-00003" }), inForce(), false, "Running", gaterun.RevisionNotInSplit, 425,
		},
		"named as it was": {
			judged("Pass", func(g *v1alpha1.CanaryGate) { g.Spec.Canary, g.Spec.Baseline = "cart-00002", "cart-00001" }), inForce(), false, "Pass", "Because", 200,
		},
		"unknown is not whole": {judged("Fail"), nil, true, "Running", gaterun.TrafficUnknown, 425},

		"a dry run's failure": {judged("Fail", dry), inForce(), false, "Pass", "Because", 200},
		"a dry run on its way": {
			judged("Running", dry), inForce(), false, "Pass", "Because", 200,
		},
	} {
		a := answer(c.gate, c.now, c.unsplit)
		if string(a.Verdict) != c.verdict || a.status() != c.status || !slices.Equal(a.Reasons, []string{c.reason}) || a.Message == "" {
			t.Errorf("%s: %d %+v", name, a.status(), a)
		}
		if c.gate.Spec.DryRun && a.WouldBe != c.gate.Status.Run.Verdict {
			t.Errorf("%s would be %q", name, a.WouldBe)
		}
		// The answer always contains the last run, with its own verdict.
		if run := c.gate.Status.Run; run != nil && (a.Run == nil || a.Run.Verdict != run.Verdict || a.Run.Canary != "cart-00002" || (run.Baseline != nil && a.Run.Baseline != "cart-00001")) {
			t.Errorf("%s: the answer contains run %+v", name, a.Run)
		}
	}
}

// A verdict that is added later must not pass by default.
func TestNoOtherVerdictPasses(t *testing.T) {
	t.Parallel()
	for _, v := range append(verdict.All(), "", "pass", "PASS", "Skipped") {
		if passes := (Answer{Verdict: v}).status() == http.StatusOK; passes != (v == "Pass" || v == "Warn") {
			t.Errorf("%q passes: %v", v, passes)
		}
	}
}
