// SPDX-License-Identifier: Apache-2.0

package gate_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/pkg/apis"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1/client"
	"github.com/knative-cdevents/knative-cdevents/reconciler/gate/customrun"
	"github.com/knative-cdevents/knative-cdevents/test/controlplane"
	"github.com/knative-cdevents/knative-cdevents/test/stage"
)

// quick is a schedule for the clock of a theatre.
func quick() *v1alpha1.GateSchedule {
	span := func(d time.Duration) *v1alpha1.Duration { return &v1alpha1.Duration{Duration: d} }
	return &v1alpha1.GateSchedule{Warmup: span(0), Interval: span(5 * time.Second), MinDuration: span(time.Second), Timeout: span(30 * time.Minute)}
}

// template creates a template that needs so many requests of each side.
func (th *theatre) template(name string, requests int64, change func(*v1alpha1.GatePolicy)) *client.Templates {
	th.t.Helper()
	ours, err := client.New(th.config)
	must(th.t, err)
	template := &v1alpha1.ClusterCanaryGateTemplate{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ClusterCanaryGateTemplateSpec{GatePolicy: v1alpha1.GatePolicy{
		Minimum: &v1alpha1.GateMinimum{CanaryRequests: &requests, BaselineRequests: &requests},
	}}}
	if change != nil {
		change(&template.Spec.GatePolicy)
	}
	_, err = ours.ClusterCanaryGateTemplates().Create(th.t.Context(), template, metav1.CreateOptions{FieldValidation: "Strict"})
	must(th.t, err)
	return ours.ClusterCanaryGateTemplates()
}

// TestGatesWithATemplate is a sequence of scenes with templates, and with Tekton's CRD.
func TestGatesWithATemplate(t *testing.T) {
	cp := controlplane.Start(t)
	must(t, cp.InstallCustomRuns(t.Context()))
	th := open(t, cp)
	stop := th.process()
	t.Cleanup(func() { stop() })

	th.act("a template that comes, changes and goes", func(t *testing.T) {
		s := th.service("cart")
		s.Serve(stage.Canary, 1, 0)
		_, err := th.gates.Create(t.Context(), &v1alpha1.CanaryGate{ObjectMeta: metav1.ObjectMeta{Name: "cart"}, Spec: v1alpha1.CanaryGateSpec{
			Service: "cart", Watch: true, TemplateRef: &v1alpha1.GateTemplateReference{Name: "strict"}, GatePolicy: v1alpha1.GatePolicy{Schedule: quick()},
		}}, metav1.CreateOptions{FieldValidation: "Strict"})
		must(t, err)
		g := th.stands("cart", condition(apis.ConditionReady, no, customrun.TemplateNotFound))
		if g.Status.Run != nil || !g.Status.GetCondition(v1alpha1.GateServiceFound).IsTrue() {
			t.Errorf("%+v", g.Status)
		}
		templates := th.template("strict", 100, nil)
		// The schedule is the gate's.
		g = th.stands("cart", running)
		if use, e := g.Status.Template, g.Status.Run.Effective; use == nil || strings.Join(use.Groups, ", ") != "minimum" || len(use.Replaced) > 0 ||
			*e.Minimum.CanaryRequests != 100 || *e.Minimum.Shards != 3 || e.Schedule.Interval.Duration != 5*time.Second || e.Template.Name != "strict" {
			t.Errorf("%+v, %+v", use, e)
		}
		th.stands("cart", condition(apis.ConditionReady, yes, ""))
		_, err = templates.Patch(t.Context(), "strict", types.MergePatchType, []byte(`{"spec":{"minimum":{"canaryRequests":5000}}}`), metav1.PatchOptions{})
		must(t, err)
		th.stands("cart", func(g *v1alpha1.CanaryGate) bool { return g.Status.Template.Generation == 2 })
		s.Serve(stage.Canary, 110, 0)
		s.Serve(stage.Baseline, 110, 0)
		first := th.stands("cart", reached("Pass")).Status.Run
		s.Split(50)
		second := th.stands("cart", running).Status.Run
		if first.Effective.Template.Generation != 1 || second.Effective.Template.Generation != 2 || *second.Effective.Minimum.CanaryRequests != 5000 {
			t.Errorf("%+v, then %+v", first.Effective, second.Effective)
		}
		must(t, templates.Delete(t.Context(), "strict", metav1.DeleteOptions{}))
		g = th.stands("cart", condition(apis.ConditionReady, no, customrun.TemplateNotFound))
		if g.Status.Run.ID != second.ID || !g.Status.Run.InProgress() {
			t.Errorf("the run did not go on: %+v", g.Status.Run)
		}
	})
	th.act("a CustomRun of such a gate", func(t *testing.T) {
		s := th.service("books")
		_, err := th.gates.Create(t.Context(), &v1alpha1.CanaryGate{ObjectMeta: metav1.ObjectMeta{Name: "books"}, Spec: v1alpha1.CanaryGateSpec{
			Service: "books", TemplateRef: &v1alpha1.GateTemplateReference{Name: "lenient"}, GatePolicy: v1alpha1.GatePolicy{Schedule: quick()},
		}}, metav1.CreateOptions{})
		must(t, err)
		const ref = customRef + `,"name":"books"}`
		th.ask("early", ref+`}`)
		th.ends("early", no, customrun.TemplateNotFound, "Error", `ClusterCanaryGateTemplate "lenient" does not exist`)
		th.ask("early-too", embedded("books", "")[:len(embedded("books", ""))-3]+`,"templateRef":{"name":"lenient"}}}}`)
		th.ends("early-too", no, customrun.TemplateNotFound, "Error", `ClusterCanaryGateTemplate "lenient" does not exist`)

		th.template("lenient", 50, func(p *v1alpha1.GatePolicy) { p.FailOn = append(p.FailOn, "Fail") })
		// The param changes a group that the template states, so it does not apply.
		th.ask("books", ref+`,"params":[{"name":"min-requests","value":"7000"}]}`)
		th.judging("books")
		s.Serve(stage.Canary, 60, 0)
		s.Serve(stage.Baseline, 60, 0)
		r := th.ends("books", yes, customrun.GatePassed, "Pass", "")
		run, err := r.Status.GateRun()
		must(t, err)
		if use := run.Effective.Template; use.Name != "lenient" || strings.Join(use.Groups, ", ") != "minimum, failOn" || strings.Join(use.Replaced, ", ") != "minimum" {
			t.Errorf("%+v", use)
		}
		// By itself, the gate fails without a verdict; the template lets it pass.
		th.ask("idle", ref+`,"timeout":"40s"}`)
		th.ends("idle", yes, customrun.GateUndecided, "Inconclusive", "")
	})
}
