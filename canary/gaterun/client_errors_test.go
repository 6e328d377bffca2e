// SPDX-License-Identifier: Apache-2.0

package gaterun_test

import (
	"strings"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/canary/judge"
	"github.com/knative-cdevents/knative-cdevents/canary/mapping"
	"github.com/knative-cdevents/knative-cdevents/test/stage"
)

// answers is how many of a hundred requests are answered with which code.
type answers map[string]float64

// answered plays a gate whose Revisions answer so, until there is a verdict.
func answered(t *testing.T, stateful bool, spec v1alpha1.CanaryGateSpec, canary, baseline answers) *play {
	t.Helper()
	p := begin(t, stateful, spec, 0)
	p.judges = (*judge.Run).Analyze
	p.step() // from now on
	for i := 0; i < 130 && p.run.CompletionTime == nil; i++ {
		if stateful {
			p.Serve(stage.Canary, 300, 0)
			p.Serve(stage.Baseline, 1800, 0)
		}
		for code, n := range canary {
			p.Answer(stage.Canary, code, 3*n)
		}
		for code, n := range baseline {
			p.Answer(stage.Baseline, code, 18*n)
		}
		p.pass(15 * time.Second).step()
	}
	return p
}

// With the gate's defaults, a canary that refuses its clients fails, and the reason names the code.
// Redirects warn, and what has no status code is left out.
func TestClientErrors(t *testing.T) {
	t.Parallel()
	unclassed := answers{mapping.Unknown: 100}
	ignore := func(codes ...int64) v1alpha1.CanaryGateSpec {
		return v1alpha1.CanaryGateSpec{GatePolicy: v1alpha1.GatePolicy{Metrics: []v1alpha1.GateMetric{{Type: v1alpha1.MetricErrorRate}, {Type: v1alpha1.MetricClientErrors, IgnoreCodes: codes}}}}
	}
	for name, c := range map[string]struct {
		stateful         bool
		spec             v1alpha1.CanaryGateSpec
		canary, baseline answers
		want             verdict.Verdict
		says             string
	}{
		"404 to all":                {canary: answers{"404": 100}, baseline: answers{"200": 100}, want: verdict.Fail, says: "404 rose from 0 % to 100 %"},
		"404 to all, 1 % before":    {canary: answers{"404": 100}, baseline: answers{"200": 99, "404": 1}, want: verdict.Fail, says: "404 rose from 1 % to 100 %"},
		"401 to all":                {canary: answers{"401": 100}, baseline: answers{"200": 98, "404": 2}, want: verdict.Fail, says: "401 rose from 0 % to 100 %"},
		"429 to half":               {canary: answers{"200": 50, "429": 50}, baseline: answers{"200": 98, "404": 2}, want: verdict.Fail, says: "429 rose from 0 % to 50 %"},
		"404 to all, at entry":      {stateful: true, canary: answers{"404": 100}, baseline: answers{"200": 100}, want: verdict.Fail, says: "404 rose"},
		"none":                      {canary: answers{"200": 100}, baseline: answers{"200": 100}, want: verdict.Pass},
		"none, at entry":            {stateful: true, canary: answers{"200": 100}, baseline: answers{"200": 100}, want: verdict.Pass},
		"30 % on both sides":        {canary: answers{"200": 70, "404": 30}, baseline: answers{"200": 70, "404": 30}, want: verdict.Pass},
		"404 to all, which is fine": {spec: ignore(404), canary: answers{"404": 100}, baseline: answers{"200": 100}, want: verdict.Pass},
		"401 where 404 is fine":     {spec: ignore(404), canary: answers{"401": 100}, baseline: answers{"404": 100}, want: verdict.Fail, says: "401 rose"},
		"redirects":                 {canary: answers{"302": 100}, baseline: answers{"200": 100}, want: verdict.Warn, says: "302 rose from 0 % to 100 %"},
		"no redirects any more":     {canary: answers{"200": 100}, baseline: answers{"200": 50, "302": 50}, want: verdict.Warn, says: "200 rose from 50 % to 100 %"},
		"new content for caches":    {canary: answers{"200": 100}, baseline: answers{"200": 20, "304": 80}, want: verdict.Pass},
		"codes out of all classes": {
			spec:   v1alpha1.CanaryGateSpec{GatePolicy: v1alpha1.GatePolicy{Metrics: []v1alpha1.GateMetric{{Type: v1alpha1.MetricClientErrors}, {Type: v1alpha1.MetricSlowRequests}}}},
			canary: unclassed, baseline: unclassed, want: verdict.Pass, says: "ClientErrors: left out",
		},
		"only the canary's are unknown": {
			spec:   v1alpha1.CanaryGateSpec{GatePolicy: v1alpha1.GatePolicy{Metrics: []v1alpha1.GateMetric{{Type: v1alpha1.MetricClientErrors}, {Type: v1alpha1.MetricSlowRequests}}}},
			canary: unclassed, baseline: answers{"200": 100}, want: verdict.Inconclusive, says: "without a status code",
		},
		"nothing else is judged": {
			spec:   v1alpha1.CanaryGateSpec{GatePolicy: v1alpha1.GatePolicy{Metrics: []v1alpha1.GateMetric{{Type: v1alpha1.MetricClientErrors}}}},
			canary: unclassed, baseline: unclassed, want: verdict.Inconclusive, says: "ClientErrors: left out",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := answered(t, c.stateful, c.spec, c.canary, c.baseline)
			if p.run.Verdict != c.want || !strings.Contains(p.run.Message, c.says) {
				t.Errorf("%s %q: %s", p.run.Verdict, p.run.Reasons, p.run.Message)
			}
			t.Log(p.run.CompletionTime.Sub(p.run.StartTime.Time), p.run.Message)
		})
	}
}

// What queue-proxy does not export is left out: an application by the neutral contract has outcomes and
// no status codes.
func TestClientErrorsNeedStatusCodes(t *testing.T) {
	t.Parallel()
	spec := v1alpha1.CanaryGateSpec{GatePolicy: v1alpha1.GatePolicy{Metrics: []v1alpha1.GateMetric{{Type: v1alpha1.MetricErrorRate}, {Type: v1alpha1.MetricClientErrors}}}}
	p := begin(t, true, spec, 0)
	p.judges = (*judge.Run).Analyze
	p.NoEntry()
	p.step()
	for i := 0; i < 130 && p.run.CompletionTime == nil; i++ {
		p.Serve(stage.Canary, 300, 0)
		p.Serve(stage.Baseline, 1800, 0)
		p.pass(15 * time.Second).step()
	}
	if p.run.Verdict != verdict.Pass || !strings.Contains(p.run.Message, "ClientErrors: left out") {
		t.Errorf("%s %q: %s", p.run.Verdict, p.run.Reasons, p.run.Message)
	}
}
