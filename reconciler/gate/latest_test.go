// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"strings"
	"testing"
	"time"

	"knative.dev/pkg/apis"

	"github.com/knative-cdevents/knative-cdevents/api/verdict"
	"github.com/knative-cdevents/knative-cdevents/test/stage"
)

// A gate that only CustomRuns use shows the last run.
func TestGateShowsVerdictOfCustomRun(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.put(t, gatePath, strings.Replace(watching, `"watch":true,`, "", 1))
	h.put(t, runPath, `{"apiVersion":"tekton.dev/v1beta1","kind":"CustomRun","metadata":{"name":"cart","namespace":"shop","uid":"u1"},"spec":
		{"customRef":{"apiVersion":"knative-cdevents.dev/v1alpha1","kind":"CanaryGate","name":"cart"}}}`)
	g := h.process()
	for range 3 {
		h.look(g)
	}
	if l := h.gate().Status.Latest; l == nil || l.Requests != "0" || l.Missing != "100 canary, 100 baseline" {
		t.Fatalf("before the first judgement: %+v", l)
	}
	h.Serve(stage.Canary, 60, 0)
	h.look(g)
	h.look(g)
	is := h.gate().Status
	if l := is.Latest; is.Run != nil || l == nil || l.CustomRun != "cart" || l.Verdict != "Running" || l.Canary != "cart-00002" || l.Requests != "60" || l.Missing != "40 canary, 100 baseline" {
		t.Fatalf("%+v", l)
	}
	h.Serve(stage.Canary, 0, 30)
	h.look(g)
	h.look(g)
	if l := h.gate().Status.Latest; l.Verdict != "Fail" || l.Reasons != "RelativeRegression" {
		t.Errorf("%+v", l)
	}
	// It stays known after the CustomRun is deleted.
	h.remove(runPath)
	g = h.process()
	h.look(g)
	if l := h.gate().Status.Latest; l.Verdict != "Fail" {
		t.Errorf("%+v", l)
	}
}

func TestGateWithoutService(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.put(t, gatePath, strings.Replace(watching, `"service":"cart"`, `"service":"crat"`, 1))
	g := h.process()
	g.Leader = always
	h.look(g)
	is := h.gate().Status
	if c := is.GetCondition(apis.ConditionReady); !c.IsFalse() || c.Reason != "ServiceNotFound" || is.Latest != nil {
		t.Errorf("%+v", is)
	}
}

// Without a change there is no write, even if something is unknown.
func TestUnknownIsWrittenOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.put(t, gatePath, strings.Replace(watching, `"watch":true,`, "", 1))
	h.Serve(stage.Canary, 1, 0) // the entry of requests was not scraped
	h.Serve(stage.Baseline, 1, 0)
	g := h.process()
	h.look(g)
	first := h.get(gatePath)
	time.Sleep(1100 * time.Millisecond) // transition times have a resolution of one second
	h.look(g)
	if is := h.get(gatePath); !strings.Contains(is, `"status":"Unknown","type":"Measured"`) || is != first {
		t.Errorf("before\n%s\nafter\n%s", first, is)
	}
}

func TestMissingSaysWhatTheMessageSays(t *testing.T) {
	t.Parallel()
	for want, j := range map[string]verdict.Judgement{
		"none":                    {},
		"40 canary":               {Canary: verdict.Samples{Missing: 39.2}},
		"1200 canary, 7 baseline": {Canary: verdict.Samples{Missing: 40}, Baseline: verdict.Samples{Missing: 7}, Metrics: []verdict.MetricResult{{Missing: 1200}, {Missing: 9000, DryRun: true}}},
		"2 canary shards, 1 baseline shards": {
			Canary: verdict.Samples{ShardsMissing: 2}, Baseline: verdict.Samples{ShardsMissing: 1},
		},
	} {
		if got := missing(&j); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
