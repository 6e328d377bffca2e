// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"slices"
	"strings"
	"testing"
	"time"

	"knative.dev/pkg/apis"

	"github.com/knative-cdevents/knative-cdevents/api/v1alpha1"
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
	if l := h.gate().Status.Latest; l == nil || *l.Requests != (v1alpha1.GateRequests{}) ||
		*l.Missing != (v1alpha1.GateMissing{CanaryRequests: 100, BaselineRequests: 100}) {
		t.Fatalf("before the first judgement: %+v", l)
	}
	h.Serve(stage.Canary, 60, 0)
	h.look(g)
	h.look(g)
	is := h.gate().Status
	if l := is.Latest; is.Run != nil || l == nil || l.CustomRun != "cart" || l.Service != "cart" || l.Verdict != "Running" || l.Canary != "cart-00002" || l.Baseline != "cart-00001" ||
		*l.Requests != (v1alpha1.GateRequests{Canary: 60}) || *l.Missing != (v1alpha1.GateMissing{CanaryRequests: 40, BaselineRequests: 100}) {
		t.Fatalf("%+v", l)
	}
	h.Serve(stage.Canary, 0, 30)
	h.look(g)
	h.look(g)
	if l := h.gate().Status.Latest; l.Verdict != "Fail" || !slices.Equal(l.Reasons, []string{"RelativeRegression"}) {
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

const byReference = `{"apiVersion":"tekton.dev/v1beta1","kind":"CustomRun","metadata":{"name":"cart","namespace":"shop","uid":"u1"},"spec":
	{"customRef":{"apiVersion":"knative-cdevents.dev/v1alpha1","kind":"CanaryGate","name":"cart"}}}`

// The history has the gate's own runs and those of CustomRuns, newest first, and outlives both.
func TestHistory(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.put(t, gatePath, watching)
	h.Split(0)
	g := h.process()
	fail := func(percent int64) {
		h.Split(percent)
		for range 4 {
			h.Serve(stage.Canary, 0, 30)
			h.look(g)
		}
	}
	fail(10)
	h.put(t, runPath, byReference)
	fail(20)
	h.remove(runPath)
	g = h.process()
	fail(30)
	got := h.gate().Status.History
	if len(got) != 4 {
		t.Fatalf("%d runs: %+v", len(got), got)
	}
	ofTekton := 0
	for i, p := range got {
		if p.CustomRun == "cart" {
			ofTekton++
		}
		if p.Service != "cart" || p.Verdict != "Fail" || p.Reasons[0] != "RelativeRegression" || p.Canary != "cart-00002" || p.Baseline != "cart-00001" ||
			p.Requests.Canary < 30 || p.CompletionTime.Before(&p.StartTime) || i > 0 && got[i-1].CompletionTime.Before(&p.CompletionTime) {
			t.Errorf("%d: %+v", i, p)
		}
	}
	if ofTekton != 1 {
		t.Errorf("%d of CustomRuns: %+v", ofTekton, got)
	}
	h.put(t, gatePath, strings.Replace(h.get(gatePath), `"watch":true`, `"watch":true,"historyLimit":2`, 1))
	h.look(g)
	if less := h.gate().Status.History; !slices.EqualFunc(less, got[:2], samePast) {
		t.Errorf("with a limit of 2: %+v", less)
	}
}

// A suspended gate begins no run. One that has begun goes on.
func TestSuspendedGate(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.put(t, gatePath, strings.Replace(watching, `"watch":true`, `"watch":true,"suspend":true`, 1))
	g := h.process()
	h.look(g)
	if is := h.gate().Status; is.Run != nil || !is.GetCondition(apis.ConditionReady).IsTrue() && is.GetCondition(v1alpha1.GateServiceFound).IsFalse() ||
		!is.GetCondition(v1alpha1.GateValid).IsTrue() {
		t.Errorf("%+v", is)
	}
	h.put(t, gatePath, strings.Replace(h.get(gatePath), `"suspend":true`, `"suspend":false`, 1))
	h.look(g)
	h.look(g)
	first := h.gate().Status.Run
	if first == nil {
		t.Fatal("no run begins after the suspension")
	}
	h.put(t, gatePath, strings.Replace(h.get(gatePath), `"suspend":false`, `"suspend":true`, 1))
	for range 3 {
		h.Serve(stage.Canary, 0, 30)
		h.look(g)
	}
	h.Split(20)
	h.look(g)
	h.look(g)
	if run := h.gate().Status.Run; run.ID != first.ID || run.Verdict != "Fail" {
		t.Errorf("%+v", run)
	}
	h.put(t, runPath, byReference)
	h.look(g)
	h.says(runPath, "GateSuspended")
}

// A suspended gate begins no further attempt either.
func TestSuspensionEndsRetries(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.put(t, gatePath, strings.Replace(watching, `"watch":true,`, "", 1))
	h.put(t, runPath, strings.Replace(byReference, `"spec":`+"\n\t{", `"spec":{"retries":5,"timeout":"40s",`, 1))
	g := h.process()
	h.look(g)
	h.look(g)
	before := h.gate()
	h.put(t, gatePath, strings.Replace(h.get(gatePath), `"service":`, `"suspend":true,"service":`, 1))
	h.look(g)
	if h.customRun().Done() {
		t.Fatal("an attempt that had begun did not go on")
	}
	for range 10 {
		h.hear(g)
		if err := g.gates.GetStore().Add(before); err != nil { // the cache of gates is behind
			t.Fatal(err)
		}
		h.look(g, true)
	}
	h.says(runPath, "GateSuspended")
	if r := h.customRun(); !r.Done() || len(r.Status.RetriesStatus) != 1 {
		t.Errorf("%+v", r.Status)
	}
	h.collect(g)
	h.kept(runRecord, false)
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
	for want, j := range map[v1alpha1.GateMissing]verdict.Judgement{
		{CanaryRequests: 40}: {Canary: verdict.Samples{Missing: 40}},
		{CanaryRequests: 1200, BaselineRequests: 7}: {
			Canary: verdict.Samples{Missing: 40}, Baseline: verdict.Samples{Missing: 7},
			Metrics: []verdict.MetricResult{{Missing: 1200}, {Missing: 9000, DryRun: true}},
		},
		{CanaryShards: 2, BaselineShards: 1}: {
			Canary: verdict.Samples{ShardsMissing: 2}, Baseline: verdict.Samples{ShardsMissing: 1},
		},
	} {
		if got := missing(&j); got == nil || *got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	if got := missing(&verdict.Judgement{}); got != nil {
		t.Errorf("%+v of a judgement that lacks nothing", got)
	}
}
