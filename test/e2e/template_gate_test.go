// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"knative.dev/pkg/apis"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/test/e2e/kit"
)

// patient is a gate that lets a canary pass of which nearly half fails.
const patient = `"service": "cart", "watch": true,
	"schedule": {"warmup": "5s", "interval": "5s", "minDuration": "15s", "timeout": "4m"},
	"minimum": {"canaryRequests": 100, "baselineRequests": 100, "shards": 2},
	"exposure": {"minRatio": 0.1, "maxRatio": 10, "tooHigh": "Warn", "tooLow": "Warn"},
	"metrics": [{"type": "ErrorRate", "negligible": 0.45, "maxOddsRatio": 100}]`

// TestGateWithATemplate judges one canary, which fails a fifth of what it handles, by two gates that say the same. One
// refers to a template, which tolerates less, and comes after the gate.
func TestGateWithATemplate(t *testing.T) {
	sideBySide(t)
	onlyInFull(t)
	if suite.guest {
		t.Skip("it needs the controller")
	}
	s := emptyScene(t)
	ctx := t.Context()
	gates, templates := suite.Ours.CanaryGates(s.ns), suite.Ours.ClusterCanaryGateTemplates()
	for name, more := range map[string]string{"alone": "", "by-template": `, "templateRef": {"name": "` + s.ns + `"}`} {
		gate := &v1alpha1.CanaryGate{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name}}
		s.must(json.Unmarshal([]byte(`{"spec": {`+patient+more+`}}`), gate))
		_, err := gates.Create(ctx, gate, metav1.CreateOptions{})
		s.must(err)
	}
	s.must(kit.Wait(ctx, time.Minute, "a gate that misses its template", func(ctx context.Context) error {
		got, err := gates.Get(ctx, "by-template", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if ready := got.Status.GetCondition(apis.ConditionReady); !ready.IsFalse() || got.Status.GetCondition(v1alpha1.GateTemplateApplied).GetReason() != "TemplateNotFound" {
			return kit.NotYet("the status is %s", compact(got.Status))
		}
		return nil
	}))
	template := &v1alpha1.ClusterCanaryGateTemplate{ObjectMeta: metav1.ObjectMeta{Name: s.ns}}
	s.must(json.Unmarshal([]byte(`{"spec": {"metrics": [{"type": "ErrorRate", "limit": 0.05, "negligible": 0.01}]}}`), template))
	_, err := templates.Create(ctx, template, metav1.CreateOptions{})
	s.must(err)
	t.Cleanup(func() { s.must(templates.Delete(context.WithoutCancel(ctx), s.ns, metav1.DeleteOptions{})) })

	image, err := suite.Carts.ShardedImage(ctx)
	s.must(err)
	app := suite.Carts.Sharded(s.ns, image)
	s.must(suite.Carts.Deploy(ctx, app))
	s.must(suite.Carts.ReleaseCanary(ctx, app, map[string]string{"FAIL_RATE": "0.2"}))
	s.must(suite.Carts.WaitOneCluster(ctx, app))
	s.must(suite.Carts.Split(ctx, app, 40))
	defer s.sendTo(app)()
	for name, want := range map[string][]verdict.Verdict{"alone": {verdict.Pass, verdict.Warn}, "by-template": {verdict.Fail}} {
		var got *v1alpha1.CanaryGate
		s.must(kit.Wait(ctx, 5*time.Minute, "the verdict of gate "+name, func(ctx context.Context) error {
			var err error
			if got, err = gates.Get(ctx, name, metav1.GetOptions{}); err != nil {
				return err
			}
			if run := got.Status.Run; run == nil || run.CompletionTime == nil {
				return kit.NotYet("the status is %s", compact(got.Status))
			}
			return nil
		}))
		run, use := got.Status.Run, got.Status.Template
		t.Logf("%s: %s %v: %s", name, run.Verdict, run.Reasons, run.Message)
		if !slices.Contains(want, run.Verdict) {
			t.Errorf("%s: the run ended as %s", name, compact(run))
		}
		if name == "alone" {
			continue
		}
		if use == nil || use.Name != s.ns || !slices.Equal(use.Groups, []string{"metrics"}) || !slices.Equal(use.Replaced, []string{"metrics"}) {
			t.Errorf("the status says %s of the template", compact(use))
		}
		if run.Effective.Template == nil || *run.Effective.Metrics[0].Limit != .05 {
			t.Errorf("the run takes %s", compact(run.Effective))
		}
	}
}
