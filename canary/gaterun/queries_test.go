// SPDX-License-Identifier: Apache-2.0

package gaterun_test

import (
	"strings"
	"testing"
	"time"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/canary/gaterun"
	"github.com/knative-cdevents/knative-cdevents/canary/judge"
	"github.com/knative-cdevents/knative-cdevents/test/stage"
)

// prometheus is what an operator's query returns of both Revisions.
type prometheus struct{ canary, baseline gaterun.Reading }

// count adds requests to both.
func (p *prometheus) count(canary, bad, baseline, baselineBad float64) {
	p.canary.Total, p.canary.Bad = p.canary.Total+canary, p.canary.Bad+bad
	p.baseline.Total, p.baseline.Bad = p.baseline.Total+baseline, p.baseline.Bad+baselineBad
}

func (p *prometheus) answer(t *testing.T, all []gaterun.Question) map[gaterun.Question]gaterun.Reading {
	t.Helper()
	if len(all) == 0 {
		return nil
	}
	of := func(revision string) gaterun.Question {
		return gaterun.Question{Query: "checkout", Namespace: cart.Namespace, Service: cart.Name, Revision: revision}
	}
	if len(all) != 2 || all[0] != of("cart-00002") || all[1] != of("cart-00001") {
		t.Fatalf("asked for %v", all)
	}
	return map[gaterun.Question]gaterun.Reading{all[0]: p.canary, all[1]: p.baseline}
}

// queried is a run that judges by a query alone. What the pods count is always good.
func queried(t *testing.T, stateful bool, each func(minute int, p *prometheus)) *play {
	t.Helper()
	p := begin(t, stateful, v1alpha1.CanaryGateSpec{
		GatePolicy: v1alpha1.GatePolicy{
			Metrics:  []v1alpha1.GateMetric{{Type: v1alpha1.MetricQuery, Query: "checkout"}},
			Schedule: &v1alpha1.GateSchedule{Warmup: &v1alpha1.Duration{Duration: 30 * time.Second}},
		},
	}, 0)
	p.judges = (*judge.Run).Analyze
	start := gaterun.Reading{Version: "1", Total: 1e6, Bad: 1e5} // before the run
	p.asks = &prometheus{canary: start, baseline: start}
	for i := range 4 * 31 { // a minute longer than a run
		p.Serve(stage.Canary, 50, 0)
		p.Serve(stage.Baseline, 450, 0)
		p.asks.count(50, 0, 450, 0)
		each(i/4, p.asks)
		if p.pass(15 * time.Second).step(); p.run.CompletionTime != nil {
			break
		}
	}
	return p
}

func TestQueriesDecide(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		each    func(int, *prometheus)
		verdict verdict.Verdict
		reason  verdict.Reason
	}{
		"good":                    {func(int, *prometheus) {}, verdict.Pass, verdict.Negligible},
		"bad":                     {func(_ int, p *prometheus) { p.count(0, 10, 0, 0) }, verdict.Fail, verdict.RelativeRegression},
		"bad, and so is the past": {func(_ int, p *prometheus) { p.count(0, 10, 0, 90) }, verdict.Pass, verdict.NonInferior},
	} {
		if p := queried(t, false, c.each); p.run.Verdict != c.verdict || p.run.Reasons[0] != string(c.reason) || !strings.Contains(p.run.Message, " requests by the query") {
			t.Errorf("%s: %s %q: %s", name, p.run.Verdict, p.run.Reasons, p.run.Message)
		}
	}
	// A shard's requests share its fate, so they are not compared one by one.
	if p := queried(t, true, func(_ int, p *prometheus) { p.count(0, 10, 0, 0) }); p.run.Verdict != verdict.Inconclusive {
		t.Errorf("sharded: %s %q: %s", p.run.Verdict, p.run.Reasons, p.run.Message)
	}
}

// Whatever is wrong with the answers, the run never passes, and says why. All would pass without it.
func TestUnusableAnswersNeverPass(t *testing.T) {
	t.Parallel()
	lacks := gaterun.Reading{Reason: gaterun.QueryFailed, Detail: "Prometheus is away"}
	for name, c := range map[string]struct {
		each   func(int, *prometheus)
		reason string
		says   string
	}{
		"never an answer":    {func(_ int, p *prometheus) { p.canary = lacks }, gaterun.QueryFailed, `query "checkout": Prometheus is away`},
		"the baseline lacks": {func(_ int, p *prometheus) { p.baseline = lacks }, gaterun.QueryFailed, "Prometheus is away"},
		"not asked":          {func(_ int, p *prometheus) { p.canary.Version = "" }, gaterun.QueryFailed, "was not asked"},
		"too many bad ones":  {func(_ int, p *prometheus) { p.canary.Bad = p.canary.Total + 1 }, gaterun.QueryUnusable, "more bad requests than requests"},
		"more bad than new":  {func(_ int, p *prometheus) { p.count(0, 60, 0, 0) }, gaterun.QueryUnusable, "since the last answer"},
		"a restarted pod": {func(minute int, p *prometheus) {
			if minute == 1 {
				p.canary.Total -= 400
			}
		}, gaterun.QueryDecreased, "has become less"},
		"fewer bad ones": {func(minute int, p *prometheus) {
			if minute == 1 {
				p.baseline.Bad--
			}
		}, gaterun.QueryDecreased, "has become less"},
		"another query": {func(minute int, p *prometheus) {
			if minute == 1 {
				p.canary.Version, p.baseline.Version = "2", "2"
			}
		}, gaterun.QueryChanged, "changed it"},
	} {
		p := queried(t, false, c.each)
		p.want(verdict.Inconclusive, c.reason, c.says)
		if p.run.Reasons[0] != c.reason {
			t.Errorf("%s: %q", name, p.run.Reasons)
		}
	}
}

// An answer that fails for a while loses nothing: the next one covers the time. And a run whose pods count nothing new
// goes on.
func TestAnswersAfterAnOutage(t *testing.T) {
	t.Parallel()
	var kept gaterun.Reading
	p := queried(t, false, func(minute int, p *prometheus) {
		if minute == 1 {
			if p.canary.Reason == "" {
				kept = p.canary
			}
			kept.Total, kept.Bad = kept.Total+50, kept.Bad+25
			p.canary = gaterun.Reading{Reason: gaterun.QueryFailed}
			return
		}
		if p.canary.Reason != "" {
			p.canary = kept
			p.canary.Total += 50
		}
	})
	if p.run.Verdict != verdict.Fail && p.run.Verdict != verdict.Inconclusive {
		t.Errorf("%s %q: %s", p.run.Verdict, p.run.Reasons, p.run.Message)
	}
	silent := begin(t, false, v1alpha1.CanaryGateSpec{GatePolicy: v1alpha1.GatePolicy{Metrics: []v1alpha1.GateMetric{{Type: v1alpha1.MetricErrorRate}, {Type: v1alpha1.MetricQuery, Query: "checkout"}}}}, 0)
	silent.asks = &prometheus{canary: gaterun.Reading{Version: "1"}, baseline: gaterun.Reading{Version: "1"}}
	silent.step()
	silent.pass(15 * time.Second).step()
	if before := string(silent.run.Evidence.Raw); func() bool {
		silent.asks.count(10, 0, 10, 0)
		silent.pass(15 * time.Second).step()
		return string(silent.run.Evidence.Raw) == before
	}() {
		t.Error("what the query counted was not stored")
	}
}
